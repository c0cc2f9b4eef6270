"""Objects: the Indexed Job and the MPIJob of a line are valid in Kubernetes, and have what SageMaker would give it."""

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from localcloud.kubernetes.resources import JOB, MPI_JOB_RESOURCE, SERVICE, Resource
from localcloud.kubernetes.validation import accepted
from tests.support.eks_jobs import NAME, POD_IMAGE, REGION, eks_job, training_object
from traingrid.backends.eks import labels
from traingrid.backends.eks.indexed_job import headless_service, indexed_job
from traingrid.backends.eks.mpi_job import mpi_job
from traingrid.job.job import Channel, Job

LUSTRE = "fs-0123456789abcdef0"
SETTINGS: dict[str, Any] = {
    "s3_volumes": {"my-bucket": "campaigns"},
    "file_system_volumes": {LUSTRE: "recordings"},
    "tolerations": [{"key": "team", "value": "research", "effect": "NoSchedule"}],
    "queue": "gpus",
    "queue_priority": "training-priority",
    "node_selector": {"karpenter.sh/capacity-type": "reserved"},
}
QUEUED = {"kueue.x-k8s.io/queue-name": "gpus", "kueue.x-k8s.io/priority-class": "training-priority"}
INJECT_NOTHING = {
    "sidecar.istio.io/inject": "false",
    "linkerd.io/inject": "disabled",
    "consul.hashicorp.com/connect-inject": "false",
    "appmesh.k8s.aws/sidecarInjectorWebhook": "disabled",
    "sidecar.opentelemetry.io/inject": "false",
}
JOBS = {
    "plain": eks_job(),
    "hosts": eks_job(instance_count=3, instance_type="ml.p5.48xlarge", processes_per_host=8),
    "spot": eks_job(spot=True, max_wait_seconds=900),
    "mounts": eks_job(
        inputs={
            "train": Channel(uri="s3://my-bucket/train/", input_mode="FastFile"),
            "whole": Channel(uri="s3://my-bucket/", input_mode="FastFile"),
            "old": Channel(file_system=LUSTRE, type="FSxLustre", path="/abcd/old"),
        }
    ),
    "rich": eks_job(
        environment={"PRICE": "$(HOME) costs $5"},
        checkpoints="s3://b/c/",
        metrics={"loss": "loss=(.*)"},
        tags={"a": "b"},
    ),
}


def valid(resource: Resource, made: dict[str, Any]) -> None:
    """Fail if a server would reject an object, or drop a field of it."""
    stored, warnings = accepted(resource, copy.deepcopy(made), "Strict")
    assert warnings == []
    assert stored["spec"].items() >= {}.items()


def pods_of(made: dict[str, Any]) -> dict[str, Any]:
    template: dict[str, Any] = made["spec"]["template"]["spec"]
    return template


def container(made: dict[str, Any], name: str) -> dict[str, Any]:
    spec = pods_of(made)
    found: dict[str, Any] = next(one for one in [*spec["initContainers"], *spec["containers"]] if one["name"] == name)
    return found


@pytest.mark.parametrize("job", JOBS.values(), ids=list(JOBS))
def test_the_objects_are_valid(job: Job) -> None:
    wanted = training_object(job, **SETTINGS)
    made = indexed_job(wanted)
    valid(JOB, made)
    valid(MPI_JOB_RESOURCE, mpi_job(wanted))
    valid(SERVICE, headless_service({**made, "metadata": {**made["metadata"], "uid": "1"}}))


def test_an_indexed_job_has_a_pod_for_each_host_and_replaces_none() -> None:
    spec = indexed_job(training_object(JOBS["hosts"]))["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 3, 3)
    assert (spec["backoffLimit"], spec["podReplacementPolicy"]) == (0, "Failed")
    assert "ttlSecondsAfterFinished" not in spec
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


@pytest.mark.parametrize(("hosts", "workers"), [(1, None), (2, 1), (3, 2)])
def test_the_launcher_of_an_mpijob_is_its_first_host(hosts: int, workers: int | None) -> None:
    spec = mpi_job(training_object(eks_job(instance_count=hosts, processes_per_host=2)))["spec"]
    replicas = spec["mpiReplicaSpecs"]
    assert replicas["Launcher"]["replicas"] == 1
    assert replicas.get("Worker", {}).get("replicas") == workers
    assert (spec["runLauncherAsWorker"], spec["slotsPerWorker"]) == (True, 2)
    assert spec["launcherCreationPolicy"] == "AtStartup"
    assert spec["runPolicy"] == {"cleanPodPolicy": "Running", "backoffLimit": 0}
    assert "restartPolicy" not in replicas["Launcher"]["template"]["spec"], "the operator warns about it"


def test_labels_annotations_and_the_finalizer_identify_the_attempt() -> None:
    wanted = training_object(JOBS["rich"], queue="gpus")
    metadata = indexed_job(wanted)["metadata"]
    assert metadata["labels"] == {
        "traingrid/grid": "traingrid",
        "traingrid/submission": "0123abcd",
        "traingrid/job": "0",
        "traingrid/attempt": "1",
        "traingrid/name": NAME,
        "kueue.x-k8s.io/queue-name": "gpus",
    }
    assert metadata["annotations"]["traingrid/fingerprint"] == wanted.fingerprint
    assert json.loads(metadata["annotations"]["traingrid/tags"]).items() >= {"a": "b"}.items()
    assert metadata["finalizers"] == ["traingrid/recorded"]
    template = indexed_job(wanted)["spec"]["template"]["metadata"]
    assert template["labels"].items() >= metadata["labels"].items()
    assert json.loads(template["annotations"]["traingrid/request"]) == wanted.request


def test_the_queue_and_kind_of_a_line_replace_those_of_the_region() -> None:
    wanted = training_object(eks_job(eks_queue="urgent", eks_kind="mpijob"), queue="gpus")
    assert (wanted.kind, indexed_job(wanted)["metadata"]["labels"][labels.QUEUE]) == ("mpijob", "urgent")


def test_objects_in_a_queue_have_the_priority_of_the_settings() -> None:
    for make, hosts in ((indexed_job, 1), (mpi_job, 2)):
        made = make(training_object(eks_job(instance_count=hosts), **SETTINGS))
        assert made["metadata"]["labels"].items() >= QUEUED.items()
    without = indexed_job(training_object(queue_priority="training-priority"))
    assert QUEUED.keys().isdisjoint(without["metadata"]["labels"]), "only a queue has priorities"
    created = indexed_job(training_object(**SETTINGS))
    created["metadata"]["uid"] = "1"
    assert QUEUED.keys().isdisjoint(headless_service(created)["metadata"]["labels"])


def test_pods_run_on_selected_nodes_only() -> None:
    assert pods_of(indexed_job(training_object(**SETTINGS)))["nodeSelector"] == SETTINGS["node_selector"]
    replicas = mpi_job(training_object(eks_job(instance_count=2), **SETTINGS))["spec"]["mpiReplicaSpecs"]
    for replica in replicas.values():
        assert replica["template"]["spec"]["nodeSelector"] == SETTINGS["node_selector"]
    assert "nodeSelector" not in pods_of(indexed_job(training_object()))


def test_hosts_know_their_names() -> None:
    wanted = training_object(eks_job(instance_count=3))
    one = container(indexed_job(wanted), "prepare")
    hosts = {entry["name"]: entry["value"] for entry in one["env"]}["TRAINGRID_HOSTS"].split(",")
    assert hosts == [f"{NAME}-{index}.{NAME}" for index in range(3)]
    assert pods_of(indexed_job(wanted))["subdomain"] == NAME
    wanted = training_object(eks_job(instance_count=3, eks_kind="mpijob"))
    other = mpi_job(wanted)["spec"]["mpiReplicaSpecs"]["Worker"]
    of_mpi = other["template"]["spec"]["initContainers"][0]["env"]
    hosts = {entry["name"]: entry["value"] for entry in of_mpi}["TRAINGRID_HOSTS"].split(",")
    assert hosts == [f"{NAME}-launcher.{NAME}", f"{NAME}-worker-0.{NAME}", f"{NAME}-worker-1.{NAME}"]
    assert min(hosts) == hosts[0], "the main host is the first one in sorted order"


def test_the_containers_are_those_of_the_contract() -> None:
    made = indexed_job(training_object())
    prepare, results, train = (container(made, name) for name in ("prepare", "results", "train"))
    assert (prepare["image"], results["image"], train["image"]) == (POD_IMAGE, POD_IMAGE, eks_job().image)
    assert prepare["command"] == ["python3", "-m", "traingrid.pod", "prepare"]  # not the image's own entry point
    assert (results["command"][-1], results["restartPolicy"]) == ("results", "Always")
    assert results["startupProbe"]["exec"]["command"] == ["python3", "-m", "traingrid.pod", "ready"]
    assert train["args"] == ["train"]
    assert "command" not in train, "the image's ENTRYPOINT remains"
    environment = {entry["name"]: entry["value"] for entry in train["env"]}
    assert (environment["TRAINING_JOB_NAME"], environment["AWS_REGION"]) == (NAME, REGION)
    spec = pods_of(made)
    assert (spec["activeDeadlineSeconds"], spec["automountServiceAccountToken"]) == (600, False)


def test_sigterm_reaches_programs_without_a_handler() -> None:
    assert pods_of(indexed_job(training_object()))["shareProcessNamespace"] is True, "none of them is PID 1"


@pytest.mark.parametrize(("suffix", "policy"), [(":v1", "Always"), (f"@sha256:{'0' * 64}", "IfNotPresent")])
def test_nodes_pull_a_tag_that_may_have_moved(suffix: str, policy: str) -> None:
    job = eks_job(image=f"123456789012.dkr.ecr.eu-west-1.amazonaws.com/traingrid/training{suffix}")
    assert container(indexed_job(training_object(job)), "train")["imagePullPolicy"] == policy


def test_dollars_in_variables_reach_the_training_unchanged() -> None:
    train = container(indexed_job(training_object(JOBS["rich"])), "train")
    assert {entry["name"]: entry["value"] for entry in train["env"]}["PRICE"] == "$$(HOME) costs $$5"


def test_the_training_sees_the_folders_of_sagemaker_and_the_files_of_the_image_beside_them() -> None:
    made = indexed_job(training_object())
    mounts = [mount for mount in container(made, "train")["volumeMounts"] if mount["name"] == "opt-ml"]
    folders = ["input", "model", "checkpoints", "output"]
    assert [(mount["mountPath"], mount["subPath"]) for mount in mounts] == [(f"/opt/ml/{one}", one) for one in folders]
    for name in ("prepare", "results"):
        assert {"name": "opt-ml", "mountPath": "/opt/ml"} in container(made, name)["volumeMounts"]


@pytest.mark.parametrize("reader", ["prepare", "train"])
def test_channels_that_are_not_downloaded_are_mounted(reader: str) -> None:
    made = indexed_job(training_object(JOBS["mounts"], **SETTINGS))
    volumes = {volume["name"]: volume for volume in pods_of(made)["volumes"]}
    mounts = {mount["mountPath"]: mount for mount in container(made, reader)["volumeMounts"]}
    shown = {
        path.removeprefix("/opt/ml/input/data/"): (
            volumes[mount["name"]]["persistentVolumeClaim"]["claimName"],
            mount.get("subPath"),
            mount["readOnly"],
        )
        for path, mount in mounts.items()
        if path.startswith("/opt/ml/input/")
    }
    assert shown == {
        "train": ("campaigns", "train", True),
        "whole": ("campaigns", None, True),
        "old": ("recordings", "old", True),
    }


@pytest.mark.parametrize(("spot", "operator"), [(True, "In"), (False, "NotIn")])
def test_nodes_are_chosen_by_instance_type_and_way_of_purchase(spot: bool, operator: str) -> None:
    affinity = pods_of(indexed_job(training_object(eks_job(spot=spot))))["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert len(terms) == (2 if spot else 1)
    for term in terms:
        of_type, *ways = term["matchExpressions"]
        assert of_type["values"] == ["m5.large", "ml.m5.large"]
        assert {way["operator"] for way in ways} == {operator}


@pytest.mark.parametrize(("spot", "operator"), [(True, "In"), (False, "NotIn")])
def test_in_auto_mode_nodes_are_not_chosen_by_the_label_of_managed_node_groups(spot: bool, operator: str) -> None:
    wanted = replace(training_object(eks_job(spot=spot)), auto_mode=True)
    affinity = pods_of(indexed_job(wanted))["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    way = {"key": "karpenter.sh/capacity-type", "operator": operator, "values": ["spot"]}
    assert term["matchExpressions"][1:] == [way]


def test_no_pod_is_ended_to_save_nodes() -> None:
    wanted = training_object(eks_job(instance_count=2))
    templates = [one["template"] for one in mpi_job(wanted)["spec"]["mpiReplicaSpecs"].values()]
    for template in (indexed_job(wanted)["spec"]["template"], *templates):
        annotations = template["metadata"]["annotations"]
        assert annotations["karpenter.sh/do-not-disrupt"] == "true"
        assert annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"


def test_no_service_mesh_adds_a_container_to_a_pod() -> None:
    wanted = training_object(eks_job(instance_count=2))
    templates = [one["template"] for one in mpi_job(wanted)["spec"]["mpiReplicaSpecs"].values()]
    for template in (indexed_job(wanted)["spec"]["template"], *templates):
        metadata = template["metadata"]
        assert metadata["annotations"].items() >= INJECT_NOTHING.items()
        assert metadata["labels"]["sidecar.istio.io/inject"] == "false", "current versions of Istio read the label"
        assert metadata["labels"]["kuma.io/sidecar-injection"] == "disabled"


def test_mpirun_of_the_image_keeps_full_host_names_unless_the_line_decides() -> None:
    def variables(**given: str) -> dict[str, str]:
        train = pods_of(indexed_job(training_object(eks_job(environment=given))))["containers"][0]
        return {entry["name"]: entry["value"] for entry in train["env"]}

    names = "OMPI_MCA_orte_keep_fqdn_hostnames", "PRTE_MCA_prte_keep_fqdn_hostnames"
    assert [variables()[name] for name in names] == ["true", "true"]
    assert [variables(**{names[0]: "false"})[name] for name in names] == ["false", "true"]


def test_hosts_of_a_training_job_are_on_separate_nodes() -> None:
    apart = pods_of(indexed_job(training_object()))["affinity"]["podAntiAffinity"]
    (term,) = apart["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"] == {"matchLabels": {"traingrid/name": NAME}}


def test_hosts_with_efa_are_in_one_zone() -> None:
    together = pods_of(indexed_job(training_object(JOBS["hosts"])))["affinity"]["podAffinity"]
    (term,) = together["requiredDuringSchedulingIgnoredDuringExecution"]
    same = {"matchLabels": {"traingrid/name": NAME}}
    assert term == {"labelSelector": same, "topologyKey": "topology.kubernetes.io/zone"}
    single = JOBS["hosts"].model_copy(update={"instance_count": 1})
    for job in (single, eks_job(instance_count=3)):
        assert "podAffinity" not in pods_of(indexed_job(training_object(job)))["affinity"]


def test_pods_tolerate_the_taints_of_accelerators_and_of_the_settings() -> None:
    tolerations = pods_of(indexed_job(training_object(**SETTINGS)))["tolerations"]
    keys = [toleration["key"] for toleration in tolerations]
    assert {"nvidia.com/gpu", "vpc.amazonaws.com/efa", "team"} <= set(keys)
    assert tolerations[-1] == {"key": "team", "operator": "Equal", "value": "research", "effect": "NoSchedule"}
