"""Borders: the bytes that the jobs of a submission have brought from one Region to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from traingrid.ledger.moves import MoveItem


@dataclass(frozen=True, kw_only=True)
class BorderCrossing:
    """A copy of a folder or of an object for a job.

    Attributes:
        job: The job for which it was copied, SUBMISSION/INDEX.
        source: The S3 URI that was copied.
        target: The S3 URI of the copy.
        bytes: The bytes that were transferred for this job.
    """

    job: str
    source: str
    target: str
    bytes: int
    from_region: str
    to_region: str


def border_crossings(items: Iterable[MoveItem], submission: str) -> Iterator[BorderCrossing]:
    """Yield the copies between Regions of the jobs of a submission, according to the ledger.

    Copies that a person makes with other programs are not in the ledger.
    """
    for item in items:
        for job, size in item.transferred.items():
            if job.partition("/")[0] == submission:
                yield BorderCrossing(
                    job=job,
                    source=item.source,
                    target=item.target,
                    bytes=size,
                    from_region=item.from_region,
                    to_region=item.region,
                )
