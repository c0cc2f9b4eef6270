"""Borders: the objects of rounds that were copied from one Region to another, computed from their journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from traingrid.strict_json import json_object

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.rounds.state import Round, RoundsState


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """A model that crossed a border.

    Attributes:
        round: The number of the round for which it was copied.
        uri: The S3 URI of its archive.
    """

    round: int
    uri: str
    bytes: int
    from_region: str
    to_region: str


def crossings(state: RoundsState) -> Iterator[Crossing]:
    """Yield the models that crossed a border: each global model to the other Regions, and their models to the merge.

    Two kinds of copies are only in the ledger (`traingrid audit SUBMISSION --borders`), because the journal does not
    have their sizes: a model of another submission with which the first round begins, and the last global model and its
    velocity for a merge in another Region than the one before.
    """
    for part in state.rounds.values():
        previous = state.rounds.get(part.number - 1)
        model = previous.model if previous else None
        for region in _line_regions(part) if model and part.submission else ():
            if model and region != model.region:
                yield Crossing(
                    round=part.number,
                    uri=model.artifact,
                    bytes=model.size,
                    from_region=model.region,
                    to_region=region,
                )
        if part.merge and part.merge_submission:
            target = str(_lines(part.merge.manifest)[0]["region"])
            for contribution in part.merge.contributions:
                if contribution.region != target:
                    yield Crossing(
                        round=part.number,
                        uri=contribution.artifact,
                        bytes=contribution.size,
                        from_region=contribution.region,
                        to_region=target,
                    )


def _line_regions(part: Round) -> list[str]:
    """Return the Regions of a round's lines, each once: the jobs of a Region share a copy of the global model."""
    return list(dict.fromkeys(str(line["region"]) for line in _lines(part.lines.manifest)))


def _lines(manifest: str) -> list[dict[str, Any]]:
    """Return the lines of a manifest that `json_lines` has made, without its comment."""
    return [json_object(line) for line in manifest.splitlines() if not line.startswith("#")]
