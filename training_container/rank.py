"""One rank: the program that mpirun or Gloo starts in every process slot."""

import os
import socket
import sys
import traceback
from pathlib import Path
from types import TracebackType

from training_container.contract import Folders, read_training_job, sagemaker_variables
from training_container.failure import report_line
from training_container.stopping import LAUNCHER, STOP_FILE, StoppedError, StopRequest, end_with
from training_container.trainer.config import Config


def main() -> None:
    """Train on this rank; a failure is reported to the launcher and ends the process at once."""
    sys.excepthook = _report_and_end
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # both are text files here
    stop = StopRequest(Path(os.environ[STOP_FILE]) if STOP_FILE in os.environ else None)
    if LAUNCHER in os.environ and _number() == 0:
        end_with(int(os.environ[LAUNCHER]))
    job = read_training_job(Folders.from_environment(os.environ))
    os.environ.update(sagemaker_variables(job))
    config = Config.from_hyperparameters(job.hyperparameters)

    from training_container.trainer.loop import train  # noqa: PLC0415  # TensorFlow: seconds, and not before the checks

    try:
        train(job, config, stop.requested)
    except StoppedError as stopped:
        if _number() == 0:
            print(stopped)


def _number() -> int:
    """Return this rank's number before Horovod knows it, from what Open MPI or Horovod's launcher sets."""
    return int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("HOROVOD_RANK") or 0)


def _report_and_end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    traceback.print_exception(kind, error, trace)
    host = os.environ.get("SM_CURRENT_HOST", socket.gethostname())
    print(report_line(_number(), host, error, trace), file=sys.stderr, flush=True)
    sys.stdout.flush()
    # No orderly exit: Horovod's would wait for ranks that wait for this one.
    os._exit(1)


if __name__ == "__main__":
    main()
