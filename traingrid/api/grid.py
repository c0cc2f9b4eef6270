"""Grid: a deployed grid, in which manifests are submitted."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from traingrid.api.control_plane import ControlPlane
from traingrid.api.job_lines import manifest_of, rows_of
from traingrid.api.rounds import open_rounds
from traingrid.api.script_folder import stage_folders
from traingrid.api.series import compared_submissions, reported_subject
from traingrid.api.steps import POLL_SECONDS
from traingrid.api.submission import Submission
from traingrid.api.submit import Progress, submit_manifest
from traingrid.api.sweep import open_sweep
from traingrid.ledger.damage import readable, warn
from traingrid.metrics.comparison import compare
from traingrid.report.document import write_report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from traingrid.api.job_lines import Jobs
    from traingrid.api.rounds import RoundsResult
    from traingrid.api.source_folders import PackedSource
    from traingrid.api.sweep import SweepResult
    from traingrid.ledger.submission_item import SubmissionItem
    from traingrid.metrics.comparison import Comparison
    from traingrid.rounds.rounds import RoundsProgress
    from traingrid.sweep.sweep import SweepProgress

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Grid:
    """A deployed grid.

        grid = tg.Grid.load("grid.yaml")
        submission = grid.submit("manifest.csv")

    Requests use the AWS credentials and endpoint of the environment, as the AWS CLI does.

    Attributes:
        plane: The services of the home Region. Internal; it may change with every release.
    """

    plane: ControlPlane

    def __repr__(self) -> str:
        grid = self.plane.deployment.grid
        return f"<Grid {grid.name} in {', '.join(grid.regions)}>"

    @classmethod
    def load(cls, grid_file: str | PathLike[str] = "grid.yaml") -> Self:
        """Return the deployed grid that a file describes.

        Args:
            grid_file: The path of grid.yaml. Only its name and home Region are used; all else is read from the
                deployment.

        Raises:
            TraingridError: The file is invalid, the grid is not deployed, or AWS does not answer.
        """
        return cls(ControlPlane.of(Path(grid_file)))

    @property
    def name(self) -> str:
        """The name of the grid."""
        return self.plane.deployment.grid.name

    @property
    def home(self) -> str:
        """The home Region, with the ledger and the Batch job queue."""
        return self.plane.deployment.grid.home

    @property
    def regions(self) -> tuple[str, ...]:
        """The training Regions."""
        return tuple(self.plane.deployment.grid.regions)

    def submit(
        self,
        jobs: Jobs | str | PathLike[str],
        name: str = "jobs.jsonl",
        announce: Callable[[str], None] = logger.info,
    ) -> Submission:
        """Submit jobs, and wait until the intake has submitted or rejected them.

        Args:
            jobs: The path of a manifest; or the jobs themselves, as dictionaries or as a pandas DataFrame, with the
                fields of a manifest, such as those of `from_model_trainer`. Values that are None or NaN are left out.
            name: The name of the manifest that is made from dictionaries or a DataFrame. Source folders are relative
                to the current folder.
            announce: Receives a sentence for each upload.

        Returns:
            The submission. Its jobs may be waiting or running.

        Raises:
            TraingridError: The jobs are invalid, in which case none was submitted; or AWS does not answer.
        """
        sources: list[PackedSource] = []
        if isinstance(jobs, (str, PathLike)):
            path, content = Path(jobs), None
        else:
            rows, sources = stage_folders(rows_of(jobs), self.plane.deployment)
            path, content = Path(name), manifest_of(rows)
        report = submit_manifest(path, self.plane.deployment, Progress(announce=announce), content, sources)
        return Submission(self, report["submission"])

    def submission(self, submission: str) -> Submission:
        """Return a submission by its id, or by a prefix of its id.

        Args:
            submission: The first characters of the id, or all.

        Raises:
            UsageError: No submission has this id, or several start with it.
        """
        return Submission(self, self.plane.head(self.plane.submission_id(submission)).submission)

    def compare(self, *submissions: str, metric: str | None = None, lowest: bool | None = None) -> Comparison:
        """Compare all jobs of some submissions, the best first, with the hyperparameters in which they differ.

        Args:
            submissions: The ids of the submissions, or their first characters; `sweep:NAME` for all trials of a sweep;
                `rounds:NAME` for the global models of all rounds.
            metric: The metric by which the jobs are ordered; by default an accuracy or a loss that they have.
            lowest: Whether a lower value is better; by default the name of the metric decides.

        Raises:
            UsageError: A submission does not exist, or no job has the metric.
            TraingridError: A Region does not return the history of the metric.
        """
        ids = [submission for name in submissions for submission in compared_submissions(self.plane, name)]
        return compare(self.plane, ids, metric, lowest=lowest)

    def report(self, name: str, path: str | PathLike[str]) -> Path:
        """Write a submission, or all jobs of a sweep or of rounds, as one HTML file, as `Submission.report` does.

        Args:
            name: The id of a submission, `sweep:NAME` or `rounds:NAME`.
            path: The file. An earlier report is replaced; another file is not.

        Returns:
            The path.

        Raises:
            UsageError: There is none of this name, or the file exists and is not a report.
        """
        write_report(self.plane, reported_subject(self.plane, name), Path(path))
        return Path(path)

    def sweep(
        self,
        spec: str | PathLike[str] | Mapping[str, Any],
        report: Callable[[SweepProgress], object] = lambda _progress: None,
        poll: float = POLL_SECONDS,
        announce: Callable[[str], None] = logger.info,
    ) -> SweepResult:
        """Train one model with many hyperparameters, and return the best trial when all have ended.

        A call after an interrupted one continues the sweep: its trials continue meanwhile, and none is trained twice.

        Args:
            spec: The path of the sweep's YAML file, or its content, which then needs a name.
            report: Receives the trials after each step.
            poll: The seconds between two steps.
            announce: Receives a sentence for each upload, submission and cancel.

        Returns:
            The trials, and the best of them with a manifest that trains it longer.

        Raises:
            UsageError: The specification is invalid, or a sweep of this name has another one.
            TraingridError: No trial has completed with the metric, or AWS refuses a request.
        """
        return open_sweep(self.plane, spec, announce).run(report, poll)

    def rounds(
        self,
        spec: str | PathLike[str] | Mapping[str, Any],
        report: Callable[[RoundsProgress], object] = lambda _progress: None,
        poll: float = POLL_SECONDS,
        announce: Callable[[str], None] = logger.info,
    ) -> RoundsResult:
        """Train one model on the data of several Regions in rounds, and return the rounds when all have ended.

        In each round, each Region trains the last global model on its own data, and a job merges their models into the
        next global model. A call after an interrupted one continues: no contribution counts twice.

        Args:
            spec: The path of the YAML file of the rounds, or its content, which then needs a name.
            report: Receives the rounds after each step.
            poll: The seconds between two steps.
            announce: Receives a sentence for each copy, submission and cancel.

        Returns:
            The rounds, the last of which has the final model.

        Raises:
            UsageError: The specification is invalid, or rounds of this name have another one.
            TraingridError: A Region is missing, a merge has failed, or AWS refuses a request.
        """
        return open_rounds(self.plane, spec, announce).run(report, poll)

    def submissions(self) -> list[SubmissionItem]:
        """Return all submissions of the ledger, newest first. Those that cannot be read are logged as warnings."""
        return list(readable(self.plane.ledger.submissions(), warn))
