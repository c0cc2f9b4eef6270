"""Indexed Jobs on a cluster of localcloud, whose pods are processes."""

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from localcloud.ecr import process_images
from localcloud.kubernetes.controllers.provisioner import node_of
from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import ACCOUNT, image, wait_until
from tests.integration.localcloud.kubernetes.running_cluster import (
    JOBS,
    MERGE_PATCH,
    PODS,
    Cluster,
    a_running_cluster,
    training_job,
)

ONLY_NODE = node_of("only", "us-east-1", "m5.large", labels={})
READ = "import os; E = os.environ;"


@pytest.fixture(scope="module")
def cluster(cloud: LocalCloud) -> Iterator[Cluster]:
    with a_running_cluster(cloud) as running:
        yield running


def test_an_indexed_job_of_two_pods_succeeds(cluster: Cluster, client: Callable[..., Any]) -> None:
    code = f"{READ} print(E['JOB_COMPLETION_INDEX'], E['HOSTNAME'], E['POD_IDENTITY'])"
    uri = image(client("ecr"), "succeeds", code, "train")
    assert cluster.ask("POST", JOBS, training_job("good", uri))[0] == 201
    wait_until(lambda: "Complete" in cluster.conditions("good"))
    _, job = cluster.ask("GET", f"{JOBS}/good")
    assert (job["status"]["completedIndexes"], job["status"]["succeeded"]) == ("0,1", 2)
    assert [one["type"] for one in job["status"]["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    pods = cluster.pods("good")
    assert [pod["spec"]["hostname"] for pod in pods] == ["good-0", "good-1"]
    assert [pod["status"]["phase"] for pod in pods] == ["Succeeded", "Succeeded"]
    assert all("finalizers" not in pod["metadata"] for pod in pods)
    name = pods[1]["metadata"]["name"]
    assert cluster.request("GET", f"{PODS}/{name}/log").read() == b"1 good-1 default\n"


def start(cluster: Cluster, client: Callable[..., Any], name: str, code: str, **options: Any) -> None:
    """Create a Job whose pods run a line of Python."""
    uri = image(client("ecr"), f"image-{name}", f"import os, signal, sys, time; E = os.environ; {code}", "train")
    status, reply = cluster.ask("POST", JOBS, training_job(name, uri, **options))
    assert status == 201, reply


def is_running(cluster: Cluster, name: str, hosts: int = 2) -> bool:
    pods = cluster.pods(name)
    return len(pods) == hosts and all(pod["status"]["phase"] == "Running" for pod in pods)


def exit_code(pod: Any) -> int:
    return int(pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"])


GRACEFUL = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)); print('up', flush=True); time.sleep(60)"


def test_a_failing_pod_ends_the_others(cluster: Cluster, client: Callable[..., Any]) -> None:
    code = f"E['JOB_COMPLETION_INDEX'] == '1' and (time.sleep(1), sys.exit(3)); {GRACEFUL}"
    start(cluster, client, "bad", code)
    wait_until(lambda: "FailureTarget" in cluster.conditions("bad"))
    conditions = wait_until(lambda: "Failed" in cluster.conditions("bad") and cluster.conditions("bad"))
    assert conditions == {"FailureTarget": "BackoffLimitExceeded", "Failed": "BackoffLimitExceeded"}
    (failed,) = cluster.pods("bad")
    assert (exit_code(failed), failed["status"]["phase"]) == (3, "Failed")
    assert cluster.ask("GET", f"{JOBS}/bad")[1]["status"]["failed"] == 2
    assert "SuccessfulDelete" in cluster.reasons("bad")


def test_a_foreground_deletion_waits_for_the_pods_and_for_other_finalizers(
    cluster: Cluster, client: Callable[..., Any]
) -> None:
    start(cluster, client, "held", GRACEFUL, metadata={"finalizers": ["traingrid/recorded"]})
    wait_until(lambda: is_running(cluster, "held"))
    _, reply = cluster.ask("DELETE", f"{JOBS}/held", propagationPolicy="Foreground")
    assert reply["metadata"]["finalizers"] == ["traingrid/recorded", "foregroundDeletion"]
    wait_until(lambda: not cluster.pods("held"))
    wait_until(lambda: cluster.finalizers("held") == ["traingrid/recorded"])
    cluster.ask("PATCH", f"{JOBS}/held", {"metadata": {"finalizers": None}}, MERGE_PATCH)
    assert cluster.ask("GET", f"{JOBS}/held")[0] == 404


def test_pods_run_on_after_a_background_deletion_that_a_finalizer_holds(
    cluster: Cluster, client: Callable[..., Any]
) -> None:
    start(cluster, client, "kept", GRACEFUL, metadata={"finalizers": ["traingrid/recorded"]})
    wait_until(lambda: is_running(cluster, "kept"))
    cluster.ask("DELETE", f"{JOBS}/kept", propagationPolicy="Background")
    time.sleep(1.5)
    assert is_running(cluster, "kept"), "the garbage collector waits until the Job is gone"
    name = cluster.pods("kept")[0]["metadata"]["name"]
    cluster.ask("DELETE", f"{PODS}/{name}")
    wait_until(lambda: len(cluster.pods("kept")) == 1)
    time.sleep(0.5)
    assert len(cluster.pods("kept")) == 1, "a Job that is being deleted gets no new pods"
    cluster.ask("PATCH", f"{JOBS}/kept", {"metadata": {"finalizers": None}}, MERGE_PATCH)
    wait_until(lambda: not cluster.pods("kept"))


def test_a_deletion_without_a_policy_orphans_the_pods(cluster: Cluster, client: Callable[..., Any]) -> None:
    start(cluster, client, "orphans", GRACEFUL, hosts=1)
    wait_until(lambda: is_running(cluster, "orphans", 1))
    reply = cluster.request("DELETE", f"{JOBS}/orphans")
    assert "child pods are preserved by default" in reply.headers["Warning"]
    wait_until(lambda: cluster.ask("GET", f"{JOBS}/orphans")[0] == 404)
    (pod,) = cluster.pods("orphans")
    assert not pod["metadata"].get("ownerReferences")
    query = {"labelSelector": "batch.kubernetes.io/job-name=orphans"}
    assert cluster.ask("DELETE", PODS, **query)[1]["kind"] == "PodList"
    wait_until(lambda: not cluster.pods("orphans"))


def test_a_pod_that_loses_the_label_of_its_job_is_released_and_replaced(
    cluster: Cluster, client: Callable[..., Any]
) -> None:
    start(cluster, client, "released", "time.sleep(600)", hosts=1)
    wait_until(lambda: is_running(cluster, "released", 1))
    (pod,) = cluster.pods("released")
    labels = {"metadata": {"labels": {"batch.kubernetes.io/controller-uid": None}}}
    assert cluster.ask("PATCH", f"{PODS}/{pod['metadata']['name']}", labels, MERGE_PATCH)[0] == 200
    wait_until(lambda: is_running(cluster, "released", 2))
    first, second = sorted(cluster.pods("released"), key=lambda one: one["metadata"]["uid"] != pod["metadata"]["uid"])
    assert (first["spec"]["hostname"], second["spec"]["hostname"]) == ("released-0", "released-0")
    assert not first["metadata"].get("ownerReferences")
    assert not first["metadata"].get("finalizers")
    assert cluster.ask("DELETE", f"{JOBS}/released", {"propagationPolicy": "Foreground"})[0] == 200
    wait_until(lambda: [one["metadata"]["uid"] for one in cluster.pods("released")] == [pod["metadata"]["uid"]])


def test_suspension_deletes_the_pods_and_resumption_makes_new_ones(
    cluster: Cluster, client: Callable[..., Any]
) -> None:
    start(cluster, client, "paused", GRACEFUL)
    wait_until(lambda: is_running(cluster, "paused"))
    before = {pod["metadata"]["uid"] for pod in cluster.pods("paused")}
    cluster.ask("PATCH", f"{JOBS}/paused", {"spec": {"suspend": True}}, MERGE_PATCH)
    wait_until(lambda: not cluster.pods("paused"))
    assert cluster.conditions("paused") == {"Suspended": "JobSuspended"}
    cluster.ask("PATCH", f"{JOBS}/paused", {"spec": {"suspend": False}}, MERGE_PATCH)
    wait_until(lambda: is_running(cluster, "paused"))
    assert before.isdisjoint({pod["metadata"]["uid"] for pod in cluster.pods("paused")})
    assert cluster.conditions("paused") == {}
    cluster.ask("DELETE", f"{JOBS}/paused", propagationPolicy="Foreground")


def test_a_pod_that_suspension_ends_does_not_count(cluster: Cluster, client: Callable[..., Any]) -> None:
    start(cluster, client, "quiet", GRACEFUL.replace("143", "0"), hosts=1)
    wait_until(lambda: is_running(cluster, "quiet", 1))
    name = cluster.pods("quiet")[0]["metadata"]["name"]
    wait_until(lambda: cluster.request("GET", f"{PODS}/{name}/log").read() == b"up\n")
    cluster.ask("PATCH", f"{JOBS}/quiet", {"spec": {"suspend": True}}, MERGE_PATCH)
    wait_until(lambda: not cluster.pods("quiet"))
    status = cluster.ask("GET", f"{JOBS}/quiet")[1]["status"]
    assert (status.get("succeeded"), status.get("failed")) == (None, None)


def test_an_eviction_is_visible_until_the_pod_has_ended(cluster: Cluster, client: Callable[..., Any]) -> None:
    slow = "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1.5), sys.exit(7)));"
    slow += "print('up', flush=True); time.sleep(60)"
    start(cluster, client, "evicted", slow, hosts=1)
    wait_until(lambda: is_running(cluster, "evicted", 1))
    (pod,) = cluster.pods("evicted")
    wait_until(lambda: cluster.log(pod) == "up\n")
    name = pod["metadata"]["name"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    assert cluster.ask("POST", f"{PODS}/{name}/eviction", body)[0] == 201
    pod = cluster.ask("GET", f"{PODS}/{name}")[1]
    assert "deletionTimestamp" in pod["metadata"]
    assert {one["type"]: one.get("reason") for one in pod["status"]["conditions"]}["DisruptionTarget"]
    wait_until(lambda: cluster.conditions("evicted").get("Failed") == "BackoffLimitExceeded")
    assert cluster.pods("evicted") == []


def test_a_job_that_is_too_long_fails(cluster: Cluster, client: Callable[..., Any]) -> None:
    start(cluster, client, "long", GRACEFUL, hosts=1, activeDeadlineSeconds=2)
    wait_until(lambda: "Failed" in cluster.conditions("long"))
    (pod,) = cluster.pods("long")
    assert (pod["status"]["phase"], pod["status"]["reason"], exit_code(pod)) == ("Failed", "DeadlineExceeded", 143)


def test_a_pod_whose_sidecar_ends_after_the_deadline_fails(cluster: Cluster, client: Callable[..., Any]) -> None:
    late = "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(4), sys.exit(0))); time.sleep(60)"
    uri = image(client("ecr"), "image-late-sidecar", f"import signal, sys, time; {late}", "train")
    sidecar = {"name": "results", "image": uri, "args": ["train"], "restartPolicy": "Always"}
    options: dict[str, Any] = {"initContainers": [sidecar], "activeDeadlineSeconds": 3}
    start(cluster, client, "late", "time.sleep(1)", hosts=1, **options)
    wait_until(lambda: cluster.conditions("late").get("Failed") == "BackoffLimitExceeded")
    (pod,) = cluster.pods("late")
    assert (pod["status"]["phase"], pod["status"]["reason"], exit_code(pod)) == ("Failed", "DeadlineExceeded", 0)
    assert pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0, "it was not killed"


FILL = f"open(E['SAGEMAKER_BASE_DIR'] + '/file', 'wb').write(os.urandom(3 << 20)); {GRACEFUL}"


@pytest.mark.parametrize(
    ("size", "limits", "message"),
    [
        ({"sizeLimit": "2Mi"}, {}, 'Usage of EmptyDir volume "opt-ml" exceeds the limit "2Mi". '),
        ({}, {"ephemeral-storage": "2Mi"}, "Pod ephemeral local storage usage exceeds the total limit of containers "),
    ],
    ids=["volume", "pod"],
)
def test_a_pod_that_exceeds_a_limit_of_local_storage_is_evicted(
    cluster: Cluster, client: Callable[..., Any], size: Any, limits: Any, message: str
) -> None:
    name = "full-pod" if limits else "full-volume"
    made = training_job(name, image(client("ecr"), name, f"import os, signal, sys, time; E = os.environ; {FILL}"), 1)
    spec = made["spec"]["template"]["spec"]
    spec["volumes"] = [{"name": "opt-ml", "emptyDir": size}]
    spec["containers"][0] |= {
        "volumeMounts": [{"name": "opt-ml", "mountPath": "/opt/ml"}],
        "resources": {"limits": limits},
    }
    assert cluster.ask("POST", JOBS, made)[0] == 201
    wait_until(lambda: cluster.conditions(name).get("Failed") == "BackoffLimitExceeded")
    (pod,) = cluster.pods(name)
    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "Evicted")
    assert pod["status"]["message"].startswith(message)
    assert "DisruptionTarget" not in {one["type"] for one in pod["status"]["conditions"]}
    assert "Evicted" in cluster.reasons(pod["metadata"]["name"])


def test_a_pod_that_no_instance_type_fits_stays_pending(cluster: Cluster, client: Callable[..., Any]) -> None:
    start(cluster, client, "nowhere", "pass", hosts=1, nodeSelector={"node.kubernetes.io/instance-type": "z9.huge"})

    def condition() -> Any:
        pods = cluster.pods("nowhere")
        return pods and pods[0]["status"].get("conditions")

    (found,) = wait_until(condition)
    assert (found["type"], found["status"], found["reason"]) == ("PodScheduled", "False", "Unschedulable")
    name = cluster.pods("nowhere")[0]["metadata"]["name"]
    assert "FailedScheduling" in cluster.reasons(name)
    cluster.ask("DELETE", f"{JOBS}/nowhere", propagationPolicy="Foreground")
    wait_until(lambda: cluster.ask("GET", f"{JOBS}/nowhere")[0] == 404)


def test_a_job_fails_although_one_pod_was_never_assigned(cluster: Cluster, client: Callable[..., Any]) -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"traingrid/name": "partly"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    selector = {"kubernetes.io/hostname": "only"}
    with a_running_cluster(cluster.controlled.cloud, "one", nodes=[ONLY_NODE], node_pool=False) as small:
        start(small, client, "partly", "time.sleep(1); sys.exit(4)", affinity=affinity, nodeSelector=selector)
        wait_until(lambda: "Failed" in small.conditions("partly"))
        assert [exit_code(pod) for pod in small.pods("partly")] == [4]


def test_an_image_that_does_not_exist_is_pulled_again_and_again(cluster: Cluster) -> None:
    uri = "123456789012.dkr.ecr.us-east-1.amazonaws.com/absent:v1"
    cluster.ask("POST", JOBS, training_job("absent", uri, hosts=1))

    def reason() -> Any:
        statuses = [one for pod in cluster.pods("absent") for one in pod["status"].get("containerStatuses", [])]
        return [one["state"]["waiting"]["reason"] for one in statuses if "waiting" in one["state"]]

    wait_until(lambda: reason() == ["ImagePullBackOff"])
    assert {"Failed", "BackOff"} <= set(cluster.reasons(cluster.pods("absent")[0]["metadata"]["name"]))
    cluster.ask("DELETE", f"{JOBS}/absent", propagationPolicy="Foreground")
    wait_until(lambda: cluster.ask("GET", f"{JOBS}/absent")[0] == 404)


def test_a_pod_needs_its_service_account_and_the_quota(cluster: Cluster, client: Callable[..., Any]) -> None:
    start(cluster, client, "account", "pass", hosts=1, serviceAccountName="missing")
    wait_until(lambda: "FailedCreate" in cluster.reasons("account"))
    events = cluster.ask("GET", "/api/v1/namespaces/default/events", fieldSelector="involvedObject.name=account")[1]
    assert 'serviceaccount "missing" not found' in events["items"][0]["message"]
    cluster.ask("DELETE", f"{JOBS}/account", propagationPolicy="Background")
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "0"}}}
    cluster.ask("POST", "/api/v1/namespaces/default/resourcequotas", quota)
    start(cluster, client, "quota", "pass", hosts=1)
    wait_until(lambda: "FailedCreate" in cluster.reasons("quota"))
    cluster.ask("DELETE", "/api/v1/namespaces/default/resourcequotas/few")
    wait_until(lambda: "Complete" in cluster.conditions("quota"))


def test_a_sidecar_is_restarted_until_the_containers_have_ended(cluster: Cluster, client: Callable[..., Any]) -> None:
    sidecar = image(client("ecr"), "crashing-sidecar", "import sys; sys.exit(5)", "train")
    results = {"name": "results", "image": sidecar, "args": ["train"], "restartPolicy": "Always"}
    start(cluster, client, "crashing", "time.sleep(2)", hosts=1, initContainers=[results])
    seen = list[Any]()

    def ended() -> bool:
        seen.extend(one for pod in cluster.pods("crashing") for one in pod["status"].get("initContainerStatuses", []))
        return "Complete" in cluster.conditions("crashing")

    wait_until(ended)
    reasons = {one["state"]["waiting"]["reason"] for one in seen if "waiting" in one["state"]}
    assert "CrashLoopBackOff" not in reasons, "the pod is never restarted, so the kubelet shows how the sidecar ended"
    (pod,) = cluster.pods("crashing")
    (last,) = pod["status"]["initContainerStatuses"]
    assert (last["restartCount"], last["state"]["terminated"]["exitCode"]) == (1, 5)
    assert last["lastState"]["terminated"]["exitCode"] == 5


def test_sidecars_end_after_the_containers(cluster: Cluster, client: Callable[..., Any]) -> None:
    ecr = client("ecr")
    say = (
        "import os, signal, sys, time; E = os.environ; order = E['SAGEMAKER_BASE_DIR'] + '/order';"
        "w = lambda text: open(order, 'a').write(text + '\\n');"
    )
    end = (
        "signal.signal(signal.SIGTERM, lambda *_: "
        "(open(E['TRAINGRID_TERMINATION_LOG'], 'w').write(open(order).read().split()[-1]), sys.exit(0)))"
    )
    prepare = image(ecr, "prepare", f"{say} w('prepared')", "train")
    sidecar = image(ecr, "sidecar", f"{say} {end}; w('sidecar begins'); time.sleep(60)", "train")
    train = image(
        ecr,
        "train-with-sidecar",
        f"{say} time.sleep(1); w('trained'); print(open(order).read())",
        "train",
    )
    mounts = [{"name": "opt-ml", "mountPath": "/opt/ml"}]
    made = training_job(
        "sidecars",
        train,
        hosts=1,
        volumes=[{"name": "opt-ml", "emptyDir": {}}],
        initContainers=[
            {"name": "prepare", "image": prepare, "args": ["train"], "volumeMounts": mounts},
            {"name": "results", "image": sidecar, "args": ["train"], "restartPolicy": "Always", "volumeMounts": mounts},
        ],
    )
    made["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = mounts
    cluster.ask("POST", JOBS, made)
    wait_until(lambda: "Complete" in cluster.conditions("sidecars"))
    (pod,) = cluster.pods("sidecars")
    prepared, saved = pod["status"]["initContainerStatuses"]
    assert prepared["state"]["terminated"]["reason"] == "Completed"
    assert (saved["state"]["terminated"]["message"], saved["state"]["terminated"]["exitCode"]) == ("trained", 0)
    log = cluster.request("GET", f"{PODS}/{pod['metadata']['name']}/log").read().decode()
    assert log.split("\n")[:3] == ["prepared", "sidecar begins", "trained"]


@pytest.mark.parametrize(("shared", "code"), [(False, 137), (True, 143)])
def test_a_main_process_without_a_handler_ignores_sigterm_unless_the_pod_shares_its_processes(
    cluster: Cluster, client: Callable[..., Any], shared: bool, code: int
) -> None:
    name = f"deaf-{code}"
    held = {"finalizers": ["traingrid/recorded"]}
    start(
        cluster,
        client,
        name,
        "time.sleep(60)",
        hosts=1,
        metadata=held,
        shareProcessNamespace=shared,
        terminationGracePeriodSeconds=2,
        activeDeadlineSeconds=2,
    )
    wait_until(lambda: "Failed" in cluster.conditions(name))
    assert exit_code(cluster.pods(name)[0]) == code
    cluster.ask("DELETE", f"{JOBS}/{name}", propagationPolicy="Foreground")
    cluster.ask("PATCH", f"{JOBS}/{name}", {"metadata": {"finalizers": None}}, MERGE_PATCH)


@pytest.mark.parametrize(("policy", "printed"), [("IfNotPresent", "old"), ("Always", "new")])
def test_a_node_keeps_the_image_of_a_tag_that_has_moved_unless_it_always_pulls(
    cluster: Cluster, client: Callable[..., Any], policy: str, printed: str
) -> None:
    ecr, repository, node = client("ecr"), f"moves-{policy.lower()}", f"node-of-{policy.lower()}"
    ecr.create_repository(repositoryName=repository)
    cluster.ask("POST", "/api/v1/nodes", node_of(node, "us-east-1", "c5.xlarge", labels={}))
    uri = f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/{repository}:v1"

    def print_of(text: str) -> str:
        """Push an image that prints a text, and return the log of a new pod on the node."""
        pushed = process_images.ProcessImage(command=(sys.executable, "-c", f"print('{text}')"))
        process_images.push(ecr, repository, "v1", pushed)
        container = {"name": "train", "image": uri, "args": ["train"], "imagePullPolicy": policy}
        spec = {"nodeName": node, "restartPolicy": "Never", "containers": [container]}
        path, metadata = f"{PODS}/{repository}-{text}", {"name": f"{repository}-{text}"}
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        assert cluster.ask("POST", PODS, made)[0] == 201
        wait_until(lambda: cluster.ask("GET", path)[1]["status"]["phase"] == "Succeeded")
        return cluster.request("GET", f"{path}/log").read().decode().strip()

    assert [print_of("old"), print_of("new")] == ["old", printed]
    for text in ("old", "new"):
        cluster.ask("DELETE", f"{PODS}/{repository}-{text}")
    cluster.ask("DELETE", f"/api/v1/nodes/{node}")
