"""Pod templates: the pods of a training job, with the containers that provide SageMaker's /opt/ml.

The init container `prepare` writes the configuration and downloads the data, the sidecar `results` uploads checkpoints
and results (both run `traingrid.pod`), and `train` runs the line's image as SageMaker does.

`prepare` and `results` mount the volume at /opt/ml as a whole; `train` mounts its folders, so that it sees the image's
own files beside them. `prepare` creates the folders with write permission for all users; the kubelet resolves them when
it creates `train` (makeMounts in pkg/kubelet/kubelet_pods.go of https://github.com/kubernetes/kubernetes). Channels of
claims are mounts inside that of /opt/ml/input, which containerd creates after it, because it sorts mounts by their
depth (WithMounts in internal/cri/opts/spec_linux_opts.go of https://github.com/containerd/containerd).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from traingrid.backends.eks import labels
from traingrid.backends.eks.hosts import host_names
from traingrid.backends.eks.resources import EFA, GPU, NEURON, resources, uses_efa
from traingrid.backends.eks.training_object import TrainingObject
from traingrid.grid.eks import INSTANCE_TYPE
from traingrid.pod.opt_ml import MOUNTED

TRAIN, PREPARE, RESULTS = "train", "prepare", "results"
"""The names of the containers."""
ROOT, JOB_FOLDER = "/opt/ml", "/etc/traingrid"
_GRACE_SECONDS = 900
"""The time in which a pod that is stopped uploads its results."""
_KARPENTER, _MANAGED = "karpenter.sh/capacity-type", "eks.amazonaws.com/capacityType"
"""The labels of spot and on-demand nodes: of Karpenter and EKS Auto Mode
(https://karpenter.sh/docs/concepts/scheduling/#well-known-labels), and of managed node groups
(https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html)."""
_SIDECAR = {
    "restartPolicy": "Always",
    "startupProbe": {
        "exec": {"command": ["python3", "-m", "traingrid.pod", "ready"]},
        "periodSeconds": 1,
        "timeoutSeconds": 10,
        "failureThreshold": 300,
    },
}
"""The sidecar `results`. The training starts when its probe succeeds
(https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#differences-from-application-containers)."""
_ZONE = "topology.kubernetes.io/zone"
"""The label of Availability Zones. EFA does not work across them
(https://docs.aws.amazon.com/parallelcluster/latest/ug/efa-v3.html)."""
_NOT_DISRUPTED = {"karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
"""Annotations by which Karpenter, EKS Auto Mode and the Cluster Autoscaler end no pod to save nodes
(https://karpenter.sh/docs/concepts/disruption/#pod-level-controls,
https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md)."""
_NOT_INJECTED = {
    "sidecar.istio.io/inject": "false",
    "linkerd.io/inject": "disabled",
    "consul.hashicorp.com/connect-inject": "false",
    "appmesh.k8s.aws/sidecarInjectorWebhook": "disabled",
    "sidecar.opentelemetry.io/inject": "false",
}
"""Annotations by which service meshes and the OpenTelemetry Operator add no container to a pod, also if its namespace
asks for it; the container would run on after the training. Vault and Dapr add theirs only to pods that ask for it
(https://developer.hashicorp.com/vault/docs/platform/k8s/injector,
https://docs.dapr.io/concepts/dapr-services/sidecar-injector). Sources:
https://istio.io/latest/docs/setup/additional-setup/sidecar-injection/,
https://linkerd.io/2/features/proxy-injection/, https://developer.hashicorp.com/consul/docs/k8s/annotations-and-labels,
https://pkg.go.dev/github.com/aws/aws-app-mesh-inject,
https://github.com/open-telemetry/opentelemetry-operator#sidecar-injection."""
_NOT_INJECTED_LABELS = {"sidecar.istio.io/inject": "false", "kuma.io/sidecar-injection": "disabled"}
"""The same as labels: of Istio since 1.13 (https://support.huaweicloud.com/intl/en-us/asm_faq/asm_faq_0037.html), and
of Kuma (needInject in pkg/plugins/runtime/k8s/webhooks/injector/injector.go of https://github.com/kumahq/kuma)."""
_FULL_NAMES = {"OMPI_MCA_orte_keep_fqdn_hostnames": "true", "PRTE_MCA_prte_keep_fqdn_hostnames": "true"}
"""Variables for images with their own mpirun. By default, it cuts the names of hosts at the first dot
(https://github.com/open-mpi/ompi/issues/12089), but only the full names of other pods resolve. The first variable is
the one that the MPI operator sets for the implementation OpenMPI (ompiEnvVars in
https://github.com/kubeflow/mpi-operator/blob/master/pkg/controller/mpi_job_controller.go). The second one is for Open
MPI 5, whose mpirun is PRRTE's (`prte_info --all` of 5.0.11)."""
_SHARED_PROCESSES = {"shareProcessNamespace": True}
"""PID 1 of the pod is its pause container, and not the program of an image. The kernel sends PID 1 only the signals for
which it has a handler (https://man7.org/linux/man-pages/man7/pid_namespaces.7.html), so after a cancel most programs
would train until the grace period is over. The other processes of a container end with its program nevertheless
(ShouldKillAllOnExit in cmd/containerd-shim-runc-v2/runc/util.go of https://github.com/containerd/containerd)."""
_SHIM = {"requests": {"cpu": "100m", "memory": "256Mi"}}


def pod_template(training_object: TrainingObject, *, restart_policy: bool = True) -> dict[str, Any]:
    """Return the pod template of a training job, which is the same for all of its hosts.

    Pods have the label of the queue, too, because the admission policy of HyperPod task governance refuses pods without
    it (https://awslabs.github.io/ai-on-sagemaker-hyperpod/docs/eks-orchestration/add-ons/Spaces-Node-Overprovisioning/namespace-and-priorityclass).
    Kueue queues only their Job, because it manages that (Default in pkg/controller/jobs/pod/pod_webhook.go of
    https://github.com/kubernetes-sigs/kueue).

    Args:
        restart_policy: False leaves out `restartPolicy`, which MPIJob sets from its replicas.
    """
    job, mounts = training_object.job, list(_claims_and_mounts(training_object))
    claims = {claim: f"data-{number}" for number, claim in enumerate(sorted({claim for claim, _ in mounts}))}
    volumes = [
        {"name": "opt-ml", "emptyDir": {"sizeLimit": f"{job.volume_gb}Gi"}},
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
        {"name": "job", "downwardAPI": {"items": [_REQUEST_FILE]}},
        *({"name": name, "persistentVolumeClaim": {"claimName": claim}} for claim, name in claims.items()),
    ]
    data = [{"name": claims[claim], **mount} for claim, mount in mounts]
    spec: dict[str, Any] = {
        "serviceAccountName": training_object.cluster.service_account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "subdomain": training_object.name,
        **_SHARED_PROCESSES,
        "activeDeadlineSeconds": job.max_runtime_seconds,
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "affinity": {
            "nodeAffinity": _node_affinity(job.instance_type, spot=job.spot, auto_mode=training_object.auto_mode),
            "podAntiAffinity": _hosts_in(training_object, "kubernetes.io/hostname"),  # each host on a separate node
            **({"podAffinity": _hosts_in(training_object, _ZONE)} if uses_efa(job) else {}),
        },
        "tolerations": _tolerations(training_object),
        "initContainers": [_shim(training_object, PREPARE, data), {**_shim(training_object, RESULTS), **_SIDECAR}],
        "containers": [_train(training_object, data)],
        "volumes": volumes,
    }
    if training_object.cluster.node_selector:
        spec["nodeSelector"] = dict(training_object.cluster.node_selector)
    if restart_policy:
        spec["restartPolicy"] = "Never"
    request = json.dumps(training_object.request, separators=(",", ":"))
    annotations = {labels.REQUEST: request, **_NOT_DISRUPTED, **_NOT_INJECTED}
    pod_labels = {**object_labels(training_object), **_NOT_INJECTED_LABELS}
    if training_object.queue:
        pod_labels[labels.QUEUE] = training_object.queue
    return {"metadata": {"labels": pod_labels, "annotations": annotations}, "spec": spec}


def object_labels(training_object: TrainingObject) -> dict[str, str]:
    """Return the labels of a training job's object and of its pods."""
    return {
        labels.GRID: training_object.grid,
        labels.SUBMISSION: training_object.identity.submission,
        labels.JOB: str(training_object.identity.index),
        labels.ATTEMPT: str(training_object.identity.attempt),
        labels.NAME: training_object.name,
    }


def queue_labels(training_object: TrainingObject) -> dict[str, str]:
    """Return the labels by which Kueue queues a training job's object; none without a queue."""
    if not training_object.queue:
        return {}
    queue_labels = {labels.QUEUE: training_object.queue}
    if training_object.cluster.queue_priority:
        queue_labels[labels.QUEUE_PRIORITY] = training_object.cluster.queue_priority
    return queue_labels


def object_metadata(training_object: TrainingObject) -> dict[str, Any]:
    """Return the metadata of a training job's object."""
    tags = json.dumps(dict(training_object.tags), sort_keys=True)
    return {
        "name": training_object.name,
        "namespace": training_object.cluster.namespace,
        "labels": object_labels(training_object) | queue_labels(training_object),
        "annotations": {labels.FINGERPRINT: training_object.fingerprint, labels.TAGS: tags},
        "finalizers": [labels.FINALIZER],
    }


_REQUEST_FILE = {"path": "request.json", "fieldRef": {"fieldPath": f"metadata.annotations['{labels.REQUEST}']"}}


def _shim(training_object: TrainingObject, program: str, data: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Return the container that runs a program of `traingrid.pod` in the orchestrator's image.

    It replaces the image's entry point, which runs a child, and its user, who could not read files that `train` writes
    as root (batch_job/Dockerfile). `data` are the mounts of channels: `prepare` checks that they have content, and each
    container must declare its mounts (https://kubernetes.io/docs/concepts/storage/volumes/).
    """
    hosts = host_names(training_object.name, training_object.kind, training_object.job.instance_count)
    environment = {"AWS_REGION": training_object.region, "TRAINGRID_HOSTS": ",".join(hosts)}
    return {
        "name": program,
        "image": training_object.pod_image,
        "command": ["python3", "-m", "traingrid.pod", program],
        "securityContext": {"runAsUser": 0, "allowPrivilegeEscalation": False},
        "env": _variables(environment),
        "resources": _SHIM,
        "volumeMounts": [
            {"name": "opt-ml", "mountPath": ROOT},
            {"name": "job", "mountPath": JOB_FOLDER, "readOnly": True},
            *data,
        ],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _train(training_object: TrainingObject, data: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the container of the line's image, started as SageMaker starts it: `docker run <image> train`.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-dockerfile.html.
    """
    environment = {**_FULL_NAMES, **training_object.request.get("Environment", {})}
    environment |= {
        "TRAINING_JOB_NAME": training_object.name,
        "TRAINING_JOB_ARN": training_object.arn,
        "AWS_REGION": training_object.region,
    }
    image = training_object.request["AlgorithmSpecification"]["TrainingImage"]
    return {
        "name": TRAIN,
        "image": image,
        "imagePullPolicy": _pull_policy(image),
        "args": ["train"],
        "env": _variables(environment),
        "resources": resources(training_object.job, queued=bool(training_object.queue)),
        "volumeMounts": [
            *({"name": "opt-ml", "mountPath": f"{ROOT}/{folder}", "subPath": folder} for folder in MOUNTED),
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108  # not a temporary file
            *data,
        ],
    }


def _pull_policy(image: str) -> str:
    """Return the policy by which a node pulls an image.

    By default, a node that has an image for a tag, other than `latest`, does not look whether the tag has moved. With
    Always it does, and transfers only the layers that it lacks
    (https://kubernetes.io/docs/concepts/containers/images/#imagepullpolicy-defaulting).
    """
    return "IfNotPresent" if "@" in image else "Always"


def _variables(environment: Mapping[str, str]) -> list[dict[str, str]]:
    """Return variables whose values Kubernetes does not change: it expands `$(NAME)`, and `$$` is a dollar.

    Source: https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/.
    """
    return [{"name": name, "value": value.replace("$", "$$")} for name, value in sorted(environment.items())]


def _claims_and_mounts(training_object: TrainingObject) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the claim and the mount of each channel that is not downloaded.

    A path of FSx for Lustre begins with the file system's mount name, which is the root of its volume
    (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_FileSystemDataSource.html).
    """
    for channel in training_object.request["InputDataConfig"]:
        source = channel["DataSource"]
        file_system = source.get("FileSystemDataSource")
        if file_system:
            claim = training_object.cluster.file_system_volumes[file_system["FileSystemId"]]
            path = file_system["DirectoryPath"].strip("/")
            path = path.partition("/")[2] if file_system["FileSystemType"] == "FSxLustre" else path
        elif channel["InputMode"] == "FastFile":
            bucket, _, path = source["S3DataSource"]["S3Uri"].removeprefix("s3://").partition("/")
            claim = training_object.cluster.s3_volumes[bucket]
            path = path.strip("/")
        else:
            continue
        folder = f"{ROOT}/input/data/{channel['ChannelName']}"
        mount: dict[str, Any] = {"mountPath": folder, "readOnly": True}
        if path:
            mount["subPath"] = path
        yield claim, mount


def _node_affinity(instance_type: str, *, spot: bool, auto_mode: bool) -> dict[str, Any]:
    """Return the affinity to nodes of an instance type.

    The nodes of SageMaker HyperPod have SageMaker's name of the type, others that of EC2
    (https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-autoscaling-nodeclass.html). EKS Auto Mode
    creates no node for a pod with the label of managed node groups, which has a reserved domain but is not one of its
    labels (https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html#auto-supported-labels,
    https://github.com/komodorio/helm-charts/pull/640).
    """
    of_type = {"key": INSTANCE_TYPE, "operator": "In", "values": [instance_type.removeprefix("ml."), instance_type]}
    labels_of_spot = {_KARPENTER: "spot"}
    if not auto_mode:
        labels_of_spot[_MANAGED] = "SPOT"
    operator = "In" if spot else "NotIn"
    ways = [{"key": key, "operator": operator, "values": [value]} for key, value in labels_of_spot.items()]
    # Terms are alternatives. NotIn also matches nodes without the label.
    terms = [[of_type, way] for way in ways] if spot else [[of_type, *ways]]
    selected = {"nodeSelectorTerms": [{"matchExpressions": expressions} for expressions in terms]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": selected}


def _hosts_in(training_object: TrainingObject, topology: str) -> dict[str, Any]:
    """Return the affinity, or anti-affinity, of the hosts of a training job to each other.

    With affinity to themselves, the first pod may be assigned to any node
    (https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#scheduling-a-group-of-pods-with-inter-pod-affinity-to-themselves),
    also by Karpenter (nextDomainAffinity in pkg/controllers/provisioning/scheduling/topologygroup.go of
    https://github.com/kubernetes-sigs/karpenter).
    """
    term = {"labelSelector": {"matchLabels": {labels.NAME: training_object.name}}, "topologyKey": topology}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _tolerations(training_object: TrainingObject) -> list[dict[str, str]]:
    devices = [{"key": name, "operator": "Exists", "effect": "NoSchedule"} for name in (GPU, EFA, NEURON)]
    settings = (toleration.model_dump() for toleration in training_object.cluster.tolerations)
    return devices + [
        {name: value for name, value in toleration_fields.items() if value} for toleration_fields in settings
    ]
