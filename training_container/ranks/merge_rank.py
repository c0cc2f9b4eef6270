"""Merge rank: the program of the single rank that merges the models of several jobs."""

import os
import sys
import tempfile
from pathlib import Path

from training_container.contract.stopping import STOP_FILE, StoppedError, StopRequest
from training_container.contract.toolkit import sagemaker_variables
from training_container.contract.training_job import Folders, read_training_job
from training_container.merge import options as merge_options
from training_container.merge import parts as merge_parts
from training_container.ranks import rank_process


def main() -> None:
    """Merge the models. A failure is reported to the launcher, and ends the process immediately."""
    rank_process.begin()
    stop = StopRequest(Path(os.environ[STOP_FILE]) if STOP_FILE in os.environ else None)
    job = read_training_job(Folders.from_environment(os.environ), sys.argv[1:])
    os.environ.update(sagemaker_variables(job))
    options = merge_options.check(job)
    with tempfile.TemporaryDirectory(prefix="traingrid-merge-") as scratch:
        parts = merge_parts.unpack(job.channels[merge_options.CHANNEL], Path(scratch), options.count)
        if options.method == "parts":
            count = merge_parts.join(parts, job.folders.model, options.layout)
            print(f"Joined {count} files of {len(parts)} models.")
            return
        if options.method == "weights":
            from training_container.merge.script_weights import merge_weights as merge  # noqa: PLC0415  # NumPy: check first
        else:
            from training_container.merge.merge import merge_networks as merge  # noqa: PLC0415  # TensorFlow: check first

        try:
            merge(job, options, parts, stop.is_requested)
        except StoppedError as stopped:
            print(stopped)


if __name__ == "__main__":
    main()
