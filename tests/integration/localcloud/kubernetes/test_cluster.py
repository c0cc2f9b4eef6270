"""A cluster of localcloud as a whole: kubectl, nodes, queues, and injected faults."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from localcloud.faults.plan import Capacity, FaultPlan
from localcloud.kubernetes.controllers.node_lifecycle import NodeTimes
from localcloud.kubernetes.controllers.provisioner import CAPACITY_TYPE, node_of
from localcloud.sagemaker.backend import TrainingBackend
from localcloud.sagemaker.host_capacity import HostCapacity
from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import image, wait_until
from tests.integration.localcloud.kubernetes.running_cluster import (
    JOBS,
    MERGE_PATCH,
    PODS,
    Cluster,
    a_running_cluster,
    kubectl,
    training_job,
)
from tests.support.eks_jobs import NAME, eks_job, training_object
from traingrid.backends.eks.pod_template import pod_template

ZONE = "topology.kubernetes.io/zone"
EVENTS = "/api/v1/namespaces/default/events"
WAIT = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)); print('up', flush=True); time.sleep(60)"


@pytest.fixture(scope="module")
def cluster(cloud: LocalCloud) -> Iterator[Cluster]:
    with a_running_cluster(cloud, node_times=NodeTimes(consolidate_after=1.0, quarantine=1.0)) as running:
        yield running


def start(cluster: Cluster, client: Callable[..., Any], name: str, code: str, **options: Any) -> None:
    uri = image(client("ecr"), f"image-{name}", f"import os, signal, sys, time; {code}", "train")
    status, reply = cluster.ask("POST", JOBS, training_job(name, uri, **options))
    assert status == 201, reply


def is_running(cluster: Cluster, name: str, hosts: int) -> bool:
    pods = cluster.pods(name)
    return len(pods) == hosts and all(pod["status"]["phase"] == "Running" for pod in pods)


def delete(cluster: Cluster, name: str) -> None:
    cluster.ask("DELETE", f"{JOBS}/{name}", propagationPolicy="Foreground")
    wait_until(lambda: cluster.ask("GET", f"{JOBS}/{name}")[0] == 404)


def test_kubectl_shows_and_deletes_a_running_job(cluster: Cluster, client: Callable[..., Any]) -> None:
    start(cluster, client, "shown", WAIT, hosts=1)
    wait_until(lambda: is_running(cluster, "shown", 1))
    name = cluster.pods("shown")[0]["metadata"]["name"]
    row = kubectl(cluster, "get", "pods", name).stdout.splitlines()
    assert row[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row[1].split()[:4] == [name, "1/1", "Running", "0"]
    assert kubectl(cluster, "get", "job", "shown").stdout.splitlines()[1].split()[:3] == ["shown", "Running", "0/1"]
    assert "Ready" in kubectl(cluster, "get", "nodes").stdout
    assert "SuccessfulCreate" in kubectl(cluster, "get", "events").stdout
    described = kubectl(cluster, "describe", "pod", name).stdout
    assert "Controlled By:  Job/shown" in described
    assert "Successfully assigned default/" in described
    assert "SuccessfulCreate" in kubectl(cluster, "describe", "job", "shown").stdout
    wait_until(lambda: kubectl(cluster, "logs", name).stdout == "up\n")
    assert kubectl(cluster, "logs", "job/shown", "--timestamps").stdout.endswith("Z up\n")
    assert "deleted" in kubectl(cluster, "delete", "job", "shown").stdout
    wait_until(lambda: not cluster.pods("shown"))


def test_kubectl_watches_with_all_columns(cluster: Cluster, client: Callable[..., Any]) -> None:
    start(cluster, client, "watched", "time.sleep(3)", hosts=1)
    wait_until(lambda: is_running(cluster, "watched", 1))
    watched = kubectl(cluster, "get", "pods", "-w", "-l", "traingrid/name=watched", "--request-timeout=6s").stdout
    rows = [row.split() for row in watched.splitlines()]
    assert rows[0] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert rows[1][1:4] == ["1/1", "Running", "0"]
    assert "Completed" in {row[2] for row in rows}
    assert sum(row[0] == "NAME" for row in rows) == 1
    chosen = ["--field-selector=metadata.name=watched", "--request-timeout=2s"]
    jobs = kubectl(cluster, "get", "jobs", "-w", *chosen).stdout.split()
    assert jobs[:8] == ["NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE", "watched", "Complete", "1/1"]


def test_a_namespace_is_deleted_with_its_content(cluster: Cluster, client: Callable[..., Any]) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}}
    assert kubectl(cluster, "apply", "-f", "-", given=namespace).stdout == "namespace/lab created\n"
    wait_until(lambda: "default" in kubectl(cluster, "get", "serviceaccounts", "-n", "lab").stdout)
    uri = image(client("ecr"), "image-lab", f"import signal, sys, time; {WAIT}", "train")
    jobs = JOBS.replace("/default/", "/lab/")
    made = training_job("held", uri, hosts=1, metadata={"finalizers": ["traingrid/recorded"]})
    assert cluster.ask("POST", jobs, made)[0] == 201
    wait_until(lambda: "Running" in kubectl(cluster, "get", "pods", "-n", "lab").stdout)
    deleted = kubectl(cluster, "delete", "namespace", "lab", "--wait=false")
    assert deleted.stdout == 'namespace "lab" deleted\n'

    def conditions() -> dict[str, str]:
        found = cluster.ask("GET", "/api/v1/namespaces/lab")[1].get("status") or {}
        return {one["type"]: one["message"] for one in found.get("conditions") or [] if one["status"] == "True"}

    remaining = "Some resources are remaining: jobs.batch has 1 resource instances"
    wait_until(lambda: conditions().get("NamespaceContentRemaining") == remaining)
    message = "Some content in the namespace has finalizers remaining: traingrid/recorded in 1 resource instances"
    assert conditions()["NamespaceFinalizersRemaining"] == message
    assert kubectl(cluster, "get", "namespace", "lab").stdout.split()[4] == "Terminating"
    status, reply = cluster.ask("POST", jobs, training_job("late", uri))
    assert (status, reply["message"].endswith("because it is being terminated")) == (403, True)
    waited = kubectl(cluster, "delete", "namespace", "lab", "--timeout=1s")
    assert "timed out waiting for the condition" in waited.stderr
    cluster.ask("PATCH", f"{jobs}/held", {"metadata": {"finalizers": None}}, MERGE_PATCH)
    wait_until(lambda: cluster.ask("GET", "/api/v1/namespaces/lab")[0] == 404)


def test_logs_are_followed_until_the_container_ends(cluster: Cluster, client: Callable[..., Any]) -> None:
    start(cluster, client, "talks", "[(print(i, flush=True), time.sleep(0.1)) for i in range(15)]", hosts=1)
    wait_until(lambda: cluster.pods("talks"))
    name = cluster.pods("talks")[0]["metadata"]["name"]
    log = f"{PODS}/{name}/log"
    wait_until(lambda: cluster.request("GET", log).status == 200)
    wait_until(lambda: cluster.request("GET", log).read() != b"")
    followed = cluster.request("GET", log, follow="true").read()
    assert followed == "".join(f"{i}\n" for i in range(15)).encode()
    assert cluster.request("GET", log, tailLines="2").read() == b"13\n14\n"
    assert cluster.request("GET", log, sinceSeconds="100", limitBytes="4").read() == b"0\n1\n"
    assert cluster.ask("GET", log, container="other")[1]["message"] == f"container other is not valid for pod {name}"
    assert "previous terminated container" in cluster.ask("GET", log, previous="true")[1]["message"]


def test_a_drained_node_evicts_its_pods(cluster: Cluster, client: Callable[..., Any]) -> None:
    start(cluster, client, "drained", WAIT, hosts=1)
    wait_until(lambda: is_running(cluster, "drained", 1))
    node = cluster.pods("drained")[0]["spec"]["nodeName"]
    done = kubectl(cluster, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=20s")
    assert f"node/{node} drained" in done.stdout, done.stderr
    wait_until(lambda: "Failed" in cluster.conditions("drained"))
    assert f"node/{node} cordoned" in done.stdout


def test_ended_pods_are_gone_with_their_node(cluster: Cluster, client: Callable[..., Any]) -> None:
    start(cluster, client, "short", "pass", hosts=1)
    wait_until(lambda: "Complete" in cluster.conditions("short"))
    wait_until(lambda: not cluster.pods("short"))
    assert "Complete" in cluster.conditions("short")


def test_an_interrupted_node_takes_its_pods_along(cluster: Cluster, client: Callable[..., Any]) -> None:
    code = "signal.signal(signal.SIGTERM, lambda *_: print('warned', flush=True)); print('up', flush=True);"
    code += "[time.sleep(1) for _ in range(60)]"
    start(cluster, client, "spot", code, hosts=1)
    wait_until(lambda: is_running(cluster, "spot", 1))
    (pod,) = cluster.pods("spot")
    wait_until(lambda: cluster.log(pod) == "up\n")
    cluster.controlled.interrupt_node(pod["spec"]["nodeName"], warning_seconds=3.0)
    wait_until(lambda: cluster.log(pod) == "up\nwarned\n")
    wait_until(lambda: not cluster.pods("spot"))
    assert cluster.conditions("spot")["Failed"] == "BackoffLimitExceeded"


def test_paused_controllers_do_nothing(cluster: Cluster, client: Callable[..., Any]) -> None:
    cluster.controlled.pause_controllers()
    start(cluster, client, "later", "pass", hosts=1)
    time.sleep(0.5)
    assert cluster.pods("later") == []
    cluster.controlled.compact()
    cluster.controlled.resume_controllers()
    wait_until(lambda: "Complete" in cluster.conditions("later"))


def test_a_job_waits_for_its_queue_and_returns_to_it(cluster: Cluster, client: Callable[..., Any]) -> None:
    start(cluster, client, "queued", WAIT, metadata={"labels": {"kueue.x-k8s.io/queue-name": "gpus"}})
    time.sleep(0.5)
    assert cluster.ask("GET", f"{JOBS}/queued")[1]["spec"]["suspend"] is True
    cluster.controlled.queues["gpus"] = 2
    wait_until(lambda: is_running(cluster, "queued", 2))
    first = {pod["metadata"]["uid"] for pod in cluster.pods("queued")}
    cluster.controlled.preempt("queued")
    wait_until(lambda: not cluster.pods("queued"))
    wait_until(lambda: is_running(cluster, "queued", 2))
    assert first.isdisjoint(pod["metadata"]["uid"] for pod in cluster.pods("queued"))
    delete(cluster, "queued")


def test_a_throttled_server_names_the_seconds(cluster: Cluster) -> None:
    cluster.controlled.faults.throttle(1, retry_after=3)
    reply = cluster.request("GET", JOBS)
    assert (reply.status, reply.headers["Retry-After"]) == (429, "3")
    assert json.loads(reply.read())["reason"] == "TooManyRequests"
    assert cluster.request("GET", JOBS).status == 200


def test_jobs_can_be_deleted_but_not_changed_while_the_webhook_of_kueue_is_down(
    cluster: Cluster, client: Callable[..., Any]
) -> None:
    start(cluster, client, "hooked", WAIT, hosts=1)
    cluster.controlled.faults.webhook_is_down = True
    try:
        path = f"{JOBS}/hooked"
        code, reply = cluster.ask("PATCH", path, {"metadata": {"annotations": {"x": "y"}}}, MERGE_PATCH)
        assert (code, reply["reason"]) == (500, "InternalError")
        assert 'failed calling webhook "vjob.kb.io"' in reply["message"]
        assert cluster.ask("GET", path)[0] == 200
        delete(cluster, "hooked")
    finally:
        cluster.controlled.faults.webhook_is_down = False


@pytest.mark.parametrize("abruptly", [False, True])
def test_watches_can_end_at_any_time(cluster: Cluster, abruptly: bool) -> None:
    with ThreadPoolExecutor(1) as threads:
        version = cluster.ask("GET", JOBS)[1]["metadata"]["resourceVersion"]
        seen = threads.submit(lambda: list(cluster.events(JOBS, resourceVersion=version)))
        time.sleep(0.5)
        cluster.controlled.faults.end_watches(abruptly=abruptly)
        if abruptly:
            assert seen.exception(timeout=120)
        else:
            assert seen.result(timeout=120) == []
    cluster.controlled.faults.end_watches()


def test_pods_use_fixed_nodes_whose_taints_they_tolerate(cloud: LocalCloud, client: Callable[..., Any]) -> None:
    taint = {"key": "team", "value": "research", "effect": "NoSchedule"}
    node = node_of("hyperpod-1", "us-east-1", "ml.c5.xlarge", labels={}, taints=[taint])
    with a_running_cluster(cloud, "fixed", nodes=[node], node_pool=False) as fixed:
        start(fixed, client, "refused", "pass", hosts=1)
        wait_until(lambda: fixed.pods("refused") and fixed.pods("refused")[0]["status"].get("conditions"))
        message = fixed.pods("refused")[0]["status"]["conditions"][0]["message"]
        assert message.startswith("0/1 nodes are available: 1 node(s) had untolerated taint(s).")
        types = ["c5.xlarge", "ml.c5.xlarge"]
        terms = [{"matchExpressions": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types}]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"traingrid/name": "apart"}}}
        affinity = {
            "nodeAffinity": required,
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]},
        }
        tolerations = [{"key": "team", "operator": "Equal", "value": "research", "effect": "NoSchedule"}]
        start(fixed, client, "apart", WAIT, affinity=affinity, tolerations=tolerations)
        wait_until(lambda: sorted(pod["status"]["phase"] for pod in fixed.pods("apart")) == ["Pending", "Running"])
        (pending,) = [pod for pod in fixed.pods("apart") if pod["status"]["phase"] == "Pending"]
        message = pending["status"]["conditions"][0]["message"]
        assert message.endswith("1 No preemption victims found for incoming pod.")


def test_a_training_job_waits_for_a_node_with_a_larger_disk(cloud: LocalCloud, client: Callable[..., Any]) -> None:
    node = node_of("only", "us-east-1", "m5.large", labels={})
    with a_running_cluster(cloud, "disks", nodes=[node], node_pool=False) as fixed:
        uri = image(client("ecr"), "disk", "pass", "train")

        def train(volume_gb: int) -> None:
            container = pod_template(training_object(eks_job(volume_gb=volume_gb)))["spec"]["containers"][0]
            made = training_job(f"needs-{volume_gb}", uri, hosts=1)
            made["spec"]["template"]["spec"]["containers"][0]["resources"] = container["resources"]
            assert fixed.ask("POST", JOBS, made)[0] == 201

        train(180)
        wait_until(lambda: fixed.pods("needs-180") and fixed.pods("needs-180")[0]["status"].get("conditions"))
        message = fixed.pods("needs-180")[0]["status"]["conditions"][0]["message"]
        train(100)
        wait_until(lambda: "Complete" in fixed.conditions("needs-100"))
        assert message.startswith("0/1 nodes are available: 1 Insufficient ephemeral-storage.")
        assert message.endswith("1 Preemption is not helpful for scheduling.")


def test_hosts_with_affinity_to_each_other_are_in_one_zone(cloud: LocalCloud, client: Callable[..., Any]) -> None:
    zones = {"host-1": "us-east-1a", "host-2": "us-east-1b", "host-3": "us-east-1a"}
    nodes = [node_of(name, "us-east-1", "c5.xlarge", labels={ZONE: zone}) for name, zone in zones.items()]
    job = eks_job(instance_type="ml.p4d.24xlarge", instance_count=2)
    affinity = pod_template(training_object(job))["spec"]["affinity"]
    del affinity["nodeAffinity"]
    with a_running_cluster(cloud, "zones", nodes=nodes, node_pool=False) as fixed:
        start(fixed, client, NAME, WAIT, affinity=affinity)
        wait_until(lambda: is_running(fixed, NAME, 2))
        assert {pod["spec"]["nodeName"] for pod in fixed.pods(NAME)} == {"host-1", "host-3"}
        start(fixed, client, "alone", "pass", hosts=1, affinity={"podAffinity": affinity["podAffinity"]})
        wait_until(lambda: "Complete" in fixed.conditions("alone"))
        assert fixed.pods("alone")[0]["spec"]["nodeName"] != "host-2"
        delete(fixed, NAME)
        start(fixed, client, "lonely", "pass", hosts=1, affinity={"podAffinity": affinity["podAffinity"]})
        wait_until(lambda: fixed.pods("lonely") and fixed.pods("lonely")[0]["status"].get("conditions"))
        message = fixed.pods("lonely")[0]["status"]["conditions"][0]["message"]
        assert message.startswith("0/3 nodes are available: 3 node(s) didn't match pod affinity rules.")


@pytest.mark.parametrize("spot", [True, False])
def test_auto_mode_creates_nodes_for_training_jobs_but_not_for_labels_of_managed_node_groups(
    cloud: LocalCloud, client: Callable[..., Any], spot: bool
) -> None:
    job = eks_job(spot=spot, max_wait_seconds=900)
    with a_running_cluster(cloud, f"auto-{spot}", auto_mode=True) as auto:
        for mode, name in ((False, "managed"), (True, "auto")):
            template = pod_template(replace(training_object(job), auto_mode=mode))["spec"]
            start(auto, client, name, "pass", hosts=1, affinity={"nodeAffinity": template["affinity"]["nodeAffinity"]})
        wait_until(lambda: "Complete" in auto.conditions("auto"))
        pod = auto.pods("managed")[0]["metadata"]["name"]
        events = auto.ask("GET", EVENTS, fieldSelector=f"involvedObject.name={pod}")[1]["items"]
        refused = [one["message"] for one in events if one["source"]["component"] == "karpenter"]
        assert [message.rpartition("label")[2] for message in refused] == [' domain "eks.amazonaws.com" is restricted']
        assert [node["metadata"]["labels"][CAPACITY_TYPE] for node in auto.ask("GET", "/api/v1/nodes")[1]["items"]] == [
            "spot" if spot else "on-demand"
        ]


def test_a_region_without_capacity_leaves_pods_pending(
    cloud: LocalCloud, cluster: Cluster, client: Callable[..., Any]
) -> None:
    cloud.faults.set(FaultPlan(capacity=(Capacity(instance_type="ml.c5.2xlarge"),)))
    start(cluster, client, "empty", "pass", hosts=1, nodeSelector={"node.kubernetes.io/instance-type": "c5.2xlarge"})
    wait_until(lambda: cluster.pods("empty"))
    name = cluster.pods("empty")[0]["metadata"]["name"]
    wait_until(lambda: "InsufficientCapacityError" in cluster.reasons(name))
    cloud.faults.set(FaultPlan())
    wait_until(lambda: "Complete" in cluster.conditions("empty"))


def test_a_job_waits_until_this_machine_has_capacity_for_all_of_its_pods(
    cloud: LocalCloud, client: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TrainingBackend, "capacity", HostCapacity(2))
    with a_running_cluster(cloud, "small") as small:
        start(small, client, "first", WAIT)
        wait_until(lambda: is_running(small, "first", 2))
        start(small, client, "second", WAIT)
        wait_until(lambda: len(small.pods("second")) == 2)
        time.sleep(1)
        assert {pod["status"]["phase"] for pod in small.pods("second")} == {"Pending"}
        delete(small, "first")
        wait_until(lambda: is_running(small, "second", 2))


def test_a_name_must_leave_room_for_the_index(cluster: Cluster) -> None:
    status, reply = cluster.ask("POST", JOBS, training_job("x" * 62, "image"))
    assert (status, "will not able to create pod with invalid DNS label" in reply["message"]) == (422, True)
    made = training_job("fixed-template", "image")
    made["spec"]["suspend"] = True
    assert cluster.ask("POST", JOBS, made)[0] == 201
    change = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 5}}}}
    status, reply = cluster.ask("PATCH", f"{JOBS}/fixed-template", change, MERGE_PATCH)
    assert (status, "field is immutable" in reply["message"]) == (422, True)


def test_a_deleted_namespace_ends_with_its_last_object(cloud: LocalCloud) -> None:
    with a_running_cluster(cloud, "emptied") as cluster:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "short"}}
        assert cluster.ask("POST", "/api/v1/namespaces", namespace)[0] == 201
        jobs = "/apis/batch/v1/namespaces/short/jobs"
        cluster.ask("POST", "/api/v1/namespaces/short/serviceaccounts", _account())
        kept = training_job("kept", "there-is-no-such-image", 1, metadata={"finalizers": ["example.com/kept"]})
        assert cluster.ask("POST", jobs, kept)[0] == 201
        assert cluster.ask("DELETE", "/api/v1/namespaces/short")[0] == 200
        wait_until(lambda: "deletionTimestamp" in cluster.ask("GET", f"{jobs}/kept")[1]["metadata"])
        assert cluster.ask("GET", "/api/v1/namespaces/short")[1]["status"]["phase"] == "Terminating"
        assert cluster.ask("POST", jobs, training_job("late", "there-is-no-such-image", 1))[0] == 403
        cluster.ask("PATCH", f"{jobs}/kept", {"metadata": {"finalizers": None}}, MERGE_PATCH)
        wait_until(lambda: cluster.ask("GET", "/api/v1/namespaces/short")[0] == 404)


def _account() -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
