"""`python -m batch_job`: what the orchestrator's container runs."""

import os
import signal
import sys

from traingrid.failures import TRY_AGAIN

if __name__ == "__main__":
    # Until the orchestrator listens itself: a child that is told to end while it reads its libraries has begun nothing,
    # and as its container's first process it would not even hear it.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(TRY_AGAIN))
    from traingrid.orchestrator import run_child

    sys.exit(run_child(os.environ))
