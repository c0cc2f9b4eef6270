"""Rank: the program that mpirun or Gloo starts in every process slot."""

import os
import sys
from pathlib import Path

from training_container.contract.stopping import STOP_FILE, StoppedError, StopRequest
from training_container.contract.toolkit import sagemaker_variables
from training_container.contract.training_job import Folders, read_training_job
from training_container.ranks import rank_process
from training_container.recipe.config import Config


def main() -> None:
    """Train on this rank. A failure is reported to the launcher, and ends the process immediately."""
    rank_process.begin()
    stop = StopRequest(Path(os.environ[STOP_FILE]) if STOP_FILE in os.environ else None)
    job = read_training_job(Folders.from_environment(os.environ), sys.argv[1:])
    os.environ.update(sagemaker_variables(job))
    config = Config.from_hyperparameters(job.hyperparameters)

    from training_container.trainer.loop import train  # noqa: PLC0415  # imports TensorFlow: seconds, so check first

    try:
        train(job, config, stop.is_requested)
    except StoppedError as stopped:
        if rank_process.rank_number() == 0:
            print(stopped)


if __name__ == "__main__":
    main()
