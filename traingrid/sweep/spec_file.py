"""Sweep file: the format of a sweep's specification, and its rules between keys."""

from collections.abc import Iterator, Mapping
from typing import Any

from traingrid.manifest.fields import FIELDS, MAPPINGS
from traingrid.manifest.spec_file import Problem, SpecFormat, base_line_problems
from traingrid.sweep.spec import HYPERPARAMETER, MAX_TRIALS, Dimension, EarlyStopping, Objective, SweepSpec

_EXAMPLES = {
    "name": "name: learning-rates",
    "lines": "lines: [{region: us-east-1, s3_uri: s3://bucket/digits}]",
    "search": "search: {hp.learning_rate: {log_range: [0.001, 1.0]}}",
    "objective": "objective: {metric: validation_top1, direction: maximize}",
    "metric": "metric: validation_top1",
    "direction": "direction: maximize",
    "early_stopping": "early_stopping: {min_epochs: 3}",
    "trials": "trials: 24",
    "parallel": "parallel: 4",
    "budget_dollars": "budget_dollars: 500",
    "final": "final: {hp.epochs: 90}",
    "choices": "choices: [32, 64, 128]",
    "range": "range: [0.0, 0.5]",
    "log_range": "log_range: [0.001, 1.0]",
    "int": "int: [2, 8]",
    "points": "points: 5",
}
_ONE_KIND = "Write one of choices, range, log_range and int."


def _broken_rules(spec: SweepSpec) -> Iterator[Problem]:
    """Yield the rules between keys that a specification violates: the key, and the rule with the next step."""
    for key, dimension in spec.search.items():
        yield from _check_dimension(key, dimension, spec.strategy)
    for number, line in enumerate(spec.lines):
        yield from _check_line(number, line, spec)
    for name in spec.final:
        if name not in FIELDS and not name.startswith(tuple(MAPPINGS)):
            yield ("final", name), "a manifest has no such field. Write for example `final: {hp.epochs: 90}`."
    if spec.trials is None and spec.strategy != "grid":
        yield ("trials",), f"this key is missing, which strategy {spec.strategy} needs. Write for example `trials: 24`."
    if spec.strategy == "grid" and (number := spec.combinations or 0) > MAX_TRIALS and spec.trials is None:
        yield ("search",), f"the grid has {number:,} combinations, more than {MAX_TRIALS:,}. Use fewer, or set trials."


def _check_dimension(key: str, dimension: Dimension, strategy: str) -> Iterator[Problem]:
    if not key.startswith(HYPERPARAMETER) or len(key) == len(HYPERPARAMETER):
        yield ("search", key), "only hyperparameters can be searched. Write it as hp.NAME."
    if len(dimension.kinds) != 1:
        number = ", ".join(dimension.kinds) or "none of them"
        yield ("search", key), f"exactly one kind of values must be given, not {number}. {_ONE_KIND}"
        return
    (kind,) = dimension.kinds
    bounds = dimension.range or dimension.log_range or dimension.whole
    if bounds and not bounds[0] < bounds[1]:
        yield ("search", key, kind), f"{bounds[0]} is not below {bounds[1]}. Write the lowest value first."
    if dimension.log_range and dimension.log_range[0] <= 0:
        yield ("search", key, kind), "a logarithmic range must begin above 0. Use range, or a small number."
    continuous = kind in ("range", "log_range")
    if strategy == "grid" and continuous and dimension.points is None:
        yield ("search", key), f"a grid needs the number of values of a {kind}. Add for example `points: 5`."
    if dimension.points is not None and (strategy != "grid" or not continuous):
        yield ("search", key, "points"), "it is used by strategy grid with range and log_range only. Remove it."


def _check_line(number: int, line: Mapping[str, Any], spec: SweepSpec) -> Iterator[Problem]:
    yield from base_line_problems(number, line, "trial", "the sweep")
    own = line.get("hyperparameters")
    for name in spec.space:
        if f"{HYPERPARAMETER}{name}" in line or (isinstance(own, Mapping) and name in own):
            path = (
                "lines",
                number,
                f"{HYPERPARAMETER}{name}" if f"{HYPERPARAMETER}{name}" in line else "hyperparameters",
            )
            yield path, f"the sweep searches {name}, so a line cannot set it. Remove it here, or from search."
    if "budget_dollars" in line:
        yield ("lines", number, "budget_dollars"), "a sweep has one budget. Write budget_dollars as a key of the sweep."
    if spec.budget_dollars is not None and "dollars_per_hour" not in line:
        rule = "a sweep with budget_dollars needs the price of an instance-hour"
        yield ("lines", number), f"{rule}. Add for example `dollars_per_hour: 4.6`."


SWEEP_FORMAT = SpecFormat(
    model=SweepSpec,
    noun="a sweep",
    page="docs/sweeps.md",
    parts={"search": Dimension, "objective": Objective, "early_stopping": EarlyStopping},
    examples=_EXAMPLES,
    rules=_broken_rules,
)
"""The format of a sweep."""
