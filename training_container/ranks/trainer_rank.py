"""Rank: the program that mpirun, Gloo or torchrun starts in every process slot."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from training_container.contract.rank_variables import MARK_OUTPUT
from training_container.contract.stopping import STOP_FILE, StoppedError, StopRequest
from training_container.contract.toolkit import sagemaker_variables
from training_container.contract.training_job import Folders, TrainingJob, read_training_job
from training_container.ranks import leftovers, rank_process
from training_container.ranks.marked_output import MarkedOutput
from training_container.recipe.config import TORCH, Config, framework_of


def main() -> None:
    """Train on this rank. A failure is reported to the launcher, and ends the process immediately."""
    if marks_output := MARK_OUTPUT in os.environ:  # torchrun neither marks lines nor reports the death of a rank
        leftovers.keep(MarkedOutput(rank_process.rank_number(), os.environ["SM_CURRENT_HOST"]))
    rank_process.begin()
    stop = StopRequest(Path(os.environ[STOP_FILE]) if STOP_FILE in os.environ else None)
    job = read_training_job(Folders.from_environment(os.environ), sys.argv[1:])
    os.environ.update(sagemaker_variables(job))
    if marks_output:
        rank_process.check_position(job)
    config = Config.from_hyperparameters(job.hyperparameters, framework_of(job.launch.launcher))
    train = _trainer(framework_of(job.launch.launcher))
    try:
        train(job, config, stop.is_requested)
    except StoppedError as stopped:
        if rank_process.rank_number() == 0:
            print(stopped)
    except Exception as error:  # noqa: BLE001  # torch.distributed replaces sys.excepthook, and collects its output
        rank_process.report_and_end(type(error), error, error.__traceback__)


def _trainer(framework: str) -> Callable[[TrainingJob, Config, Callable[[], bool]], None]:
    """Return the loop of a framework, whose import takes seconds."""
    if framework == TORCH:
        from training_container.torch_trainer import loop as torch_loop  # noqa: PLC0415  # see above

        return torch_loop.train
    from training_container.trainer import loop  # noqa: PLC0415  # see above

    return loop.train


if __name__ == "__main__":
    main()
