"""AWS Batch: queues, jobs and array jobs that run as processes on this machine."""

from typing import TYPE_CHECKING

from localcloud.batch import backend
from localcloud.batch.scheduler import Scheduler
from localcloud.batch.service_jobs.scheduler import ServiceScheduler

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud


def install(cloud: "LocalCloud") -> None:
    """Replace moto's Batch with ours and start the schedulers."""
    scheduler, services = Scheduler(cloud), ServiceScheduler(cloud)
    backend.replace(cloud, scheduler, services)
    cloud.limits.on_change(scheduler.poke)
    for component in (scheduler, services):
        component.start()
        cloud.on_stop(component.stop)
