"""Entry point of the orchestrator's container: `python -m batch_job`."""

import os
import signal
import sys

from traingrid.job.failures import TRY_AGAIN

if __name__ == "__main__":
    # Until the orchestrator installs its own handler: a child that is terminated while it imports its libraries has
    # started nothing, so it can be retried. Without a handler, PID 1 of a container ignores SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(TRY_AGAIN))
    from traingrid.child.main import run_child

    sys.exit(run_child(os.environ))
