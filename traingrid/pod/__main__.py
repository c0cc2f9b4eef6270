"""Entry point of a pod's containers: `python -m traingrid.pod prepare` and `python -m traingrid.pod results`."""

import os
import signal
import sys
import threading

if __name__ == "__main__":
    # Before the libraries are imported: without a handler, PID 1 of a container ignores SIGTERM. `results` continues
    # until everything is uploaded, regardless of the number of signals; `prepare` can end at any moment.
    training_ended = threading.Event()
    if sys.argv[1:] == ["results"]:
        signal.signal(signal.SIGTERM, lambda *_: training_ended.set())
    else:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    from traingrid.pod.main import run

    sys.exit(run(sys.argv[1:], os.environ, training_ended))
