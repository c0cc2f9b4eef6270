"""traingrid: runs each line of a manifest as a training job in the AWS Region that holds its data.

    import traingrid as tg

    grid = tg.Grid.load("grid.yaml")
    submission = grid.submit("manifest.csv")
    submission.wait()

`__all__` lists the public names. Other modules may change with every release.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traingrid.api.description import JobDescription
    from traingrid.api.grid import Grid
    from traingrid.api.logs import LogLine
    from traingrid.api.model_trainer import from_model_trainer
    from traingrid.api.rounds import RoundsResult
    from traingrid.api.script_folder import ScriptFolder
    from traingrid.api.submission import Submission
    from traingrid.api.sweep import SweepResult
    from traingrid.errors import TraingridError, UsageError
    from traingrid.job.state import JobState
    from traingrid.ledger.submission_item import SubmissionItem
    from traingrid.merge.line import MergeRequest
    from traingrid.metrics.comparison import ComparedJob, Comparison
    from traingrid.metrics.points import MetricPoint
    from traingrid.rounds.rounds import RoundsProgress
    from traingrid.rounds.state import Round, RoundsState
    from traingrid.submission.cancel import CancelReport
    from traingrid.submission.overview import SubmissionOverview
    from traingrid.submission.retry import Retried
    from traingrid.submission.status import JobStatus, SubmissionStatus
    from traingrid.sweep.state import SweepState, Trial
    from traingrid.sweep.sweep import SweepProgress

__version__ = "0.1.0"

__all__ = [
    "CancelReport",
    "ComparedJob",
    "Comparison",
    "Grid",
    "JobDescription",
    "JobState",
    "JobStatus",
    "LogLine",
    "MergeRequest",
    "MetricPoint",
    "Retried",
    "Round",
    "RoundsProgress",
    "RoundsResult",
    "RoundsState",
    "ScriptFolder",
    "Submission",
    "SubmissionItem",
    "SubmissionOverview",
    "SubmissionStatus",
    "SweepProgress",
    "SweepResult",
    "SweepState",
    "TraingridError",
    "Trial",
    "UsageError",
    "__version__",
    "from_model_trainer",
]

_MODULES = {
    "CancelReport": "traingrid.submission.cancel",
    "ComparedJob": "traingrid.metrics.comparison",
    "Comparison": "traingrid.metrics.comparison",
    "Grid": "traingrid.api.grid",
    "JobDescription": "traingrid.api.description",
    "JobState": "traingrid.job.state",
    "JobStatus": "traingrid.submission.status",
    "LogLine": "traingrid.api.logs",
    "MergeRequest": "traingrid.merge.line",
    "MetricPoint": "traingrid.metrics.points",
    "Retried": "traingrid.submission.retry",
    "Round": "traingrid.rounds.state",
    "RoundsProgress": "traingrid.rounds.rounds",
    "RoundsResult": "traingrid.api.rounds",
    "RoundsState": "traingrid.rounds.state",
    "ScriptFolder": "traingrid.api.script_folder",
    "Submission": "traingrid.api.submission",
    "SubmissionItem": "traingrid.ledger.submission_item",
    "SubmissionOverview": "traingrid.submission.overview",
    "SubmissionStatus": "traingrid.submission.status",
    "SweepProgress": "traingrid.sweep.sweep",
    "SweepResult": "traingrid.api.sweep",
    "SweepState": "traingrid.sweep.state",
    "TraingridError": "traingrid.errors",
    "Trial": "traingrid.sweep.state",
    "UsageError": "traingrid.errors",
    "from_model_trainer": "traingrid.api.model_trainer",
}
# Lambda functions and Batch children import this package without the libraries of the API, and start faster without it.


def __getattr__(name: str) -> Any:
    """Import a public name when it is used first (https://peps.python.org/pep-0562/)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
