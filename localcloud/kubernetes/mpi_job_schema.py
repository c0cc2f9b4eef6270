"""The schema of MPIJob v2beta1, as the CustomResourceDefinition of Kubeflow's MPI operator describes it.

Sources: https://github.com/kubeflow/mpi-operator/blob/v0.8.2/manifests/base/kubeflow.org_mpijobs.yaml, and the comments
of pkg/apis/kubeflow/v2beta1/types.go there, from which it is generated.
"""

from lightkube.models import core_v1, meta_v1

from localcloud.kubernetes.schema import BOOLEAN, INTEGER, STRING, Schema, of_model

_REPLICA = Schema(
    type="object",
    fields={"replicas": INTEGER, "template": of_model(core_v1.PodTemplateSpec), "restartPolicy": STRING},
)
_SCHEDULING = Schema(
    type="object",
    fields={
        "minAvailable": INTEGER,
        "queue": STRING,
        "minResources": Schema(type="object"),
        "priorityClass": STRING,
        "scheduleTimeoutSeconds": INTEGER,
    },
)
_RUN_POLICY = Schema(
    type="object",
    fields={
        "cleanPodPolicy": STRING,
        "ttlSecondsAfterFinished": INTEGER,
        "activeDeadlineSeconds": INTEGER,
        "backoffLimit": INTEGER,
        "schedulingPolicy": _SCHEDULING,
        "suspend": BOOLEAN,
        "managedBy": STRING,
    },
    defaults={"suspend": False},
)
_SPEC = Schema(
    type="object",
    fields={
        "slotsPerWorker": INTEGER,
        "runLauncherAsWorker": BOOLEAN,
        "runPolicy": _RUN_POLICY,
        "mpiReplicaSpecs": Schema(type="object", items=_REPLICA),
        "sshAuthMountPath": STRING,
        "launcherCreationPolicy": STRING,  # without its two values, as in the definition
        "mpiImplementation": Schema(type="string", choices=("OpenMPI", "Intel", "MPICH")),
    },
    required=("mpiReplicaSpecs",),
    defaults={
        "slotsPerWorker": 1,
        "runLauncherAsWorker": False,
        "sshAuthMountPath": "/root/.ssh",
        "launcherCreationPolicy": "AtStartup",
        "mpiImplementation": "OpenMPI",
    },
)
_CONDITION = Schema(
    type="object",
    fields={
        **dict.fromkeys(("type", "reason", "message", "lastUpdateTime", "lastTransitionTime"), STRING),
        "status": Schema(type="string", choices=("True", "False", "Unknown")),
    },
    required=("type", "status"),
)
_COUNTS = Schema(
    type="object",
    fields={
        "active": INTEGER,
        "succeeded": INTEGER,
        "failed": INTEGER,
        "selector": STRING,
        "labelSelector": Schema(type="object"),
    },
)
_STATUS = Schema(
    type="object",
    fields={
        "conditions": Schema(type="array", items=_CONDITION),
        "replicaStatuses": Schema(type="object", items=_COUNTS),
        "startTime": STRING,
        "completionTime": STRING,
        "lastReconcileTime": STRING,
    },
)
MPI_JOB = Schema(
    type="object",
    fields={
        "apiVersion": STRING,
        "kind": STRING,
        "metadata": of_model(meta_v1.ObjectMeta),
        "spec": _SPEC,
        "status": _STATUS,
    },
)
