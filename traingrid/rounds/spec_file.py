"""Rounds file: the format of a rounds specification, and its rules between keys."""

from collections.abc import Iterator, Mapping
from typing import Any

from traingrid.job.initial_model import InitialModel
from traingrid.manifest.fields import FIELDS, MAPPINGS
from traingrid.manifest.spec_file import Problem, SpecFormat, base_line_problems
from traingrid.rounds.spec import MergePlace, Missing, Outer, RoundsSpec, Stop

_EXAMPLES = {
    "name": "name: cells",
    "lines": "lines: [{region: us-west-2, s3_uri: s3://bucket/cells}, {region: eu-central-1, s3_uri: s3://b/cells}]",
    "recipe": "recipe: {hp.model: resnet8}",
    "epochs": "epochs: 2",
    "rounds": "rounds: 8",
    "outer": "outer: {kind: diloco, learning_rate: 0.7, momentum: 0.6}",
    "kind": "kind: diloco",
    "learning_rate": "learning_rate: 0.7",
    "momentum": "momentum: 0.6",
    "weight_by": "weight_by: records",
    "merge": "merge: {region: eu-central-1}",
    "region": "region: eu-central-1",
    "image": "image: torch",
    "statistics": "statistics: average",
    "missing": "missing: {wait: 6h, then: continue}",
    "stop": "stop: {metric: validation_top1, patience: 2}",
    "metric": "metric: validation_top1",
    "patience": "patience: 2",
    "min_delta": "min_delta: 0.001",
    "wait": "wait: 6h",
    "then": "then: continue",
    "seed": "seed: 0",
    "init_from": "init_from: 0123abcd/0",
}
_OF_ROUNDS = {"epochs": "epochs", "seed": "seed"}
"""The hyperparameters that the rounds set, and the keys from which they do."""


def _broken_rules(spec: RoundsSpec) -> Iterator[Problem]:
    """Yield the rules between keys that a specification violates: the key, and the rule with the next step."""
    for number, line in enumerate(spec.lines):
        yield from base_line_problems(number, line, "round", "the rounds")
        yield from _round_fields(("lines", number), line)
    yield from _round_fields(("recipe",), spec.recipe)
    for name in spec.recipe:
        if name not in FIELDS and not name.startswith(tuple(MAPPINGS)):
            yield ("recipe", name), "a manifest has no such field. Write for example `recipe: {hp.model: resnet8}`."
    if len({str(line.get("region", "")) for line in spec.lines}) < 2:
        yield ("lines",), "rounds need the data of at least two Regions. Add a line, or use `traingrid submit`."
    if spec.outer.kind == "fedavg":
        for name in ("learning_rate", "momentum"):
            if getattr(spec.outer, name) is not None:
                yield ("outer", name), "fedavg has none. Remove it, or write `kind: diloco`."
    if spec.init_from:
        try:
            InitialModel.parse(spec.init_from)
        except ValueError as error:
            yield ("init_from",), f"it {error}. Write for example `init_from: 0123abcd/0`."


def _round_fields(place: tuple[str | int, ...], fields: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the fields that the rounds set."""
    own = fields.get("hyperparameters")
    for name, key in _OF_ROUNDS.items():
        column = f"hp.{name}"
        if column in fields or (isinstance(own, Mapping) and name in own):
            path = (*place, column if column in fields else "hyperparameters")
            yield path, f"the rounds set {name}. Remove it here, and write `{key}: N` as a key of the file."
    for name in ("replicas", "copy_from"):
        if name in fields:
            yield (*place, name), "the data of rounds stays in its Region. Remove it."
    if "init_from" in fields:
        yield (*place, "init_from"), "each round begins with the last global model. Write it as a key of the file."


ROUNDS_FORMAT = SpecFormat(
    model=RoundsSpec,
    noun="a rounds specification",
    page="docs/rounds.md",
    parts={"outer": Outer, "merge": MergePlace, "stop": Stop, "missing": Missing},
    examples=_EXAMPLES,
    rules=_broken_rules,
)
"""The format of rounds."""
