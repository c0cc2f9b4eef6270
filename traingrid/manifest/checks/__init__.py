"""Checks of fields together: each yields the problems of one line, whose fields are valid one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.manifest.checks import (
    algorithms,
    backends,
    channels,
    combinations,
    initial_models,
    keep_alive,
    launchers,
    profiles,
    queues,
    residency,
    trainer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from traingrid.manifest.allowed import Rules
    from traingrid.manifest.line import Line
    from traingrid.manifest.problem import Problem

    Check = Callable[[Line, Rules], Iterator[Problem]]

CHECKS: tuple[tuple[Check, ...], ...] = (
    (combinations.check, keep_alive.check, residency.check, profiles.check),
    (launchers.check, channels.check, initial_models.check),
    (backends.check, queues.check, algorithms.check, trainer.check),
)
"""The checks in groups. The first group is for every line, also with invalid fields; each further one only for a line
without a problem in the groups before it."""
