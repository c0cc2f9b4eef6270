"""MPIJobs: the `kubeflow.org/v2beta1` MPIJob of a training job, whose launcher is its first host.

Source: https://github.com/kubeflow/mpi-operator/blob/master/pkg/controller/mpi_job_controller.go.
"""

from typing import Any

from traingrid.backends.eks.pod_template import object_metadata, pod_template
from traingrid.backends.eks.training_object import TrainingObject

_KEY_FOLDER = "/etc/mpi-ssh"
"""The folder of the operator's key pair. `train` has its own in /root/.ssh, which the operator's default hides."""


def mpi_job(training_object: TrainingObject) -> dict[str, Any]:
    """Return the MPIJob of a training job.

    All hosts run `train`, which itself starts the ranks. Therefore the implementation is MPICH: with OpenMPI the
    operator sets OMPI_MCA_orte_default_hostfile in the launcher, which would add hosts to those of `train`'s mpirun.

    The launcher must not be created later than the workers, because the hosts wait for each other
    (`traingrid.pod.peers`).
    """
    replicas: dict[str, Any] = {"Launcher": _replicas(training_object, 1)}
    if workers := training_object.job.instance_count - 1:
        replicas["Worker"] = _replicas(training_object, workers)
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": object_metadata(training_object),
        "spec": {
            "slotsPerWorker": training_object.job.processes_per_host,
            "runLauncherAsWorker": True,
            "launcherCreationPolicy": "AtStartup",
            "mpiImplementation": "MPICH",
            "sshAuthMountPath": _KEY_FOLDER,
            "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 0},
            "mpiReplicaSpecs": replicas,
        },
    }


def _replicas(training_object: TrainingObject, count: int) -> dict[str, Any]:
    template = pod_template(training_object, restart_policy=False)
    return {"replicas": count, "restartPolicy": "Never", "template": template}
