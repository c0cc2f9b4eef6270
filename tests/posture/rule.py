"""A rule of our own about templates, and the defects that prove that it can be broken."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.posture.synthesised import Synthesised

Check = Callable[[Synthesised], Iterator[str]]
"""Yields a sentence for everything that breaks the rule."""

Defect = Callable[[Synthesised], None]
"""Breaks the rule in the templates that it is given."""


@dataclass(frozen=True)
class Rule:
    """What must hold of every grid; the name of `check` says it."""

    check: Check
    defects: tuple[Defect, ...]

    @property
    def name(self) -> str:
        """Return the rule as words."""
        return self.check.__name__.replace("_", "-")


def put(kind: str, path: str, value: Any, *, part: str = "Properties") -> Defect:
    """Return the defect that the first resource of a type has another value at `path`, whose keys have dots between."""

    def defect(made: Synthesised) -> None:
        holder, last = _holder(made, kind, path, part)
        holder[last] = value

    return defect


def without(kind: str, path: str, *, part: str = "Properties") -> Defect:
    """Return the defect that the first resource of a type lacks what is at `path`."""

    def defect(made: Synthesised) -> None:
        holder, last = _holder(made, kind, path, part)
        del holder[last]

    return defect


def added(kind: str, properties: dict[str, Any]) -> Defect:
    """Return the defect that the home Region has one resource more."""

    def defect(made: Synthesised) -> None:
        next(iter(made.templates.values()))["Resources"]["Planted"] = {"Type": kind, "Properties": properties}

    return defect


def removed(kind: str) -> Defect:
    """Return the defect that the first resource of a type is not there."""

    def defect(made: Synthesised) -> None:
        stack, name, _ = next(made.each(kind))
        del made.templates[stack]["Resources"][name]

    return defect


def _holder(made: Synthesised, kind: str, path: str, part: str) -> tuple[Any, Any]:
    _, _, resource = next(made.each(kind))
    holder: Any = resource[part] if part else resource
    *way, last = (int(key) if key.isdigit() else key for key in path.split("."))
    for key in way:
        holder = holder[key]
    return holder, last


def referred(value: Any) -> str:
    """Return the logical id that a Ref or a Fn::GetAtt is about; "" for anything else."""
    match value:
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), _]}:
            return name
    return ""


def listed(value: Any) -> list[Any]:
    """Return a value that CloudFormation allows to be a list or its only element as a list."""
    return value if isinstance(value, list) else [value]
