"""Reconciler: closes lines that no child watches, and stops orphaned and cancelled training jobs. It creates nothing.

Children and events normally do this work sooner. But children may die, and events may be lost or late. So a pass
compares the ledger with SageMaker and Batch every `PASS_SECONDS`. A pass may be interrupted, repeated or run
concurrently with another: it acts only by conditional writes and by stop requests, which may be repeated.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from traingrid.aws.batch import Batch
from traingrid.aws.clients import periodic_client
from traingrid.aws.s3 import Storage
from traingrid.aws.sns import Topic
from traingrid.backends import describing, inventory_of
from traingrid.ledger.ledger import Ledger
from traingrid.reconciler.budgets import Budgets
from traingrid.reconciler.line_closer import Closer
from traingrid.reconciler.notifications import Notifier
from traingrid.reconciler.pass_report import PassReport
from traingrid.reconciler.pass_steps import Pass
from traingrid.submission.batch_children import Children
from traingrid.threads import map_in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from traingrid.backends.inventory import Inventory
    from traingrid.grid.deployment import Deployment
    from traingrid.job.backend_traits import BackendName
    from traingrid.job.observed import Describer

GRACE_SECONDS = 120.0
"""The minimum age of a line that the reconciler closes, and of a training job without a line that it stops.

A dead child may have sent a create request that SageMaker has not answered (the client's timeouts are 10 s to connect
and 60 s to read, traingrid/aws/clients.py). A new training job may not be visible yet. A retry opens its lines before
its array exists (`retry.SLICE_SECONDS`). The value is less than the interval between two passes, so that the second
pass acts at the latest.
"""


def map_concurrently(work: Callable[[str], Any], regions: Collection[str]) -> Iterable[Any]:
    """Call a function for all Regions concurrently, and return the results in the order of the Regions."""
    return map_in_order(work, regions, len(regions))


@dataclass(kw_only=True)
class Reconciler:
    """Reconciles all submissions of a grid.

    Attributes:
        bucket: The manifest bucket.
        batch: The job queue; the reconciler submits nothing to it.
        regions: The training Regions of the grid. Lines may be in other Regions that have left the grid.
        backend: Returns the service of a Region.
        notifications: Publishes events of submissions; None if the grid has no notifications.
        map_regions: Calls a function for each Region.
    """

    grid: str
    bucket: str
    ledger: Ledger
    storage: Storage
    children: Children
    batch: Batch
    regions: Collection[str]
    inventory: Callable[[str], Inventory]
    backend: Callable[[str, BackendName], Describer]
    notifications: Notifier | None = None
    grace_seconds: float = GRACE_SECONDS
    map_regions: Callable[[Callable[[str], Any], Collection[str]], Iterable[Any]] = map_concurrently

    @classmethod
    def of(cls, deployment: Deployment, grace_seconds: float = GRACE_SECONDS) -> Self:
        """Return the reconciler of a deployment."""
        grid = deployment.grid
        storage = Storage(deployment.grid.home, periodic_client)
        ledger = Ledger(deployment.table, grid.home, periodic_client)
        return cls(
            grid=grid.name,
            bucket=deployment.manifest_bucket,
            ledger=ledger,
            storage=storage,
            children=Children(storage, deployment.manifest_bucket, grid.home, periodic_client),
            batch=Batch(deployment, grid.home, periodic_client),
            regions=list(grid.regions),
            inventory=cache(lambda region: inventory_of(deployment, region, periodic_client)),
            backend=cache(lambda region, backend: describing(deployment, region, backend, periodic_client)),
            notifications=_notifications(deployment, ledger),
            grace_seconds=grace_seconds,
        )

    def run_pass(self, within: float = math.inf) -> PassReport:
        """Compare the ledger with SageMaker and Batch once, and correct differences.

        Args:
            within: The seconds after which the caller is terminated. Work without time is left to the next passes,
                each of which starts at another line.

        Returns:
            The results of the pass.

        Raises:
            UnreachedError: A Region or a submission could not be processed. All others were.
        """
        return Pass(reconciler=self, within=within, began=time.time()).run()

    @property
    def budgets(self) -> Budgets:
        """Ends submissions that have reached their budgets."""
        return Budgets(grid=self.grid, ledger=self.ledger, backend=self.backend)

    @property
    def closer(self) -> Closer:
        """Records outcomes and closes lines."""
        return Closer(grid=self.grid, ledger=self.ledger, backend=self.backend, grace_seconds=self.grace_seconds)


def _notifications(deployment: Deployment, ledger: Ledger) -> Notifier | None:
    """Return the notifications of a deployment, or None if its grid has none."""
    if not deployment.topic:
        return None
    topic, grid = Topic(deployment.topic, periodic_client), deployment.grid
    return Notifier(
        grid=grid.name,
        home=grid.home,
        ledger=ledger,
        publish=lambda message: topic.publish(message.subject, message.email(), message.event()),
    )
