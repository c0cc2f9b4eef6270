"""Combinations: fields that exclude or require each other, and limits on several fields together."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from traingrid.job.launchers import ADDED
from traingrid.job.ownership import tags_of
from traingrid.manifest.fields import NO_SETTINGS
from traingrid.manifest.limits import most
from traingrid.manifest.line import hyperparameters, is_algorithm, uses_grid_image
from traingrid.manifest.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.grid.model import GridSettings
    from traingrid.manifest.allowed import Rules
    from traingrid.manifest.line import Line

    _Rule = tuple[str, bool, str, str]
    """A field, whether it violates the rule, the reason and the next step."""

# The number of tags that traingrid adds to every training job.
_OUR_TAGS = len(tags_of("", "", 0, ""))
# The number of hyperparameters that name a program (backends/sagemaker/request.py).
_PROGRAM = 2


def check(line: Line, rules: Rules) -> Iterator[Problem]:
    """Yield the fields of a line that cannot be combined, a too long output URI, and mappings with too many entries."""
    settings = line.settings
    if settings is NO_SETTINGS:
        return
    rules_of_fields = (*_programs(line, rules.grid), *_times(line, rules.grid), _training_plan_rule(line))
    for field, is_wrong, reason, next_step in rules_of_fields:
        if is_wrong and getattr(settings, field):  # a rule applies only to a field that the line has
            yield Problem(field, None, reason, next_step)
    yield from _too_long_output(line, rules)
    yield from _too_many_entries(line, rules.grid)


def _programs(line: Line, grid: GridSettings) -> Iterator[_Rule]:
    """Yield the rules of a line's program."""
    fields = line.fields
    algorithm = "algorithm" in fields or is_algorithm(line.settings, grid)
    yield "algorithm", "image" in fields, "algorithm and image cannot be combined", "Remove one of them."
    yield "metrics", algorithm, "an algorithm defines its own metrics", "Remove metrics."
    yield "source", algorithm, "an algorithm has its own program", "Remove source."
    yield "source", "entry_point" not in fields, "source requires entry_point", "Name the program in the archive."
    yield "entry_point", "source" not in fields, "entry_point requires source", "Name the program's archive."


def _training_plan_rule(line: Line) -> _Rule:
    """Return the rule of training plans, whose instances are reserved and paid in advance.

    SageMaker's service model lists training plans beside on-demand capacity and excludes managed spot training
    (ResourceConfig, InstancePreferences). Whether the instance type is that of the plan is known to SageMaker only,
    which refuses another one.
    """
    reason = "a training plan has no spot instances: its instances are reserved"
    return "training_plan", bool(line.settings.spot), reason, "Remove spot, or training_plan."


def _times(line: Line, grid: GridSettings) -> Iterator[_Rule]:
    """Yield the rules of a line's durations."""
    settings, longest = line.settings, grid.training.max_runtime
    runtime = settings.applied_to(grid.job).max_runtime
    next_step = "Reduce it; the limit is max_runtime of `training` in grid.yaml."
    yield "max_runtime", runtime > longest, f"must be at most {longest} s, the limit of this grid", next_step
    yield "max_wait", not settings.spot, "only valid for spot jobs", "Write spot true, or remove max_wait."
    yield "max_wait", (settings.max_wait or 0) < runtime, "must be at least max_runtime", "Increase max_wait."


def _too_long_output(line: Line, rules: Rules) -> Iterator[Problem]:
    max_characters, output = _max_output_characters(), line.settings.output
    is_too_long = output and rules.output_uri_characters(output) > max_characters
    if is_too_long and uses_grid_image(line.settings, rules.grid):
        reason = f"its URI has more than {max_characters} characters, too many for a variable of the grid's image"
        yield Problem("output", None, reason, "Write a shorter folder.")


def _too_many_entries(line: Line, grid: GridSettings) -> Iterator[Problem]:
    settings = line.settings
    variables = len(settings.environment) + uses_grid_image(settings, grid) + ("profile" in line.fields)
    entries_of_launcher = 0 if is_algorithm(settings, grid) else ADDED[settings.applied_to(grid.job).launcher]
    entries_of_program = _PROGRAM * (settings.source is not None)
    numbers = (
        (
            "hyperparameters",
            len(hyperparameters(settings, grid)) + entries_of_program + entries_of_launcher,
            most("HyperParameters"),
        ),
        ("environment", variables, most("TrainingEnvironmentMap")),
        ("tags", len(settings.tags) + _OUR_TAGS, most("TagList")),
    )
    for field, number, greatest in numbers:
        if number > greatest:
            reason = f"with those of the grid, there are {number} entries, and SageMaker allows at most {greatest}"
            yield Problem(field, "", reason, "Remove some entries.")


@cache
def _max_output_characters() -> int:
    """Return the maximum length of an output URI that is the beginning of TRAINGRID_TENSORBOARD."""
    return most("TrainingEnvironmentValue") - len("tensorboard/")
