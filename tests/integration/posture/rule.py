"""Rule: our own rules for templates, and defects that prove that each rule can be broken."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.integration.posture.synthesised import Synthesised

Check = Callable[[Synthesised], Iterator[str]]
"""Yields a message for each violation of the rule."""

Defect = Callable[[Synthesised], None]
"""Changes templates so that they break the rule."""


@dataclass(frozen=True)
class Rule:
    """A rule that every grid must satisfy; the name of `check` describes it."""

    check: Check
    defects: tuple[Defect, ...]

    @property
    def name(self) -> str:
        """Return the rule's name with blanks."""
        return self.check.__name__.replace("_", "-")


def put(kind: str, path: str, value: Any, *, part: str = "Properties") -> Defect:
    """Return a defect that sets `path`, keys separated by dots, to another value in the first resource of a type."""

    def defect(made: Synthesised) -> None:
        holder, last = _holder(made, kind, path, part)
        holder[last] = value

    return defect


def without(kind: str, path: str, *, part: str = "Properties") -> Defect:
    """Return a defect that removes `path` from the first resource of a type."""

    def defect(made: Synthesised) -> None:
        holder, last = _holder(made, kind, path, part)
        del holder[last]

    return defect


def added(kind: str, properties: dict[str, Any]) -> Defect:
    """Return a defect that adds a resource to the home Region."""

    def defect(made: Synthesised) -> None:
        next(iter(made.templates.values()))["Resources"]["Planted"] = {"Type": kind, "Properties": properties}

    return defect


def removed(kind: str) -> Defect:
    """Return a defect that removes the first resource of a type."""

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
    """Return the logical id in a Ref or Fn::GetAtt; "" for anything else."""
    match value:
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), _]}:
            return name
    return ""


def listed(value: Any) -> list[Any]:
    """Return a value as a list, because CloudFormation allows a single element in its place."""
    return value if isinstance(value, list) else [value]
