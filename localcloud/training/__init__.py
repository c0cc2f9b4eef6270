"""SageMaker training jobs that really train, as process groups of this machine."""

from typing import TYPE_CHECKING

from localcloud.training import backend

if TYPE_CHECKING:
    from localcloud.server import LocalCloud


def install(cloud: "LocalCloud") -> None:
    """Put our training jobs in the place of moto's."""
    backend.replace(cloud)
    cloud.on_stop(backend.abandon_all)
