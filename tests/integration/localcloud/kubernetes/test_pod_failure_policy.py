"""podFailurePolicy of jobs: the effect of each rule on a failed pod, and the server's checks of the rules."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from localcloud.kubernetes.controllers.jobs.pod_failure_policy import Verdict, verdict
from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import image, wait_until
from tests.integration.localcloud.kubernetes.running_cluster import (
    JOBS,
    PODS,
    Cluster,
    a_cluster,
    a_running_cluster,
    indexed_job,
    training_job,
)

DISRUPTED = [{"type": "DisruptionTarget", "status": "True"}]


def rule(action: str, **requirement: Any) -> dict[str, Any]:
    if "values" in requirement:
        return {"action": action, "onExitCodes": {"operator": "In", **requirement}}
    return {"action": action, "onPodConditions": DISRUPTED}


def a_pod(code: int = 0, *, disrupted: bool = False) -> dict[str, Any]:
    train = {"name": "train", "state": {"terminated": {"exitCode": code}}}
    return {
        "metadata": {"namespace": "default", "name": "p"},
        "status": {
            "phase": "Failed",
            "conditions": DISRUPTED if disrupted else [],
            "containerStatuses": [train],
            "initContainerStatuses": [{"name": "prepare", "state": {"running": {}}}],
        },
    }


CASES: dict[str, tuple[list[dict[str, Any]], dict[str, Any], Verdict]] = {
    "no rule": ([], a_pod(1), Verdict()),
    "a disrupted pod": (
        [rule("FailJob")],
        a_pod(143, disrupted=True),
        Verdict(failure="Pod default/p has condition DisruptionTarget matching FailJob rule at index 0"),
    ),
    "a pod that was not disrupted": ([rule("FailJob")], a_pod(1), Verdict()),
    "an ignored pod": ([rule("Ignore")], a_pod(143, disrupted=True), Verdict(counts=False)),
    "the first rule that matches": ([rule("Count"), rule("FailJob")], a_pod(1, disrupted=True), Verdict()),
    "an exit code": (
        [rule("Ignore"), rule("FailJob", values=[3, 4])],
        a_pod(4),
        Verdict(failure="Container train for pod default/p failed with exit code 4 matching FailJob rule at index 1"),
    ),
    "another exit code": ([rule("FailJob", values=[3])], a_pod(4), Verdict()),
    "no code of the list": ([rule("Ignore", operator="NotIn", values=[3])], a_pod(4), Verdict(counts=False)),
    "success matches no list": ([rule("Ignore", operator="NotIn", values=[3])], a_pod(0), Verdict()),
    "another container": ([rule("FailJob", containerName="prepare", values=[4])], a_pod(4), Verdict()),
}


@pytest.mark.parametrize(("rules", "pod", "expected"), CASES.values(), ids=list(CASES))
def test_the_first_matching_rule_decides(rules: list[Any], pod: dict[str, Any], expected: Verdict) -> None:
    assert verdict({"spec": {"podFailurePolicy": {"rules": rules}}}, pod) == expected


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with a_cluster(tmp_path_factory.mktemp("api")) as running:
        yield running


REFUSED: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str]] = {
    "replacement": (
        [rule("FailJob")],
        {"podReplacementPolicy": "TerminatingOrFailed"},
        'spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"',
    ),
    "action": (
        [rule("Stop")],
        {},
        'rules[0].action: Unsupported value: "Stop": supported values: "Count", "FailIndex", "FailJob", "Ignore"',
    ),
    "index": (
        [rule("FailIndex")],
        {},
        'rules[0].action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set',
    ),
    "both": (
        [{**rule("FailJob"), "onExitCodes": {"operator": "In", "values": [1]}}],
        {},
        "rules[0]: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported",
    ),
    "neither": ([{"action": "FailJob"}], {}, "specifying one of OnExitCodes and OnPodConditions is required"),
    "zero": ([rule("FailJob", values=[0])], {}, "values[0]: Invalid value: 0: must not be 0 for the In operator"),
    "order": ([rule("FailJob", values=[2, 1])], {}, "values: Invalid value: [2,1]: must be ordered"),
    "container": (
        [rule("FailJob", containerName="x", values=[1])],
        {},
        'containerName: Invalid value: "x": must be one of the container or initContainer names in the pod template',
    ),
}


@pytest.mark.parametrize(("rules", "fields", "message"), REFUSED.values(), ids=list(REFUSED))
def test_the_server_refuses_a_rule(api: Cluster, rules: list[Any], fields: dict[str, Any], message: str) -> None:
    made = indexed_job("refused")
    made["spec"] |= {"podFailurePolicy": {"rules": rules}, **fields}
    status, reply = api.ask("POST", JOBS, made)
    assert (status, message in reply["message"]) == (422, True), reply["message"]


def test_a_policy_needs_pods_that_are_never_restarted(api: Cluster) -> None:
    made = indexed_job("restarted")
    made["spec"]["podFailurePolicy"] = {"rules": [rule("FailJob")]}
    made["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    status, reply = api.ask("POST", JOBS, made)
    assert (status, 'only "Never" is supported' in reply["message"]) == (422, True)


def test_a_condition_is_true_by_default_and_a_policy_cannot_change(api: Cluster) -> None:
    made = indexed_job("fixed")
    made["spec"]["podFailurePolicy"] = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "Ready"}]}]}
    status, created = api.ask("POST", JOBS, made)
    assert status == 201, created
    policy = created["spec"]["podFailurePolicy"]
    assert policy["rules"][0]["onPodConditions"][0]["status"] == "True"
    assert created["spec"]["podReplacementPolicy"] == "Failed"
    policy["rules"][0]["action"] = "Count"
    status, reply = api.ask("PUT", f"{JOBS}/fixed", created)
    assert (status, "field is immutable" in reply["message"]) == (422, True)


@pytest.fixture(scope="module")
def cluster(cloud: LocalCloud) -> Iterator[Cluster]:
    with a_running_cluster(cloud, "policies") as running:
        yield running


GRACEFUL = "signal.signal(signal.SIGTERM, lambda *_: sys.exit({code})); print('up', flush=True); time.sleep(60)"


def start(cluster: Cluster, client: Callable[..., Any], name: str, code: str, *rules: dict[str, Any]) -> None:
    uri = image(client("ecr"), f"policy-{name}", f"import os, signal, sys, time; {code}", "train")
    made = training_job(name, uri, hosts=1)
    made["spec"] |= {"podFailurePolicy": {"rules": list(rules)}, "backoffLimit": 2}
    status, reply = cluster.ask("POST", JOBS, made)
    assert status == 201, reply


def evict(cluster: Cluster, name: str) -> None:
    wait_until(lambda: [pod for pod in cluster.pods(name) if pod["status"]["phase"] == "Running"])
    (pod,) = cluster.pods(name)
    wait_until(lambda: cluster.log(pod) == "up\n")
    place = pod["metadata"]["name"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": place}}
    assert cluster.ask("POST", f"{PODS}/{place}/eviction", body)[0] == 201


def test_an_eviction_is_kept_in_the_job_when_its_pod_is_gone(cluster: Cluster, client: Callable[..., Any]) -> None:
    start(cluster, client, "evicted", GRACEFUL.format(code=143), rule("FailJob"))
    name = wait_until(lambda: cluster.pods("evicted"))[0]["metadata"]["name"]
    evict(cluster, "evicted")
    wait_until(lambda: "Failed" in cluster.conditions("evicted"))
    assert cluster.conditions("evicted") == {"FailureTarget": "PodFailurePolicy", "Failed": "PodFailurePolicy"}
    job = cluster.ask("GET", f"{JOBS}/evicted")[1]
    message = f"Pod default/{name} has condition DisruptionTarget matching FailJob rule at index 0"
    assert {one["message"] for one in job["status"]["conditions"]} == {message}
    assert job["status"]["failed"] == 1
    assert cluster.pods("evicted") == []
    assert "PodFailurePolicy" in cluster.reasons("evicted")


def test_an_exit_code_fails_a_job_at_once(cluster: Cluster, client: Callable[..., Any]) -> None:
    start(cluster, client, "exits", "sys.exit(3)", rule("FailJob", values=[3]))
    wait_until(lambda: cluster.conditions("exits").get("Failed") == "PodFailurePolicy")
    assert len(cluster.pods("exits")) == 1


def test_an_evicted_pod_that_ends_with_success_counts_as_succeeded(
    cluster: Cluster, client: Callable[..., Any]
) -> None:
    start(cluster, client, "polite", GRACEFUL.format(code=0), rule("FailJob"))
    evict(cluster, "polite")
    wait_until(lambda: "Complete" in cluster.conditions("polite"))
    query = {"fieldSelector": "reason=Killing,involvedObject.fieldPath=spec.containers{train}"}
    killed = cluster.ask("GET", "/api/v1/namespaces/default/events", **query)[1]["items"]
    assert any(one["involvedObject"]["name"].startswith("polite-0-") for one in killed)
