"""Sweep API: runs the sweep of a specification in a deployed grid, and returns its best trial."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

from traingrid.api.base_lines import lines_of, manifest_of, problems_of
from traingrid.api.control_plane import ControlPlane
from traingrid.api.source_folders import packed
from traingrid.api.steps import POLL_SECONDS, run_steps
from traingrid.api.sweep_jobs import SweepJobs
from traingrid.errors import TraingridError
from traingrid.grid.model import GridSettings
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.hardware_warnings import line_warnings, warning_sentences
from traingrid.manifest.json_lines import json_lines
from traingrid.manifest.line import Line, default_metrics, is_algorithm
from traingrid.manifest.parse import parse
from traingrid.manifest.spec_file import SpecError, SpecFile
from traingrid.sweep.journal import sweep_journal
from traingrid.sweep.spec import HYPERPARAMETER, Parameters, SweepSpec
from traingrid.sweep.spec_file import SWEEP_FORMAT
from traingrid.sweep.state import SweepState, Trial
from traingrid.sweep.sweep import Sweep, SweepProgress
from traingrid.sweep.trial_lines import name_of, trial_line
from traingrid.text import counted, shown

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """The result of a sweep.

    Attributes:
        name: The name of the sweep.
        metric: The metric of its objective.
        direction: "maximize" or "minimize".
        trials: All trials, by number.
        best: The trial with the best last value among the completed ones with a model.
        manifest: A manifest with the line of the best trial, changed by the key `final`, to train it longer.
        is_out_of_budget: True if the sweep ended because its trials had cost the budget.
    """

    name: str
    metric: str
    direction: str
    trials: tuple[Trial, ...]
    best: Trial
    manifest: str
    is_out_of_budget: bool = False

    @property
    def parameters(self) -> Parameters:
        """The searched hyperparameters of the best trial."""
        return self.best.parameters

    @property
    def value(self) -> float:
        """The metric of the best trial."""
        assert self.best.value is not None  # noqa: S101  # for the type checker: the best trial is complete
        return self.best.value


@dataclass(frozen=True, kw_only=True)
class OpenSweep:
    """A sweep of a valid specification.

    Attributes:
        upload: Uploads the packed source folders.
    """

    spec: SweepSpec
    sweep: Sweep
    upload: Callable[[], None]

    def run(
        self, report: Callable[[SweepProgress], object] = lambda _progress: None, poll: float = POLL_SECONDS
    ) -> SweepResult:
        """Run until all trials have ended, and return the best.

        Args:
            report: Receives the progress after each step.
            poll: The seconds between two steps.

        Raises:
            TraingridError: No trial has reported the metric, a batch is rejected, or AWS refuses a request.
        """
        if not self.sweep.begin().trials:
            self.upload()
        return self.result(run_steps(self.sweep.step, report, poll).state)

    def result(self, state: SweepState) -> SweepResult:
        """Return the result of an ended sweep.

        Raises:
            TraingridError: No trial has completed with a model and reported the metric.
        """
        best = state.best(self.spec.objective)
        if best is None:
            raise no_result_error(self.spec, state)
        line = trial_line(self.spec, self.sweep.lines[best.line], best.parameters) | {
            "name": f"{name_of(self.spec, best.number)}-best"
        }
        return SweepResult(
            name=self.spec.name,
            metric=self.spec.objective.metric,
            direction=self.spec.objective.direction,
            trials=tuple(state.trials.values()),
            best=best,
            manifest=json_lines([line | self.spec.final]),
            is_out_of_budget=state.is_out_of_budget(self.spec.budget_dollars),
        )


def open_sweep(
    plane: ControlPlane,
    spec: str | PathLike[str] | Mapping[str, Any],
    announce: Callable[[str], None] = logger.info,
    warn: Callable[[str], None] = logger.warning,
) -> OpenSweep:
    """Read and check a specification; upload and submit nothing.

    Args:
        spec: The path of a YAML file, or its content.
        announce: Receives a sentence for each upload, submission and cancel.
        warn: Receives a sentence for each hardware warning of the base lines.

    Raises:
        UsageError: The specification is invalid; the text has all errors with line and key.
    """
    file = SWEEP_FORMAT.open(spec, "sweep")
    packed_manifest = packed(file.path, plane.deployment, manifest_of(file.document, file.spec.lines))
    checked = _check_lines(file, plane, packed_manifest.content)
    grid = plane.deployment.grid
    for sentence in warning_sentences(enumerate((line_warnings(line, grid) for line in checked), 1)):
        warn(sentence)
    lines: list[Mapping[str, Any]] = [*lines_of(packed_manifest.content)]
    bucket = plane.deployment.manifest_bucket
    sweep = Sweep(
        spec=file.spec,
        lines=lines,
        journal=sweep_journal(plane.storage, bucket, file.spec.name),
        grid=SweepJobs(plane=plane, announce=announce),
    )
    return OpenSweep(spec=file.spec, sweep=sweep, upload=lambda: packed_manifest.upload(announce))


def no_result_error(spec: SweepSpec, state: SweepState) -> TraingridError:
    """Return the error of a sweep in which no trial completed with a model and reported the metric."""
    ended = [(trial, trial.ended) for trial in state.trials.values() if trial.ended]
    trials = counted(len(ended), "trial")
    status_command = f"traingrid status {ended[0][0].submission}" if ended else "traingrid status"
    completed = [result for _, result in ended if result.state == "Completed"]
    if any(result.value is not None for result in completed):
        text = f"No completed trial of the sweep {spec.name} with the metric {spec.objective.metric} has a model."
        return TraingridError(text, "Write the model to the folder SM_MODEL_DIR, and use another name for the sweep.")
    if completed:
        names = sorted({name for result in completed for name in result.metrics})
        reported = f"They report {', '.join(names)}." if names else "They report no metric."
        text = f"The {len(completed)} completed trials of the sweep {spec.name} have no metric {spec.objective.metric}."
        step = "Correct objective.metric, or the line's `metrics` and the program's output, and use another name."
        return TraingridError(text, f"{reported} {step}")
    reason = next((result.reason for _, result in ended if result.reason), "")
    text = f"No trial of the sweep {spec.name} has completed: {trials} failed or stopped."
    first = f" The first reason: {reason.rstrip('.')}." if reason else ""
    return TraingridError(text + first, f"See: {status_command}. Then use another name for the corrected sweep.")


def _check_lines(file: SpecFile[SweepSpec], plane: ControlPlane, content: bytes) -> list[Line]:
    """Check each base line with the first trial's hyperparameters, as the intake does, and return the lines.

    Raises:
        SpecError: With all errors, by line and key of the file.
    """
    first_lines = {
        f"{HYPERPARAMETER}{name}": (dimension.values() or [_lowest(dimension)])[0]
        for name, dimension in file.spec.space.items()
    }
    rows = lines_of(content)
    budget = {} if file.spec.budget_dollars is None else {"budget_dollars": file.spec.budget_dollars}
    changes: list[Mapping[str, Any]] = [{}]
    if file.spec.final:
        changes.append(file.spec.final)
    problems: list[str] = []
    base: list[Line] = []
    for change in changes:
        changed_rows = [{**row, **first_lines, **budget, **change} for row in rows]
        try:
            lines = parse(json_lines(changed_rows).encode(), plane.deployment)
        except ManifestError as error:
            problems += problems_of(file, error.errors, "final" if change else "")
        else:
            base = base or lines
            if not change:
                problems += _check_metric(file, lines, plane.deployment.grid)
        if problems:
            raise SpecError(tuple(dict.fromkeys(problems)))
    return base


def _check_metric(file: SpecFile[SweepSpec], lines: Sequence[Line], grid: GridSettings) -> Iterable[str]:
    """Yield an error if SageMaker would not record the objective's metric; an algorithm's metrics are not known."""
    metric = file.spec.objective.metric
    for number, line in enumerate(lines, 1):
        metrics = line.settings.metrics or default_metrics(grid.job)
        if not is_algorithm(line.settings, grid) and metric not in metrics:
            place = file.place(("objective", "metric"))
            rule = f"{shown(metric)} is not a metric of base line {number}, which has {', '.join(sorted(metrics))}"
            yield f"{place}: {rule}. Choose one of these, or add it to the `metrics` of each line."
            return


def _lowest(dimension: Any) -> float:
    return float((dimension.range or dimension.log_range)[0])
