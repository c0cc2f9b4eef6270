"""Entry point of a pod's containers: `python -m traingrid.pod prepare` and `python -m traingrid.pod results`.

`python -m traingrid.pod ready` is the startup probe of the container `results`: the training starts after SIGTERM has a
handler. Otherwise, after a training that ends at once, for example for a wrong entry point, the kubelet would send
SIGTERM too early, and `results` would end without its results.
"""

import os
import signal
import sys
import threading
from pathlib import Path

READY = Path(os.environ.get("SAGEMAKER_BASE_DIR") or "/opt/ml") / ".results-are-collected"

if __name__ == "__main__":
    # Before the libraries are imported: without a handler, SIGTERM would end `results`. It continues until everything
    # is uploaded, regardless of the number of signals; `prepare` can end at any moment.
    training_ended = threading.Event()
    if sys.argv[1:] == ["ready"]:
        sys.exit(not READY.exists())
    if sys.argv[1:] == ["results"]:
        signal.signal(signal.SIGTERM, lambda *_: training_ended.set())
        READY.parent.mkdir(parents=True, exist_ok=True)
        READY.touch()
    else:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    from traingrid.pod.main import run

    sys.exit(run(sys.argv[1:], os.environ, training_ended))
