"""AWS Batch: queues, jobs and arrays that really run, as processes of this machine."""

from typing import TYPE_CHECKING

from localcloud.batch import backend
from localcloud.batch.scheduler import Scheduler

if TYPE_CHECKING:
    from localcloud.server import LocalCloud


def install(cloud: "LocalCloud") -> None:
    """Put our Batch in the place of moto's and start its scheduler."""
    scheduler = Scheduler(cloud)
    backend.replace(scheduler)
    scheduler.start()
    cloud.on_stop(scheduler.stop)
