"""Borders: the objects of rounds that were copied from one Region to another, computed from their journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.rounds.state import RoundsState


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """A model that crossed a border.

    Attributes:
        round: The number of the round for which it was copied.
        region: The Region whose training reads it, or has written it.
        uri: The S3 URI of its archive.
    """

    round: int
    region: str
    uri: str
    bytes: int
    from_region: str
    to_region: str


def crossings(state: RoundsState) -> Iterator[Crossing]:
    """Yield the models that crossed a border: each global model to the other Regions, and their models to the merge.

    Two kinds of copies are only in the ledger (`traingrid audit SUBMISSION --borders`), because the journal does not
    have their sizes: a model of another submission with which the first round begins, and the last global model and its
    velocity for a merge in another Region than the one before. The jobs of a Region share a copy of the global model.
    """
    for part in state.rounds.values():
        previous = state.rounds.get(part.number - 1)
        model = previous.model if previous else None
        for region in dict.fromkeys(part.lines.regions) if model and part.submission else ():
            if model and region != model.region:
                yield Crossing(
                    round=part.number,
                    region=region,
                    uri=model.artifact,
                    bytes=model.size,
                    from_region=model.region,
                    to_region=region,
                )
        if part.merge and part.merge_submission:
            for contribution in part.merge.contributions:
                if contribution.region != part.merge.region:
                    yield Crossing(
                        round=part.number,
                        region=contribution.region,
                        uri=contribution.artifact,
                        bytes=contribution.size,
                        from_region=contribution.region,
                        to_region=part.merge.region,
                    )
