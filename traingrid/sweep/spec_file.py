"""Specification file: reads a sweep from YAML, or reports all errors with place, rule and next step."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from traingrid.errors import UsageError
from traingrid.grid.file import nearest, violated_rule
from traingrid.grid.yaml_document import KeyPath, YamlDocument, YamlSyntaxError, read_yaml
from traingrid.manifest.fields import FIELDS, MAPPINGS
from traingrid.sweep.spec import HYPERPARAMETER, MAX_TRIALS, Dimension, EarlyStopping, Objective, SweepSpec
from traingrid.text import shown

_MODELS: dict[str, Any] = {"objective": Objective, "early_stopping": EarlyStopping}
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


class SpecError(UsageError):
    """An invalid specification; each of `problems` is a sentence with file, line, key, rule and next step."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, kw_only=True)
class SpecFile:
    """A specification, and the places of its keys.

    Attributes:
        path: The path of the file; that of a specification without a file is only its name.
    """

    path: Path
    spec: SweepSpec
    document: YamlDocument

    def place(self, key: KeyPath) -> str:
        """Return the file, line and name of a key, for an error."""
        return place(self.path, self.document, key)


def read_spec(path: Path) -> SpecFile:
    """Return the sweep that a YAML file describes.

    Raises:
        SpecError: With all errors: an unreadable file, syntax errors, repeated and unknown keys, invalid values.
    """
    try:
        document = read_yaml(path)
    except OSError as error:
        raise SpecError((f"{path}: {error.strerror}. Specify a file that exists.",)) from error
    except YamlSyntaxError as error:
        raise SpecError((f"{path}:{error.line}: invalid YAML: {error.reason}. Fix this line.",)) from error
    return spec_of(path, document)


def spec_of(path: Path, document: YamlDocument) -> SpecFile:
    """Return the sweep of a YAML document, or of the mapping of a program.

    Args:
        path: The path, whose stem is the default of the name.

    Raises:
        SpecError: With all errors.
    """
    if not isinstance(document.data, Mapping):
        keys = ", ".join(SweepSpec.model_fields)
        raise SpecError((f"{path}:1: a sweep must be a mapping with the keys {keys}. See docs/sweeps.md.",))
    problems = [(line, _repeated(path, document, key, line)) for key, line in document.duplicates]
    spec = None
    try:
        spec = SweepSpec.model_validate({"name": path.stem, **document.data})
    except ValidationError as error:
        for details in error.errors():
            key = _key_path(details["loc"])
            problems.append((document.line(key), f"{place(path, document, key)}: {_sentence(key, details)}"))
    if spec is not None:
        broken = list(_broken_rules(spec))
        problems += [(document.line(key), f"{place(path, document, key)}: {text}") for key, text in broken]
    if spec is None or problems:
        raise SpecError(tuple(dict.fromkeys(sentence for _, sentence in sorted(problems))))
    return SpecFile(path=path, spec=spec, document=document)


def place(path: Path, document: YamlDocument, key: KeyPath) -> str:
    """Return the file, line and name of a key, for an error."""
    return f"{path}:{document.line(key)}: {'.'.join(map(str, key)) or 'the file'}"


def _repeated(path: Path, document: YamlDocument, key: KeyPath, line: int) -> str:
    first = document.lines[key]
    name = ".".join(map(str, key))
    return f"{path}:{line}: {name}: this key is already on line {first}. Remove one of the two."


def _key_path(loc: tuple[int | str, ...]) -> KeyPath:
    """Return the path of an error's key in the file; pydantic adds the types of a union's members after `choices`."""
    key: KeyPath = tuple(part for part in loc if part != "[key]")
    return key[: key.index("choices") + 2] if "choices" in key else key


def _sentence(key: KeyPath, details: Any) -> str:
    if details["type"] == "extra_forbidden":
        keys = tuple(_keys(key[:-1]))
        near = nearest(str(key[-1]), keys)
        return "there is no such key. " + (f"Did you mean {near}?" if near else f"Choose from: {', '.join(keys)}.")
    example = next((_EXAMPLES[part] for part in reversed(key) if isinstance(part, str) and part in _EXAMPLES), "")
    step = f"Write for example `{example}`." if example else ""
    if details["type"] == "missing":
        return f"this key is missing. {step}"
    value = details["input"]
    literal = shown(value) if isinstance(value, str) else repr(value)
    refused = "" if isinstance(value, (Mapping, list)) or value is None else f"{literal} is not allowed: "
    return f"{refused}{violated_rule(details)}. {step}".rstrip()


def _keys(key: KeyPath) -> Iterator[str]:
    """Yield the keys of the mapping at `key`."""
    model = Dimension if key[:1] == ("search",) else _MODELS.get(str(key[0]), SweepSpec) if key else SweepSpec
    for name, field in model.model_fields.items():
        yield field.alias or name


def _broken_rules(spec: SweepSpec) -> Iterator[tuple[KeyPath, str]]:
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


def _check_dimension(key: str, dimension: Dimension, strategy: str) -> Iterator[tuple[KeyPath, str]]:
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


def _check_line(number: int, line: Mapping[str, Any], spec: SweepSpec) -> Iterator[tuple[KeyPath, str]]:
    for field, value in line.items():
        if not _is_json(value):
            yield ("lines", number, field), "a manifest cannot contain this value. Put it in quotation marks."
    own = line.get("hyperparameters")
    for name in spec.space:
        if f"{HYPERPARAMETER}{name}" in line or (isinstance(own, Mapping) and name in own):
            path = (
                "lines",
                number,
                f"{HYPERPARAMETER}{name}" if f"{HYPERPARAMETER}{name}" in line else "hyperparameters",
            )
            yield path, f"the sweep searches {name}, so a line cannot set it. Remove it here, or from search."
    if "output" in line:
        yield ("lines", number, "output"), "the trials would overwrite each other's results. Remove it."
    if isinstance(line.get("checkpoints"), str):
        text = "the trials would continue from each other's checkpoints. Write `checkpoints: true`: each has its own."
        yield ("lines", number, "checkpoints"), text
    if "name" in line:
        yield ("lines", number, "name"), "each trial gets a name from the sweep. Remove it."
    if "budget_dollars" in line:
        yield ("lines", number, "budget_dollars"), "a sweep has one budget. Write budget_dollars as a key of the sweep."
    if spec.budget_dollars is not None and "dollars_per_hour" not in line:
        rule = "a sweep with budget_dollars needs the price of an instance-hour"
        yield ("lines", number), f"{rule}. Add for example `dollars_per_hour: 4.6`."


def _is_json(value: object) -> bool:
    """Return False for a value that JSON cannot represent, such as a date that YAML has recognized."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
