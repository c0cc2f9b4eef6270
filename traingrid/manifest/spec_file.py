"""Specification files: reads a command's specification from YAML, or reports all errors with place, rule, next step.

A specification has base lines with the fields of a manifest, which the command changes and submits.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from traingrid.errors import UsageError
from traingrid.grid.file import nearest, violated_rule
from traingrid.grid.yaml_document import KeyPath, YamlDocument, YamlSyntaxError, read_yaml
from traingrid.text import shown


class SpecPart(BaseModel):
    """A mapping of a specification: immutable, and without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


SpecT = TypeVar("SpecT", bound=SpecPart)
Problem = tuple[KeyPath, str]
"""The key of an error, and the violated rule with the next step."""


class SpecError(UsageError):
    """An invalid specification; each of `problems` is a sentence with file, line, key, rule and next step."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, kw_only=True)
class SpecFile(Generic[SpecT]):
    """A specification, and the places of its keys.

    Attributes:
        path: The path of the file; that of a specification without a file is only its name.
    """

    path: Path
    spec: SpecT
    document: YamlDocument

    def place(self, key: KeyPath) -> str:
        """Return the file, line and name of a key, for an error."""
        return place(self.path, self.document, key)


@dataclass(frozen=True, kw_only=True)
class SpecFormat(Generic[SpecT]):
    """The format of the specification of one command.

    Attributes:
        noun: The name of such a specification, with its article.
        page: The page that describes it.
        parts: The models of the mappings below keys of the first level.
        examples: A correct line for a key of any level.
        rules: Yields the errors of valid keys that contradict each other.
    """

    model: type[SpecT]
    noun: str
    page: str
    parts: Mapping[str, type[SpecPart]]
    examples: Mapping[str, str]
    rules: Callable[[SpecT], Iterator[Problem]] = field(default=lambda _spec: iter(()))

    def read(self, path: Path) -> SpecFile[SpecT]:
        """Return the specification of a YAML file.

        Raises:
            SpecError: With all errors: an unreadable file, syntax errors, repeated and unknown keys, invalid values.
        """
        try:
            document = read_yaml(path)
        except OSError as error:
            raise SpecError((f"{path}: {error.strerror}. Specify a file that exists.",)) from error
        except YamlSyntaxError as error:
            raise SpecError((f"{path}:{error.line}: invalid YAML: {error.reason}. Fix this line.",)) from error
        return self.of(path, document)

    def open(self, spec: str | PathLike[str] | Mapping[str, Any], default_name: str) -> SpecFile[SpecT]:
        """Return the specification of a YAML file, or of a mapping.

        Args:
            spec: The path of the file, or the mapping.
            default_name: The name in the errors of a mapping that has none.

        Raises:
            SpecError: With all errors.
        """
        if not isinstance(spec, Mapping):
            return self.read(Path(spec))
        data = json.loads(json.dumps(spec))
        path = Path(str(spec.get("name", default_name)))
        return self.of(path, YamlDocument(data=data, lines={}, duplicates=()))

    def of(self, path: Path, document: YamlDocument) -> SpecFile[SpecT]:
        """Return the specification of a YAML document.

        Args:
            path: The path, whose stem is the default of the name.

        Raises:
            SpecError: With all errors.
        """
        if not isinstance(document.data, Mapping):
            keys = ", ".join(self.model.model_fields)
            raise SpecError((f"{path}:1: {self.noun} must be a mapping with the keys {keys}. See {self.page}.",))
        problems = [(line, _repeated(path, document, key, line)) for key, line in document.duplicates]
        spec = None
        try:
            spec = self.model.model_validate({"name": path.stem, **document.data})
        except ValidationError as error:
            for details in error.errors():
                key = _key_path(details["loc"])
                problems.append((document.line(key), f"{place(path, document, key)}: {self._sentence(key, details)}"))
        if spec is not None:
            broken = list(self.rules(spec))
            problems += [(document.line(key), f"{place(path, document, key)}: {text}") for key, text in broken]
        if spec is None or problems:
            raise SpecError(tuple(dict.fromkeys(sentence for _, sentence in sorted(problems))))
        return SpecFile(path=path, spec=spec, document=document)

    def _sentence(self, key: KeyPath, details: Any) -> str:
        if details["type"] == "extra_forbidden":
            keys = tuple(self._keys(key[:-1]))
            near = nearest(str(key[-1]), keys)
            return "there is no such key. " + (f"Did you mean {near}?" if near else f"Choose from: {', '.join(keys)}.")
        names = (part for part in reversed(key) if isinstance(part, str) and part in self.examples)
        example = next((self.examples[name] for name in names), "")
        step = f"Write for example `{example}`." if example else ""
        if details["type"] == "missing":
            return f"this key is missing. {step}"
        value = details["input"]
        literal = shown(value) if isinstance(value, str) else repr(value)
        refused = "" if isinstance(value, (Mapping, list)) or value is None else f"{literal} is not allowed: "
        return f"{refused}{violated_rule(details)}. {step}".rstrip()

    def _keys(self, key: KeyPath) -> Iterator[str]:
        """Yield the keys of the mapping at `key`."""
        model = self.parts.get(str(key[0]), self.model) if key else self.model
        for name, entry in model.model_fields.items():
            yield entry.alias or name


def place(path: Path, document: YamlDocument, key: KeyPath) -> str:
    """Return the file, line and name of a key, for an error."""
    return f"{path}:{document.line(key)}: {'.'.join(map(str, key)) or 'the file'}"


def base_line_problems(number: int, line: Mapping[str, Any], job: str, owner: str) -> Iterator[Problem]:
    """Yield the errors of a base line, from which a command makes several jobs.

    Args:
        job: The noun for such a job, such as "trial".
        owner: The work that the jobs belong to, such as "the sweep".
    """
    for name, value in line.items():
        if not _is_json(value):
            yield ("lines", number, name), "a manifest cannot contain this value. Put it in quotation marks."
    if "output" in line:
        yield ("lines", number, "output"), f"the {job}s would overwrite each other's results. Remove it."
    if isinstance(line.get("checkpoints"), str):
        text = f"the {job}s would continue from each other's checkpoints. Write `checkpoints: true`: each has its own."
        yield ("lines", number, "checkpoints"), text
    if "name" in line:
        yield ("lines", number, "name"), f"each {job} gets a name from {owner}. Remove it."


def _repeated(path: Path, document: YamlDocument, key: KeyPath, line: int) -> str:
    first = document.lines[key]
    name = ".".join(map(str, key))
    return f"{path}:{line}: {name}: this key is already on line {first}. Remove one of the two."


def _key_path(loc: tuple[int | str, ...]) -> KeyPath:
    """Return the path of an error's key in the file; pydantic adds the types of a union's members after `choices`."""
    key: KeyPath = tuple(part for part in loc if part != "[key]")
    return key[: key.index("choices") + 2] if "choices" in key else key


def _is_json(value: object) -> bool:
    """Return False for a value that JSON cannot represent, such as a date that YAML has recognized."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
