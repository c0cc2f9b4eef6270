"""SageMaker training jobs that train for real, as process groups on this machine."""

from typing import TYPE_CHECKING

from localcloud.sagemaker import backend, training_plans

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud


def install(cloud: "LocalCloud") -> None:
    """Replace moto's training jobs with ours."""
    backend.replace(cloud)
    training_plans.install(cloud, backend.TrainingBackend.plans)
    cloud.on_stop(backend.TrainingBackend.runners.abandon_all)
