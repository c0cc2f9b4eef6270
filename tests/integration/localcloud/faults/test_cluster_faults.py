"""Faults of requests to a cluster, their record, and stub pods."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import urllib3
from botocore.credentials import Credentials

from localcloud.credentials.secret import DUMMY_KEY
from localcloud.eks.clusters import running_cluster
from localcloud.faults.plan import CallFault, FaultPlan, Stub
from localcloud.kubernetes.resources import JOB
from localcloud.processes.process_group import ProcessGroup
from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import LIMIT_SECONDS, wait_until
from tests.integration.localcloud.eks.clusters import (
    CLUSTER_TRUST,
    REGION,
    Sender,
    encoded,
    presigned,
    role,
    sender,
    wanted,
)
from tests.integration.localcloud.kubernetes.running_cluster import training_job

JOBS, PODS = "/apis/batch/v1/namespaces/default/jobs", "/api/v1/namespaces/default/pods"
Client = Callable[..., Any]


@pytest.fixture(autouse=True)
def no_faults_afterwards(cloud: LocalCloud) -> Iterator[None]:
    yield
    cloud.faults.set(FaultPlan())


@pytest.fixture(scope="module")
def user(cloud: LocalCloud, client: Client) -> Sender:
    role(client, "cluster", CLUSTER_TRUST)
    client("eks", REGION).create_cluster(**wanted(client, "faulty"))
    return sent_by(cloud, client, Credentials(DUMMY_KEY, cloud.secret))


def sent_by(cloud: LocalCloud, client: Client, keys: Credentials) -> Sender:
    return sender(client, "faulty", encoded(presigned(keys, "faulty", cloud.endpoint_url)))


def strike(cloud: LocalCloud, effect: str, action: str, **fields: Any) -> None:
    fault = CallFault.model_validate({"effect": effect, "service": "kubernetes", "action": action, **fields})
    cloud.faults.set(FaultPlan(calls=(fault,), stubs=(Stub(),)))


def created(cloud: LocalCloud, name: str) -> int:
    entries = cloud.record.entries("kubernetes", "create jobs")
    return sum(entry["parameters"]["name"] == name for entry in entries)


@pytest.mark.parametrize(
    ("effect", "code", "accepted"),
    [("throttle", 429, 0), ("expire", 401, 0), ("error_before", 503, 0), ("error_after", 500, 1)],
)
def test_a_fault_refuses_a_request(cloud: LocalCloud, user: Sender, effect: str, code: int, accepted: int) -> None:
    strike(cloud, effect, "create jobs", region=REGION, times=1)
    name = effect.replace("_", "-")
    assert user.ask("POST", JOBS, training_job(name, "image", 1))[0] == code
    assert created(cloud, name) == accepted
    assert [call.action for _, call in cloud.faults.struck_calls()] == ["create jobs"]


def test_a_throttled_request_reports_when_to_repeat_it(cloud: LocalCloud, user: Sender) -> None:
    strike(cloud, "throttle", "list pods")
    pool = urllib3.PoolManager(ca_cert_data=user.authority, retries=False, timeout=LIMIT_SECONDS)
    reply = pool.request("GET", user.address + PODS, headers={"Authorization": f"Bearer {user.token}"})
    assert (reply.status, reply.headers["Retry-After"]) == (429, "1")


def test_a_lost_reply_leaves_the_change(cloud: LocalCloud, user: Sender) -> None:
    strike(cloud, "lose_reply", "create jobs", times=1)
    with pytest.raises(urllib3.exceptions.HTTPError):
        user.ask("POST", JOBS, training_job("unanswered", "image", 1))
    assert created(cloud, "unanswered") == 1
    assert user.ask("GET", f"{JOBS}/unanswered")[0] == 200


def test_a_watch_breaks_after_some_time(cloud: LocalCloud, user: Sender) -> None:
    strike(cloud, "lose_reply", "watch jobs", seconds=0.5)
    pool = urllib3.PoolManager(ca_cert_data=user.authority, retries=False, timeout=LIMIT_SECONDS)
    headers = {"Authorization": f"Bearer {user.token}"}
    with pytest.raises(urllib3.exceptions.HTTPError):
        pool.request("GET", f"{user.address}{JOBS}?watch=1&timeoutSeconds=600", headers=headers)


def test_the_process_that_signed_the_token_is_killed(cloud: LocalCloud, client: Client, user: Sender) -> None:
    environment = cloud.environment_for(REGION, "arn:aws:iam::123456789012:root", {})
    group = ProcessGroup(
        ["sleep", "60"], environment=environment, working_directory="/", on_line=lambda _: None, label="batch/one/1"
    )
    keys = Credentials(environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"])
    strike(cloud, "kill_before", "get jobs", caller="batch/one/*", nth=2)
    child = sent_by(cloud, client, keys)
    child.ask("GET", f"{JOBS}/none")
    user.ask("GET", f"{JOBS}/none")
    assert group.runs
    with pytest.raises(urllib3.exceptions.HTTPError):
        child.ask("GET", f"{JOBS}/none")
    assert group.wait(LIMIT_SECONDS) == 137


def phases(user: Sender, job: str) -> list[str]:
    pods = user.ask("GET", f"{PODS}?labelSelector=batch.kubernetes.io/job-name={job}")[1]["items"]
    return [pod["status"]["phase"] for pod in pods]


def test_stub_pods_end_without_processes(cloud: LocalCloud, user: Sender) -> None:
    failing = Stub(name="fails", outcome="Failed", reason="AlgorithmError: no luck, exit code: 7")
    cloud.faults.set(FaultPlan(stubs=(failing, Stub(seconds=1.0))))
    for name in ("succeeds", "fails"):
        assert user.ask("POST", JOBS, training_job(name, "there-is-no-such-image", 2))[0] == 201
    cloud.faults.set(FaultPlan())  # a stub is decided when its object is created
    wait_until(lambda: phases(user, "succeeds") == ["Succeeded"] * 2)
    wait_until(lambda: set(phases(user, "fails")) == {"Failed"})
    _, pods = user.ask("GET", f"{PODS}?labelSelector=batch.kubernetes.io/job-name=fails")
    ended = [pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] for pod in pods["items"]]
    assert ended == [7] * len(ended)


def test_a_stub_pod_that_is_deleted_takes_its_time_to_stop(cloud: LocalCloud, user: Sender) -> None:
    cloud.faults.set(FaultPlan(stubs=(Stub(seconds=600.0, stop_seconds=1.5),)))
    user.ask("POST", JOBS, training_job("stops", "there-is-no-such-image", 1, terminationGracePeriodSeconds=600))
    wait_until(lambda: phases(user, "stops") == ["Running"])
    begun = time.monotonic()
    user.ask("DELETE", f"{JOBS}/stops", {"propagationPolicy": "Foreground"})
    wait_until(lambda: user.ask("GET", f"{JOBS}/stops")[0] == 404)
    assert time.monotonic() - begun > 1.0


def test_the_record_names_the_principal_and_the_object(cloud: LocalCloud, user: Sender) -> None:
    cloud.faults.set(FaultPlan(stubs=(Stub(),)))
    user.ask("POST", JOBS, training_job("recorded", "image", 1))
    user.ask("GET", f"{JOBS}/recorded")
    user.ask("DELETE", f"{JOBS}/recorded", {"propagationPolicy": "Background"})
    entries = [one for one in cloud.record.entries("kubernetes") if one["parameters"]["name"] == "recorded"]
    assert [entry["action"] for entry in entries] == ["create jobs", "delete jobs"]
    assert entries[0]["parameters"] == {"cluster": "faulty", "namespace": "default", "name": "recorded"}
    assert entries[0]["region"] == REGION
    assert json.dumps(entries)


def test_the_pods_of_a_suspended_job_do_not_count_as_failed(cloud: LocalCloud, user: Sender) -> None:
    cloud.faults.set(FaultPlan(stubs=(Stub(seconds=2.0),)))
    user.ask("POST", JOBS, training_job("preempted", "there-is-no-such-image", 2))
    wait_until(lambda: phases(user, "preempted") == ["Running"] * 2)
    cluster = running_cluster(cloud, "123456789012", REGION, "faulty")
    for suspended in (True, False):
        job = cluster.store.get(JOB, "default", "preempted")
        cluster.client.update(JOB, job, lambda one, suspended=suspended: one["spec"].update(suspend=suspended))  # type: ignore[misc]  # mypy infers no type for this lambda
        if suspended:
            wait_until(lambda: phases(user, "preempted") == [])
    wait_until(lambda: phases(user, "preempted") == ["Succeeded"] * 2)
    wait_until(lambda: "completionTime" in cluster.store.get(JOB, "default", "preempted")["status"])
    assert "failed" not in cluster.store.get(JOB, "default", "preempted")["status"]
