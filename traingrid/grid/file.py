"""Grid file: reads grid.yaml into a validated Grid, or reports all errors with place, rule and next step."""

import json
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, get_args

from botocore.loaders import Loader
from botocore.regions import EndpointResolver
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from traingrid.grid.model import GridError, GridSettings
from traingrid.grid.part import attribute_docstring
from traingrid.grid.yaml_document import KeyPath, YamlDocument, YamlSyntaxError, read_yaml
from traingrid.job.job import Job
from traingrid.names import GRID_FILE_VARIABLE
from traingrid.text import shown

ENVIRONMENT_LIMIT = 3000
"""Maximum size of a grid in the environment, in bytes. Lambda allows 4 KB for all variables of a function together
(https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html)."""

SAGEMAKER_ENDPOINTS = "api.sagemaker"
"""SageMaker's endpoint prefix, under which botocore's endpoint data lists it."""


def load_grid(path: str | Path) -> GridSettings:
    """Return the grid that a YAML file describes.

    The orchestrator and Lambda read the grid from their environment, and do not need PyYAML or this module.

    Raises:
        GridError: With all errors: an unreadable file, syntax errors, repeated and unknown keys, invalid values, and
            Regions without SageMaker.
    """
    path = Path(path)
    document = _read(path)
    problems = [(line, _repeated_key_sentence(path, document, key, line)) for key, line in document.duplicates]
    grid = None
    try:
        grid = GridSettings.model_validate(document.data, context={"regions": sagemaker_regions()})
    except ValidationError as error:
        for details in error.errors():
            key = _written_path(document.data, _key_path(details))
            problems.append((document.line(key), _sentence(path, document, key, details)))
    if grid is None or problems:
        raise GridError(tuple(sentence for _, sentence in sorted(problems)))
    if len(grid.to_environment(rules=True).encode()) > ENVIRONMENT_LIMIT:
        rule = f"without defaults it takes more than {ENVIRONMENT_LIMIT} bytes of a Lambda function's environment"
        raise GridError((f"{path}: this grid is too large: {rule}. List fewer data buckets, images or rules.",))
    return grid


@cache
def sagemaker_regions() -> tuple[str, ...]:
    """Return the Regions that offer SageMaker, from botocore's endpoint data, without a call to AWS.

    boto3 returns the same list, but loads SageMaker's whole service model first, which adds half a second to a synth.
    """
    endpoints = EndpointResolver(Loader().load_data("endpoints"))
    return tuple(endpoints.get_available_endpoints(SAGEMAKER_ENDPOINTS))


def nearest(word: str, choices: tuple[str, ...]) -> str | None:
    """Return the choice that is most similar to `word`, or None if none is similar."""
    matches = get_close_matches(word.lower(), choices, n=1, cutoff=0.6)
    return matches[0] if matches else None


def _read(path: Path) -> YamlDocument:
    try:
        document = read_yaml(path)
    except OSError as error:
        step = (
            f"Name the grid's file: traingrid --grid FILE, cdk -c grid=FILE, or {GRID_FILE_VARIABLE} in the environment"
        )
        raise GridError((f"{path}: {error.strerror}. {step}.",)) from error
    except YamlSyntaxError as error:
        raise GridError((f"{path}:{error.line}: invalid YAML: {error.reason}. Fix this line.",)) from error
    if not isinstance(document.data, dict):
        keys = ", ".join(GridSettings.model_fields)
        raise GridError((f"{path}:1: a grid must be a mapping with the keys {keys}. Start with `name: traingrid`.",))
    return document


def _repeated_key_sentence(path: Path, document: YamlDocument, key: KeyPath, line: int) -> str:
    first_line = document.lines[key]
    return f"{path}:{line}: {_dotted(key)}: this key is already on line {first_line}. Remove one of the two."


def _key_path(details: ErrorDetails) -> KeyPath:
    """Return the path of the key that an error concerns, as it is in the file."""
    key: KeyPath = tuple(part for part in details["loc"] if part != "[key]")
    at = details.get("ctx", {}).get("at")
    return (*key, at) if at else key


def _written_path(data: object, key: KeyPath) -> KeyPath:
    """Return the path of a mapping's `kind` as it is in the file; `network: private` has no key `kind`."""
    return key[:-1] if key[-1:] == ("kind",) and isinstance(_value(data, key[:-1]), str) else key


def _sentence(path: Path, document: YamlDocument, key: KeyPath, details: ErrorDetails) -> str:
    place = f"{path}:{document.line(key)}: {_dotted(key)}:"
    if details["type"] == "extra_forbidden":
        return f"{place} there is no such key. {_other_key(key)}"
    field = _fields(key[:-1]).get(str(key[-1])) if key else None
    if details["type"] == "missing":
        return f"{place} this key is missing. {_example(key, field)}"
    value = _refused_value(document, key, details)
    literal = shown(value) if isinstance(value, str) else json.dumps(value, default=str)  # YAML's true, not True
    refusal = "" if value is None or isinstance(value, dict | list) else f" {literal} is not allowed:"
    step = _next_step(key, field, value, details)
    return f"{place}{refusal} {violated_rule(details)}. {step}".rstrip()


def violated_rule(details: ErrorDetails) -> str:
    """Return the rule that a value violates as the end of a sentence; pydantic's messages are reworded."""
    context = details.get("ctx", {})
    match details["type"], details["input"]:
        case "string_type", dict() | list():
            rule = "this must be one value, not a mapping or a list"
        case "string_type", None:
            rule = "this key has no value"
        case "string_type", _:
            rule = "this must be text; put it in quotation marks"
        case "string_pattern_mismatch", _:
            rule = f"it must have the form {context['pattern']}"
        case "too_short", _:
            rule = f"there must be at least {context['min_length']}, not {context['actual_length']}"
        case "too_long", _:
            rule = f"there must be at most {context['max_length']}"
        case "dict_type" | "model_type", _:
            rule = "this must be a mapping"
        case "tuple_type", _:
            rule = "this must be a list"
        case _:
            rule = details["msg"].replace("Input should", "it must").replace("String should", "it must")
    return rule.removesuffix(".")


def _refused_value(document: YamlDocument, key: KeyPath, details: ErrorDetails) -> object:
    if details["loc"][-1:] == ("[key]",):  # pydantic marks errors of a key itself, not of its value
        return key[-1]
    return details.get("ctx", {}).get("value", _value(document.data, key))


def _next_step(key: KeyPath, field: FieldInfo | None, value: object, details: ErrorDetails) -> str:
    """Return the sentence after the violated rule; empty if the rule names the fix itself."""
    context = details.get("ctx", {})
    is_rule = details["type"] == "broken_rule"
    if "choices" in context:
        return _nearest_choice(str(value), context["choices"])
    if is_rule and not context.get("example"):
        return ""
    if field is None and not is_rule:  # an entry of a list or mapping, whose field has the examples
        key = key[:-1]
        field = _fields(key[:-1]).get(str(key[-1])) if key else None
    return _example(key, field, value)


def _other_key(key: KeyPath) -> str:
    """Return the next step for an unknown key: its place in a manifest, or the keys of its mapping."""
    choices = tuple(_fields(key[:-1]))
    if key[-1] in Job.model_fields and (key[:-1] == ("job",) or not nearest(str(key[-1]), choices)):
        return f"{key[-1]} is a field of the lines of a manifest: write it there, and remove it here."
    return _nearest_choice(str(key[-1]), choices)


def _nearest_choice(word: str, choices: tuple[str, ...]) -> str:
    near_choice = nearest(word, choices)
    return f"Did you mean {near_choice}?" if near_choice else f"Choose from: {', '.join(choices)}."


def _example(key: KeyPath, field: FieldInfo | None, value: object = None) -> str:
    """Return an example of a field, other than its invalid value; empty if there is none."""
    examples = [] if field is None else field.examples or []
    other_examples = [candidate for candidate in examples if (type(candidate), candidate) != (type(value), value)]
    if not other_examples:
        return ""
    example = other_examples[0]
    bare = isinstance(example, str) and not example.replace(".", "").isdigit()
    text = example if bare else json.dumps(example)  # JSON is valid YAML, and quotes strings that need it
    model = _model(key[:-1])
    about = attribute_docstring(model, str(key[-1])) if model else ""
    return f"Write for example `{key[-1]}: {text}`: {' '.join(about.split())}"


def _value(data: object, key: KeyPath) -> object:
    """Return the value in the file at `key`, or None if there is none."""
    value: Any = data
    for part in key:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _fields(key: KeyPath) -> dict[str, FieldInfo]:
    """Return the fields of the model of the mapping at `key`, by name; none for a mapping without a model."""
    model = _model(key)
    return dict(model.model_fields) if model else {}


def _model(key: KeyPath) -> type[BaseModel] | None:
    """Return the model of the mapping at `key`; None for a mapping without a model."""
    model: type[BaseModel] | None = GridSettings
    further_keys = list(key)
    while further_keys and model is not None:
        field = model.model_fields.get(str(further_keys.pop(0)))
        annotation: Any = field.annotation if field else None
        if NoneType in get_args(annotation):  # an optional mapping
            annotation = get_args(annotation)[0]
        if get_args(annotation) and isinstance(get_args(annotation)[-1], type) and further_keys:
            further_keys.pop(0)  # the alias or Region, which is a key of a mapping from names to models
            annotation = get_args(annotation)[-1]
        model = annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
    return model


def _dotted(key: KeyPath) -> str:
    return ".".join(map(str, key)) or "the file"
