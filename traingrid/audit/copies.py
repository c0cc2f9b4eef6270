"""Audit of copies: finds copies between Regions that no open job needs, which still cost storage every month."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid import names
from traingrid.audit.snapshot import SETTLED_SECONDS
from traingrid.aws.s3_uri import S3Uri
from traingrid.ledger.damage import readable, warn
from traingrid.ledger.timestamps import epoch_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from traingrid.grid.deployment import Deployment
    from traingrid.ledger.damage import Damaged
    from traingrid.ledger.moves import MoveItem, Moves
    from traingrid.submission.folders_in_use import FoldersInUse


@dataclass(frozen=True, kw_only=True)
class UnneededCopy:
    """A copy that no open job needs.

    Attributes:
        bytes: The size of the objects that it wrote, in bytes.
        reason: The reason why it is not needed, as words.
    """

    item: MoveItem
    bytes: int
    reason: str


def unneeded_copies(
    deployment: Deployment,
    moves: Moves,
    in_use: Callable[[], FoldersInUse],
    now: float | None = None,
    report: Callable[[Damaged], object] = warn,
) -> list[UnneededCopy]:
    """Return the copies in the grid's own buckets that no open job needs, including unfinished ones.

    Args:
        moves: The ledger's items of copies, which are read before the jobs: a child records a copy after its job.
        in_use: Returns the folders that open jobs read; only called if there are copies.
        now: The time in seconds since 1970; by default the present.
        report: Called with items of copies that cannot be read, which are never unneeded; by default they are logged.
    """
    items = [item for item in readable(moves.all(), report) if item.state != "pruned" and _is_own(deployment, item)]
    if not items:
        return []
    return list(_unneeded(items, in_use(), time.time() if now is None else now))


def _unneeded(items: list[MoveItem], in_use: FoldersInUse, now: float) -> Iterator[UnneededCopy]:
    for item in items:
        if item.state == "pruning":
            yield UnneededCopy(item=item, bytes=item.written_bytes, reason="its removal was interrupted, or still runs")
        elif in_use.user_of(item.target, item.region):
            continue
        elif item.state == "copied":
            if item.written_bytes:  # otherwise all objects had existed before
                yield UnneededCopy(item=item, bytes=item.written_bytes, reason="no open job uses it")
        elif now - epoch_seconds(item.updated_at) > SETTLED_SECONDS:
            reason = "its merge was not submitted, and no open job uses it"
            if not item.is_object:
                reason = f"job {item.job} ended at {item.percent} % of the copy, and no open job uses it"
            yield UnneededCopy(item=item, bytes=item.written_bytes, reason=reason)


def _is_own(deployment: Deployment, item: MoveItem) -> bool:
    """Return True if a copy is in the grid's own data or output bucket of one of its Regions."""
    if item.region not in deployment.grid.regions:
        return False
    account = deployment.account_of(item.region)
    own = (
        bucket_name(deployment.grid.name, account, item.region)
        for bucket_name in (names.data_bucket, names.output_bucket)
    )
    return S3Uri.parse(item.target).bucket in own
