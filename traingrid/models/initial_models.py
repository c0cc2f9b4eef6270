"""Initial models: finds in the ledger the models with which lines begin (`init_from`).

The intake reads the ledger only. Commands also look at the archive of each model, and compare a line with the line of
the job that trained it, before they upload a manifest or retry a job; the intake may read neither.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from traingrid import names
from traingrid.aws.s3_uri import S3Uri
from traingrid.grid.residency import common_residency, is_resident
from traingrid.job.state import JobState
from traingrid.manifest.checks.queues import too_large_with_model
from traingrid.manifest.errors import LineError, ManifestError
from traingrid.manifest.problem import Problem, RefusedError, literal
from traingrid.models.fit import unfit
from traingrid.models.limits import check_copies, check_models, copy_size_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from traingrid.grid.deployment import Deployment
    from traingrid.job.initial_model import InitialModel
    from traingrid.job.job import Job
    from traingrid.ledger.items import JobItem
    from traingrid.ledger.ledger import Ledger
    from traingrid.ledger.submission_item import SubmissionItem
    from traingrid.manifest.line import Line
    from traingrid.models.archives import ModelArchives

_OTHER = "Name a completed job; `traingrid status SUBMISSION` lists them."


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """The job that trained a model.

    Attributes:
        job: Its line as it was submitted last; None if it is not read or not stored.
    """

    head: SubmissionItem
    item: JobItem
    job: Job | None

    @property
    def residency(self) -> tuple[str, ...]:
        """The geographies and Regions in which the model may be: those of the data that it was trained with."""
        return common_residency(self.item.residency, self.job.residency if self.job else ())


@dataclass(kw_only=True)
class InitialModels:
    """Finds the models of lines, and reads each job once.

    Attributes:
        submitted_job: Returns a job as it was last submitted, of any submission; None to read the ledger only.
        archives: Looks at the archives of the models; None for a caller that may not.
    """

    deployment: Deployment
    ledger: Ledger
    submitted_job: Callable[[SubmissionItem, JobItem], Job | None] | None = None
    archives: ModelArchives | None = None
    _found: dict[str, ModelSource | RefusedError] = field(default_factory=dict, init=False)
    _heads: dict[str, SubmissionItem | None] = field(default_factory=dict, init=False)

    def resolved(self, lines: Sequence[Line]) -> list[Line]:
        """Return the lines, those with `init_from` with the Region, the URI and the residency of their model.

        Raises:
            ManifestError: A model does not exist or cannot be used by its line, or the lines need too many models.
        """
        check_models(lines)
        errors: list[LineError] = []
        resolved_lines = [
            self._line(line, line.settings.init_from, errors) if line.settings.init_from else line for line in lines
        ]
        if errors:
            raise ManifestError(errors)
        check_copies(resolved_lines)
        return resolved_lines

    def _line(self, line: Line, model: InitialModel, errors: list[LineError]) -> Line:
        """Return a line with the URI of its initial model; append the first problem of the model to `errors`."""
        source = self._source(model)
        if isinstance(source, RefusedError):
            errors.append(_line_error(line, "init_from", str(model), source))
            return line
        problems = [
            *self._unreadable_problems((line.region, *line.replicas), source),
            *self._unfit_problems(line, source),
        ]
        errors += [_line_error(line, "init_from", str(model), problem) for problem in problems[:1]]
        resolved = model.model_copy(update={"region": source.item.region, "artifact": source.item.artifact})
        settings = replace(line.settings, init_from=resolved, residency=_passed_on(line, source))
        with_model = replace(line, settings=settings)
        for problem in too_large_with_model(with_model, self.deployment):
            errors.append(_line_error(line, problem.field, problem.value, problem))
        return with_model

    def model_problem(self, job: Job) -> RefusedError | None:
        """Return the reason why a submitted job cannot begin with its model any more; None if it can, or has none."""
        if job.init_from is None:
            return None
        source = self._source(job.init_from)
        return (
            source if isinstance(source, RefusedError) else next(self._unreadable_problems(job.regions, source), None)
        )

    def _source(self, model: InitialModel) -> ModelSource | RefusedError:
        if str(model) not in self._found:
            self._found[str(model)] = self._read(model)
        return self._found[str(model)]

    def _head(self, submission: str) -> SubmissionItem | None:
        """Return the item of a submission, which is read by its key, once for all of its models."""
        if submission not in self._heads:
            self._heads[submission] = self.ledger.submission(submission)
        return self._heads[submission]

    def _read(self, model: InitialModel) -> ModelSource | RefusedError:
        submission_item = self._head(model.submission)
        if submission_item is None:
            return RefusedError(f"this grid has no submission {model.submission}", "`traingrid status` lists them.")
        if model.index >= submission_item.jobs:
            indexes = "only index 0" if submission_item.jobs == 1 else f"the indexes 0 to {submission_item.jobs - 1}"
            return RefusedError(f"submission {model.submission} has {indexes}", "Write one of its indexes.")
        item = self.ledger.job(model.submission, model.index)
        state = item.state if item else JobState.PENDING
        if item is None or state != JobState.COMPLETED:
            reason = f"job {model.index} of submission {model.submission} is {state}, and only a completed job has"
            return RefusedError(f"{reason} a model to begin with", _OTHER)
        if not item.model:
            reason = f"job {model.index} of submission {model.submission} has written no model"
            return RefusedError(reason, _OTHER)
        job = self.submitted_job(submission_item, item) if self.submitted_job else None
        return ModelSource(head=submission_item, item=item, job=job)

    def _unreadable_problems(self, regions: Sequence[str], source: ModelSource) -> Iterator[RefusedError]:
        """Yield the reasons why a model cannot be used in Regions."""
        for region in regions:
            if region != source.item.region:
                yield from self._check_copy(region, source)
        yield from self._bucket_problems(source.item)
        if self.archives is None:
            return
        archive = self.archives.look(source.item.artifact, source.item.region)
        home_of_model = source.item.region
        problem = archive.refused
        if not problem and any(region != home_of_model for region in regions):
            problem = copy_size_problem(archive.size or 0, home_of_model)
        if problem:
            yield problem

    def _bucket_problems(self, item: JobItem) -> Iterator[RefusedError]:
        """Yield an error for a model in a bucket that is not the output bucket of its Region any more.

        The roles of the grid may only read the output bucket of the Region's present account.
        """
        if item.region not in self.deployment.grid.regions:
            return
        account = self.deployment.account_of(item.region)
        bucket = S3Uri.parse(item.artifact).bucket
        if bucket != names.output_bucket(self.deployment.grid.name, account, item.region):
            reason = f"its archive is in {bucket}, which is not the output bucket of {item.region} in {account}"
            yield RefusedError(f"{reason}, the account that grid.yaml has now", _OTHER)

    def _unfit_problems(self, line: Line, source: ModelSource) -> Iterator[RefusedError]:
        """Yield the reasons why a line cannot begin with a model, as far as its job's line is read."""
        if source.job:
            yield from unfit(line, source.job, self.deployment)

    def _check_copy(self, region: str, source: ModelSource) -> Iterator[RefusedError]:
        """Yield the reasons why a model cannot be copied to another Region."""
        grid, trained = self.deployment.grid, source.item.region
        place = f"the model is in {trained}"
        train = f"Train in {trained}"
        if trained not in grid.regions:
            yield RefusedError(f"{place}, which is not a Region of this grid any more", f"Add {trained} to grid.yaml.")
            return
        if not grid.moves:
            step = f"{train}, or write `moves: true` in grid.yaml and deploy."
            yield RefusedError(f"{place}, and this grid does not copy data to {region}", step)
        if other_accounts := sorted({region, trained} & grid.other_accounts().keys()):
            step = f"{train}, or copy the archive and give it to a script as a channel of inputs."
            yield RefusedError(f"{place}, and {other_accounts[0]} is in another account than the home Region", step)
        if not grid.may_hold(region, trained):
            areas = ", ".join(grid.regions[trained].residency)
            yield RefusedError(f"{place}, and grid.yaml allows its data only in {areas}, not in {region}", f"{train}.")
        if not is_resident(region, source.residency):
            areas = ", ".join(source.residency)
            reason = f"{place}, and its line allows the data only in {areas}, not in {region}"
            yield RefusedError(reason, f"{train}.")


def _passed_on(line: Line, source: ModelSource) -> tuple[str, ...] | None:
    """Return the residency of a line that begins with a model, because the new model may contain the data of both."""
    return common_residency(line.settings.residency or (), source.residency) or None


def _line_error(line: Line, name: str, value: object, refused: RefusedError | Problem) -> LineError:
    facts: dict[str, Any] = {"reason": refused.reason, "next_step": refused.next_step}
    return LineError(line=line.number, field=name, value=literal(value), **facts)
