"""Profile check: whether the program of a line writes a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.manifest.line import uses_grid_image
from traingrid.manifest.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.manifest.allowed import Rules
    from traingrid.manifest.line import Line


def check(line: Line, rules: Rules) -> Iterator[Problem]:
    """Yield an error for a line with `profile` whose image does not write one, or could not upload it."""
    steps = line.settings.profile
    if steps is None:
        return
    if not uses_grid_image(line.settings, rules.grid):
        reason = "only the grid's own training image writes a profile"
        yield Problem("profile", steps, reason, "Remove profile, or use an image with build.")
    elif rules.grid.training.network_isolation:
        reason = "with network isolation, the container cannot upload a profile"
        yield Problem("profile", steps, reason, "Remove profile.")
