"""Checkpoint prune: removes copies of checkpoints that their job does not need, in the way of `traingrid data prune`.

A folder in which a training has continued stays, because its checkpoints may need objects of the copy. The output
bucket keeps deleted objects as noncurrent versions, as other results.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from traingrid import names
from traingrid.audit.prune import Prune
from traingrid.aws.s3_delete import Deleter
from traingrid.aws.s3_uri import S3Uri
from traingrid.child.data_copy import store_of
from traingrid.errors import TraingridError
from traingrid.ledger.datasets import Datasets
from traingrid.ledger.moves import Moves, PatientMoves
from traingrid.text import byte_size
from traingrid.transfers.listing import Folders

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traingrid.grid.deployment import Deployment
    from traingrid.ledger.items import JobItem

logger = logging.getLogger(__name__)


def checkpoint_folder(item: JobItem, region: str, deployment: Deployment) -> S3Uri:
    """Return the folder of a job's checkpoints in a Region, unless its line sets another one."""
    account = deployment.account_of(region)
    output = names.output_prefix(deployment.grid.name, account, region, item.submission, item.index)
    return S3Uri.parse(names.checkpoint_prefix(output))


def copied_folders(item: JobItem, deployment: Deployment) -> list[S3Uri]:
    """Return the folders to which checkpoints of a job were copied, without those in Regions that left the grid."""
    regions = dict.fromkeys(attempt.region for attempt in item.attempts().values() if attempt.checkpoint_from)
    return [checkpoint_folder(item, region, deployment) for region in regions if region in deployment.grid.regions]


def prune_checkpoints(
    targets: Iterable[S3Uri], deployment: Deployment, owner: str, *, resumes_only: bool = False
) -> None:
    """Remove copies of checkpoints. A failure is logged, because `traingrid data prune` can remove them later.

    Args:
        targets: The folders of the copies.
        owner: The name of this child.
        resumes_only: Only complete removals that a child, or a command, has begun.
    """
    home = deployment.grid.home
    moves = PatientMoves(lambda: Moves(deployment.table, home), home)
    for target in targets:
        try:
            item = moves.find(str(target))
            if item is None or item.state not in (("pruning",) if resumes_only else ("copied", "pruning")):
                continue
            folders = Folders(
                source=S3Uri.parse(item.source),
                source_store=store_of(item.from_region),
                target=target,
                target_store=store_of(item.region),
            )
            report = Prune(
                item=item,
                moves=moves,
                datasets=Datasets(deployment.table, home),
                folders=folders,
                deleter=Deleter(item.region),
                user_now=lambda: "",  # only the job of this child uses the folder
                owner=owner,
                is_whole=True,
            ).run()
        except (TraingridError, BotoCoreError, ClientError) as error:
            logger.warning("The copy %s is not removed: %s", target, error, extra={"event": "prune_failed"})
        else:
            message = f"removed {byte_size(report.bytes)} of {target}: a copy that its job does not need"
            logger.info(message, extra={"event": "pruned", "objects": report.objects})
