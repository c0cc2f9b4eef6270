"""Job page: everything that is known about one job."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from traingrid.api.description import console_of, trained_layout
from traingrid.api.logs import LogReader
from traingrid.errors import TraingridError, UsageError
from traingrid.job.candidates import place
from traingrid.job.data_layout import folder_of
from traingrid.job.job import job_in_region
from traingrid.job.state import JobState
from traingrid.ledger.damage import warn
from traingrid.submission.manifest_text import header_of, lines_of, manifest_content
from traingrid.submission.status import JobStatus
from traingrid.submission.submitted_jobs import last_submitted_jobs

if TYPE_CHECKING:
    from pathlib import Path

    from traingrid.api.control_plane import ControlPlane
    from traingrid.grid.model import GridSettings
    from traingrid.job.job import Job
    from traingrid.ledger.items import JobItem
    from traingrid.ledger.submission_item import SubmissionItem

MOST_LOG_LINES = 1000
_RETRIED = (JobState.FAILED, JobState.STOPPED)
_DELIMITER = "END_OF_MANIFEST"
_ABSENT = "none: the folder has no data for it"


@dataclass(kw_only=True)
class _JobLog(LogReader):
    """The log of a job that is known already, which saves reading its submission."""

    job: JobStatus

    def jobs(self) -> list[JobStatus]:
        """Return the job."""
        return [self.job]


def job_page(plane: ControlPlane, grid_file: Path, submission: str, index: int) -> dict[str, Any]:
    """Return the content of the page of a job, as values that can be written as JSON.

    Args:
        grid_file: The path of grid.yaml, for the commands.

    Raises:
        UsageError: The submission or the job does not exist.
    """
    submission_item, item = _found(plane, submission, index)
    job = _job(plane, submission_item, index)
    line = _manifest_line(plane, submission_item, job.line if job else item.line if item else 0)
    return {
        "line": line,
        "settings": _settings(job, _inputs(plane, job, item)) if job else {},
        "attempts": _attempts(item, plane.deployment.grid),
        "artifacts": _artifacts(job, item),
        "commands": _commands(grid_file, submission, index, line, may_retry=bool(item and item.state in _RETRIED)),
    }


def log_tail(plane: ControlPlane, submission: str, index: int, count: int) -> tuple[list[dict[str, Any]], str, str]:
    """Return the last log lines of a job's last attempt, its Region, and the error of the Region (empty if none).

    Raises:
        UsageError: The submission or the job does not exist.
    """
    _, item = _found(plane, submission, index)
    if item is None or not item.training_job:
        return [], "", ""
    status = JobStatus(
        index=index,
        region=item.region,
        backend=item.backend,
        name=item.name,
        state=JobState(item.state),
        training_job=item.training_job,
    )
    reader = _JobLog(plane=plane, submission=submission, index=index, job=status)
    lines: list[dict[str, Any]] = []
    error = ""
    try:
        lines.extend(  # the lines of Regions that answer come before the error
            {"time": line.milliseconds, "host": line.host, "text": line.text}
            for line in reader.lines(min(count, MOST_LOG_LINES))
        )
    except TraingridError:
        if not reader.errors:
            raise
        error = "; ".join(reader.errors.values())
    return lines, item.region, error


def _found(plane: ControlPlane, submission: str, index: int) -> tuple[SubmissionItem, JobItem | None]:
    submission_item = plane.head(submission)
    if not 0 <= index < submission_item.jobs:
        text = f"Submission {submission} has no job with index {index}."
        raise UsageError(text, f"Its indexes are 0 to {submission_item.jobs - 1}.")
    return submission_item, plane.ledger.job(submission, index)


def _job(plane: ControlPlane, submission_item: SubmissionItem, index: int) -> Job | None:
    """Return the job as it was last submitted; None if its line is not stored."""
    return last_submitted_jobs(plane.storage, plane.deployment.manifest_bucket, submission_item, warn).get(index)


def _manifest_line(plane: ControlPlane, submission_item: SubmissionItem, number: int) -> dict[str, Any]:
    """Return a line of the manifest as the user wrote it, with the header of its CSV file if it has one."""
    content = manifest_content(plane.storage, submission_item) if number else None
    if content is None:
        return {"number": number, "header": "", "text": ""}
    lines = lines_of(content)
    text = lines[number - 1] if number <= len(lines) else ""
    return {"number": number, "header": header_of(content), "text": text}


def _inputs(plane: ControlPlane, job: Job, item: JobItem | None) -> dict[str, str]:
    """Return the place of each channel, those that the training found in its folder; the folder before it did."""
    region = item.region if item else job.region
    regional = job_in_region(job, region) if region in job.regions else job
    layout = trained_layout(plane, job, region, item.training_job) if item else None
    if job.by_layout and not layout:
        return {"data": str(folder_of(regional.inputs)).rstrip("/")}
    inputs = layout.inputs(regional.inputs) if layout else regional.inputs
    absent = layout.absent if layout else ()
    places = {name: channel.location for name, channel in inputs.items()} | dict.fromkeys(absent, _ABSENT)
    return {f"input {name}": location for name, location in places.items()}


def _settings(job: Job, inputs: dict[str, str]) -> dict[str, Any]:
    """Return the settings that a person looks at first; all fields of the line are in its text."""
    names = ("instance_type", "instance_count", "processes_per_host", "spot", "image", "algorithm", "entry_point")
    fields = {name: value for name in names if (value := getattr(job, name)) not in ("", False)}
    parameters = {f"hyperparameter {name}": value for name, value in job.hyperparameters.items()}
    tags = {f"tag {name}": value for name, value in job.tags.items()}
    return (
        fields
        | {"hosts": ", ".join(f"algo-{number + 1}" for number in range(job.instance_count))}
        | (inputs | parameters | tags)
    )


def _attempts(item: JobItem | None, grid: GridSettings) -> list[dict[str, Any]]:
    return [
        {
            "attempt": number,
            "region": place(*attempt.candidate),
            "state": attempt.state,
            "failure": attempt.failure,
            "reason": attempt.reason,
            "training_job": attempt.training_job,
            "console": console_of(grid, attempt.region, attempt.backend, attempt.training_job),
            "billable_seconds": attempt.billable_seconds,
            "checkpoint": attempt.checkpoint_sentence,
        }
        for number, attempt in sorted(item.attempts().items() if item else ())
    ]


def _artifacts(job: Job | None, item: JobItem | None) -> dict[str, str]:
    uris = {"model": item.model if item else "", "results": job.output if job else ""}
    if job:
        uris["checkpoints"] = job.checkpoints
    return {name: uri for name, uri in uris.items() if uri}


def _commands(grid_file: Path, submission: str, index: int, line: dict[str, Any], *, may_retry: bool) -> dict[str, str]:
    """Return commands for a shell; none that contains a control character of the manifest."""
    command = f"traingrid --grid {shlex.quote(str(grid_file))}"
    commands = {
        "log": f"{command} logs {submission} {index}",
        "log of the child": f"{command} logs --child {submission} {index}",
        "download the model": f"{command} download {submission} {index}",
    }
    if may_retry:
        commands["retry this job"] = f"{command} retry {submission} --index {index}"
        commands["retry all failed and stopped jobs of the submission"] = f"{command} retry {submission}"
    text = "".join(f"{part}\n" for part in (line["header"], line["text"]) if part)
    if line["text"] and text.replace("\n", "").replace("\t", "").isprintable() and _DELIMITER not in text:
        file = f"{submission}-{index}.{'jsonl' if line['text'].lstrip().startswith('{') else 'csv'}"
        again = f"cat >{file} <<'{_DELIMITER}'\n{text}{_DELIMITER}\n{command} submit {file}"
        commands["train this line again, as a new submission"] = again
    return commands
