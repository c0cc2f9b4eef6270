"""Running jobs: lists the training jobs that still run in Regions, within the time of the function that asks."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.backends.inventory import ACTIVE_STATES, MAX_ACTIVE_SECONDS, Window
from traingrid.errors import TraingridError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from traingrid.backends.inventory import Inventory

logger = logging.getLogger(__name__)
UNREACHABLE = (ClientError, BotoCoreError, TraingridError)
LISTING_SECONDS = 180.0
"""The time for the lists of all Regions; the rest of the function's time is for the ledger and the answer."""


def running_jobs(inventory: Callable[[str], Inventory], regions: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of the training jobs that run in each Region.

    SageMaker keeps ended training jobs, so only those are listed that are young enough to be active. If a Region does
    not answer, or its list is late, the training jobs that were listed remain, and otherwise only the ledger counts.
    The same applies to a Region of another account, in which the guard has no role.

    Args:
        inventory: Returns the training jobs of a Region.
    """
    began = time.time()
    window = Window(since=began - MAX_ACTIVE_SECONDS, deadline=began + LISTING_SECONDS)
    names_by_region: dict[str, list[str]] = {}
    for region in regions:
        names = names_by_region.setdefault(region, [])
        try:
            for state in ACTIVE_STATES:
                for job in inventory(region).listed(state, window=window):
                    names.append(job.name)
        except UNREACHABLE as error:
            message = "%s is checked by the ledger and %d training jobs only, because not all can be listed: %s"
            logger.error(message, region, len(names), error, extra={"event": "unreachable", "region": region})
    return names_by_region
