"""`python -m batch_job`: what the orchestrator's container runs."""

import os
import sys

from traingrid.orchestrator import run_child

if __name__ == "__main__":
    sys.exit(run_child(os.environ))
