"""Trial lines: the manifest line of a trial, and the key of a batch's manifest."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from traingrid.sweep.spec import HYPERPARAMETER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.sweep.journal import TrialBatch
    from traingrid.sweep.spec import SweepSpec


def name_of(spec: SweepSpec, number: int) -> str:
    """Return the name of a trial's job, which is unique in its submission."""
    return f"{spec.name}-{number:04d}"


def key_of(spec: SweepSpec, number: int, batch: TrialBatch) -> str:
    """Return the key of a batch's manifest. If a journal is deleted and begun again, other trials get other keys.

    Args:
        number: The number of the batch's entry in the journal.
    """
    return f"{spec.name}/{number:06d}-{hashlib.sha256(batch.manifest.encode()).hexdigest()[:12]}.jsonl"


def trial_line(spec: SweepSpec, line: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest line of a trial: its base line with the searched hyperparameters, and a tag for its cost."""
    tags = {"sweep": spec.name, **(line.get("tags") or {})}
    return {**line, "tags": tags, **{f"{HYPERPARAMETER}{name}": value for name, value in parameters.items()}}
