"""Profile validation: checks a line's `profile`, the steps of which the training image writes a profile."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from traingrid.manifest.line import is_ours
from traingrid.manifest.values import RefusedError, literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traingrid.grid.model import Grid

    Problem = tuple[str, object, RefusedError]

MAX_STEPS = 1000
"""The maximum number of steps: a profiler keeps all events in memory until the last step."""
_STEPS = re.compile(r"(\d{1,9})-(\d{1,9})", re.ASCII)
_EXAMPLE = 'Write {"steps": "100-110"}, or a column profile.steps in CSV.'


def profile(value: object) -> str:
    """Return the steps of the field `profile`, as the text FIRST-LAST."""
    if not isinstance(value, dict):
        raise RefusedError("must be an object with the key steps", _EXAMPLE)
    if unknown := [key for key in value if key != "steps"]:
        raise RefusedError(f"unknown key {literal(unknown[0])}; the only key is steps", _EXAMPLE)
    return steps(value.get("steps"))


def steps(value: object) -> str:
    """Return a range of steps; the first step of a training has number 1."""
    match = _STEPS.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise RefusedError("steps must be two step numbers, FIRST-LAST", _EXAMPLE)
    first, last = int(match[1]), int(match[2])
    if first < 1:
        raise RefusedError("the first step of a training has number 1", _EXAMPLE)
    if last < first:
        raise RefusedError(f"the last step, {last}, is before the first one, {first}", _EXAMPLE)
    if last - first >= MAX_STEPS:
        reason = f"the profile of {last - first + 1:,} steps would be too large; at most {MAX_STEPS:,} are allowed"
        raise RefusedError(reason, "Profile fewer steps.")
    return f"{first}-{last}"


def wrong_profile(settings: Mapping[str, Any], grid: Grid) -> Iterator[Problem]:
    """Yield the errors of a line's `profile` together with its image.

    Args:
        settings: The line's valid settings.
        grid: The grid.
    """
    if "profile" not in settings:
        return
    if not is_ours(settings, grid):
        reason = "only the grid's own training image writes a profile"
        yield "profile", settings["profile"], RefusedError(reason, "Remove profile, or use an image with build.")
    elif grid.training.network_isolation:
        reason = "with network isolation, the container cannot upload a profile"
        yield "profile", settings["profile"], RefusedError(reason, "Remove profile.")
