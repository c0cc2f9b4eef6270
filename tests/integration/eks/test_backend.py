"""EKS backend: launches each training job once, also after lost replies, and reads and stops it."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.kubernetes import resources as kinds
from tests.integration.eks.conftest import FixedTokens
from tests.integration.localcloud.compute import wait_until
from tests.integration.localcloud.kubernetes.running_cluster import PODS, TOKEN, Cluster
from tests.support.eks_jobs import NAME, at, eks_job, pod, running, terminated
from tests.support.training_jobs import FakeTime
from traingrid.backends.base import LaunchError, LogUnreadableError
from traingrid.backends.eks import jobs
from traingrid.backends.eks.backend import Eks
from traingrid.backends.eks.inventory import EksInventory
from traingrid.backends.eks.pods import seconds_of
from traingrid.backends.joint_inventory import JointInventory, PartlyListedError
from traingrid.grid.deployment import Deployment
from traingrid.job.job import Job
from traingrid.job.ownership import tags_of
from traingrid.kubernetes.client import JOB, POD, SERVICE, Client
from traingrid.kubernetes.cluster import Cluster as Described
from traingrid.kubernetes.errors import ApiError, UnavailableError, error_of

REGION = "eu-west-1"


@pytest.fixture
def eks(deployment: Deployment) -> Eks:
    return Eks(deployment, REGION)


@pytest.fixture
def add_pod(cluster: Cluster, client: Client) -> Callable[..., None]:
    """Return a function that adds a pod in a state, as a controller and a kubelet would."""

    def add(index: int = 0, **status: Any) -> None:
        made = pod(index, **status)
        spec = {"containers": [{"name": "train", "image": "train:1"}], **made["spec"]}
        metadata = {name: value for name, value in made["metadata"].items() if name != "uid"}
        client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        wanted = {**cluster.store.get(kinds.POD, "default", made["metadata"]["name"]), "status": made["status"]}
        cluster.store.update(kinds.POD, "default", made["metadata"]["name"], lambda _: wanted, of_status=True)

    return add


def tags(eks: Eks, job: Job) -> dict[str, str]:
    return tags_of("traingrid", "0123abcd", 0, eks.fingerprint(NAME, job))


def start(eks: Eks, job: Job | None = None) -> Any:
    wanted = job or eks_job()
    return eks.start(NAME, wanted, tags(eks, wanted))


def finish(cluster: Cluster, kind: str) -> None:
    """Set the condition of an ended Job."""
    made = cluster.store.get(kinds.JOB, "default", NAME)
    made["status"] = {"conditions": [{"type": kind, "status": "True", "lastTransitionTime": at(60)}]}
    cluster.store.update(kinds.JOB, "default", NAME, lambda _: made, of_status=True)


def remove_pods(cluster: Cluster, client: Client) -> None:
    """Remove the pods that are being deleted, as their kubelets would after their grace period."""
    for one in list(client.all(POD)):
        assert one["metadata"]["deletionTimestamp"]
        cluster.ask("DELETE", f"{PODS}/{one['metadata']['name']}", {"gracePeriodSeconds": 0})


def test_a_training_job_in_auto_mode_has_no_label_of_managed_node_groups(
    deployment: Deployment, described: Described, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "cluster_of", lambda *_: replace(described, auto_mode=True))
    start(Eks(deployment, REGION))
    made = client.find(JOB, NAME)
    assert made
    assert "eks.amazonaws.com/capacityType" not in json.dumps(made["spec"]["template"]["spec"]["affinity"])


def test_a_training_job_is_created_once_and_found_again(eks: Eks, client: Client) -> None:
    assert start(eks) is None
    made = client.get(JOB, NAME)
    assert client.get(SERVICE, NAME)["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    seen = start(eks)
    assert (seen.state, seen.phase, seen.fingerprint) == ("InProgress", "Starting", eks.fingerprint(NAME, eks_job()))
    assert eks.attach(NAME, eks_job(), {}) == seen
    assert (eks.tags(seen) or {}).items() >= tags(eks, eks_job()).items()
    assert len(list(client.all(JOB))) == 1


def test_an_mpijob_is_created_and_described(eks: Eks, client: Client) -> None:
    job = eks_job(eks_kind="mpijob", instance_count=2)
    assert start(eks, job) is None
    assert start(eks, job).arn.split("/")[-3:-1] == ["mpijobs", NAME]
    assert client.find(SERVICE, NAME) is None, "the operator creates it"


def test_a_line_whose_kind_has_changed_finds_its_training_job(eks: Eks, client: Client) -> None:
    start(eks, eks_job(eks_kind="mpijob"))
    assert start(eks, eks_job()).arn.split("/")[-3] == "mpijobs"
    assert list(client.all(JOB)) == []


@pytest.mark.parametrize("created", [True, False])
def test_a_lost_reply_is_resolved_by_the_name(
    eks: Eks, client: Client, monkeypatch: pytest.MonkeyPatch, created: bool
) -> None:
    plain = Client.create

    def lost(self: Client, kind: Any, made: Any) -> Any:
        if kind is JOB and created:
            plain(self, kind, made)
        if kind is JOB:
            raise UnavailableError(0, "ReadTimeoutError", "no answer")
        return plain(self, kind, made)

    monkeypatch.setattr(Client, "create", lost)
    if created:
        assert start(eks).state == "InProgress"
        assert client.find(SERVICE, NAME)
    else:
        with pytest.raises(LaunchError) as error:
            start(eks)
        assert (error.value.failure.name, error.value.unresolved) == ("service_error", True)


def test_a_child_that_died_before_the_service_was_created_leaves_it_to_the_next(
    eks: Eks, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Eks, "_add_service", lambda *_: None)
        start(eks)
    assert client.find(SERVICE, NAME) is None
    eks.attach(NAME, eks_job(), {})
    assert client.find(SERVICE, NAME)


def test_a_name_is_taken_until_its_finalizer_is_removed(eks: Eks, client: Client) -> None:
    start(eks)
    eks.stop(NAME)
    seen = start(eks)
    assert (seen.state, seen.reason) == ("Stopped", "")
    assert client.get(JOB, NAME)["metadata"]["annotations"]["traingrid/stopped-for"] == "cancel"


def test_another_request_with_the_name_is_refused(eks: Eks) -> None:
    start(eks)
    with pytest.raises(LaunchError) as error:
        start(eks, eks_job(hyperparameters={"epochs": "2"}))
    assert error.value.failure.name == "other_request"


def test_a_foreign_object_with_the_name_is_refused(eks: Eks, cluster: Cluster) -> None:
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "x", "image": "y"}]}}}
    foreign = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": NAME}, "spec": spec}
    cluster.store.create(kinds.JOB, "default", foreign)
    with pytest.raises(LaunchError, match="did not create it") as error:
        start(eks)
    assert error.value.failure.name == "conflict"


APPLY = (
    "As an administrator of the cluster, run `aws eks update-kubeconfig --region eu-west-1 --name research --alias "
    "research`, then `traingrid eks access eu-west-1 | kubectl --context research apply -f -`."
)
REFUSALS = [
    (
        401,
        {"message": "Unauthorized"},
        "service_error",
        "If this lasts, ask its administrator to run `aws eks create-acc",
    ),
    (403, {"message": 'jobs.batch is forbidden: User "x" cannot create resource "jobs"'}, "permission", APPLY),
    (403, {"message": "jobs x is forbidden: exceeded quota: q"}, "quota", "kubectl describe resourcequota -n default"),
    (
        403,
        {"message": 'admission webhook "w" denied the request: pods cannot run as root.'},
        "invalid_request",
        "cannot run as root. Fix the policy of the cluster, then run `traingrid retry 0123abcd`; or fix the line, then",
    ),
    (
        404,
        {"message": 'namespaces "default" not found', "details": {"kind": "namespaces"}},
        "invalid_request",
        APPLY,
    ),
    (404, {"message": "the server could not find the requested resource"}, "invalid_request", "kubectl apply"),
    (
        422,
        {"message": "Job is invalid: spec"},
        "invalid_request",
        "0-1: 422: Job is invalid: spec. Fix the line, then run `traingrid retry 0123abcd MANIFEST`.",
    ),
    (429, {"message": "busy"}, "service_error", ""),
]


@pytest.mark.parametrize(("code", "status", "failure", "text"), REFUSALS, ids=[text for *_, text in REFUSALS])
def test_each_refusal_has_a_class_and_a_command(  # noqa: PLR0917  # the columns of the table
    eks: Eks, monkeypatch: pytest.MonkeyPatch, code: int, status: dict[str, Any], failure: str, text: str
) -> None:
    def refuse(*_: Any) -> None:
        raise error_of(code, status)

    monkeypatch.setattr(Client, "create", refuse)
    with pytest.raises(LaunchError) as error:
        start(eks)
    assert (error.value.failure.name, text in error.value.what) == (failure, True)


def test_a_role_without_access_entry_fails_the_line_after_two_minutes(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = FakeTime()
    monkeypatch.setattr(jobs, "Client", partial(Client, sleep=lambda _: None, clock=lambda: moment.seconds))
    monkeypatch.setattr(jobs, "Tokens", lambda *_: FixedTokens("of-another-role"))
    eks = Eks(replace(deployment, part="launch"), REGION)
    role = f"arn:aws:iam::{deployment.account}:role/traingrid-child"
    for seconds in (1000.0, 1119.0):
        moment.seconds = seconds
        with pytest.raises(LaunchError, match=f"does not accept the token of the role {role}") as error:
            start(eks)
        assert (error.value.failure.name, error.value.unresolved) == ("service_error", True)
    moment.seconds = 1120.0
    with pytest.raises(LaunchError, match="research in eu-west-1 does not know the role") as error:
        start(eks)
    assert error.value.failure.name == "permission"
    entry = f"access-entry --region eu-west-1 --cluster-name research --principal-arn {role}"
    assert error.value.what.endswith(
        f"does not know the role {role}. Run `aws eks describe-{entry}`. If it finds no entry, run `npx cdk deploy "
        "--all --revert-drift`. If it finds one, the role was created again after the entry: run `aws eks "
        f"delete-{entry}`, then that deployment."
    )
    with pytest.raises(LaunchError) as error:
        eks.attach(NAME, eks_job(), {})
    assert (error.value.failure.name, error.value.unresolved) == ("service_error", True)


def test_a_role_that_may_not_describe_the_cluster_gets_its_policy_by_a_deployment(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(*_: Any) -> None:
        message = "User: x is not authorized to perform: eks:DescribeCluster"
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": message}}, "DescribeCluster")

    monkeypatch.setattr(jobs, "cluster_of", deny)
    with pytest.raises(LaunchError, match=r"AWS does not let the role arn:.* describe the cluster research") as error:
        start(Eks(replace(deployment, part="launch"), REGION))
    assert error.value.failure.name == "permission"
    assert "not authorized to perform: eks:DescribeCluster. Run `npx cdk deploy --all --rev" in error.value.what


def test_a_user_without_an_access_entry_gets_the_command_for_logs_and_lists(
    deployment: Deployment, eks: Eks, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(eks)
    monkeypatch.setattr(jobs, "Client", partial(Client, sleep=lambda _: None))
    monkeypatch.setattr(jobs, "Tokens", lambda *_: FixedTokens("of-another-role"))
    command = "Ask its administrator to run `aws eks create-access-entry --region eu-west-1 --cluster-name research "
    refused = "The cluster research in eu-west-1 does not accept your credentials"
    with pytest.raises(LogUnreadableError) as unreadable:
        Eks(deployment, REGION).log_streams(NAME)
    assert str(unreadable.value).startswith(f"{refused}, so the log of {NAME} cannot be read. {command}")
    with pytest.raises(PartlyListedError) as unlisted:
        list(JointInventory({"eks": EksInventory(deployment, REGION)}).listed())
    listing = "The training jobs on Amazon EKS cannot be listed"
    assert str(unlisted.value).startswith(f"{listing}: {refused}. {command}")


def test_a_role_that_the_cluster_knows_waits_for_its_tokens_to_be_accepted(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment, tokens = FakeTime(), FixedTokens(TOKEN)
    monkeypatch.setattr(jobs, "Client", partial(Client, sleep=lambda _: None, clock=lambda: moment.seconds))
    monkeypatch.setattr(jobs, "Tokens", lambda *_: tokens)
    eks = Eks(deployment, REGION)
    assert eks.describe(NAME) is None
    tokens.tokens = ["refused"]
    for seconds in (1000.0, 9000.0):
        moment.seconds = seconds
        with pytest.raises(UnavailableError):
            eks.describe(NAME)
        with pytest.raises(LaunchError) as error:
            start(eks)
        assert error.value.failure.name == "service_error"
    tokens.tokens = [TOKEN]
    assert start(eks) is None


@pytest.mark.parametrize("code", [403, 409, 401, 500])
def test_a_service_that_cannot_be_created_leaves_the_attempt_unresolved(
    eks: Eks, client: Client, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: Any) -> None:
        raise error_of(code, {"reason": "Why", "message": "exceeded quota: services"})

    with monkeypatch.context() as patch:
        patch.setattr(Client, "ensure", refuse)
        for _ in range(2):
            with pytest.raises(LaunchError, match="was created, but not its Service") as error:
                start(eks)
            assert (error.value.failure.name, error.value.unresolved) == ("service_error", True)
            with pytest.raises(LaunchError) as error:
                eks.attach(NAME, eks_job(), {})
            assert (error.value.failure.name, error.value.unresolved) == ("service_error", True)
    assert start(eks).state == "InProgress"
    assert client.find(SERVICE, NAME)


def failing_once(method: Any, *errors: Exception) -> Any:
    """Return a method of `Client` that raises errors before it works."""
    left = list(errors)

    def call(self: Client, *arguments: Any, **options: Any) -> Any:
        if left:
            raise left.pop(0)
        return method(self, *arguments, **options)

    return call


CHANGED = ApiError(409, "Conflict", "the object has been modified")
GONE = ApiError(404, "NotFound", "not found")


def test_a_stop_is_repeated_if_the_object_has_changed(
    eks: Eks, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(eks)
    monkeypatch.setattr(Client, "patch", failing_once(Client.patch, CHANGED, CHANGED))
    monkeypatch.setattr(Client, "delete", failing_once(Client.delete, CHANGED))
    eks.stop(NAME, "capacity")
    found = client.get(JOB, NAME)["metadata"]
    assert (found["annotations"]["traingrid/stopped-for"], "deletionTimestamp" in found) == ("capacity", True)


def test_a_stop_that_is_refused_is_an_error(eks: Eks, monkeypatch: pytest.MonkeyPatch) -> None:
    start(eks)
    monkeypatch.setattr(Client, "patch", failing_once(Client.patch, ApiError(403, "Forbidden", "cannot patch")))
    with pytest.raises(ApiError, match="cannot patch"):
        eks.stop(NAME)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that repeat a request without a pause."""
    monkeypatch.setattr(jobs, "Client", partial(Client, sleep=lambda _: None))


@pytest.mark.usefixtures("quick")
def test_a_cancel_stops_a_training_job_while_the_webhook_of_kueue_is_down(
    eks: Eks, client: Client, cluster: Cluster, add_pod: Callable[..., None]
) -> None:
    start(eks)
    add_pod(prepare=terminated(), train=running())
    cluster.faults.webhook_is_down = True
    eks.stop(NAME)
    assert "deletionTimestamp" in client.get(JOB, NAME)["metadata"]
    assert (eks.describe(NAME) or start(eks)).state == "Stopping", "the pods are deleted, too"
    remove_pods(cluster, client)
    stopped = [eks.describe(NAME)]
    cluster.faults.webhook_is_down = False
    stopped += [eks.describe(NAME), eks.describe(NAME)]
    for seen in stopped:
        assert seen
        assert (seen.state, seen.reason) == ("Stopped", "")
        assert seen.started_at == seconds_of(at(10))
    assert client.get(JOB, NAME)["metadata"]["annotations"]["traingrid/stopped-for"] == "cancel"


@pytest.mark.usefixtures("quick")
def test_a_stop_whose_reason_only_the_object_keeps_waits_for_the_webhook_of_kueue(
    eks: Eks, client: Client, cluster: Cluster
) -> None:
    start(eks)
    cluster.faults.webhook_is_down = True
    with pytest.raises(UnavailableError, match=r"vjob\.kb\.io"):
        eks.stop(NAME, "capacity")
    assert "deletionTimestamp" not in client.get(JOB, NAME)["metadata"]


@pytest.mark.usefixtures("quick")
def test_a_disruption_is_known_although_the_webhook_of_kueue_was_down_when_it_was_seen(
    eks: Eks, client: Client, cluster: Cluster, add_pod: Callable[..., None]
) -> None:
    start(eks)
    add_pod(prepare=terminated(), train=running())
    disrupt(cluster, client)
    cluster.faults.webhook_is_down = True
    assert (eks.describe(NAME) or start(eks)).phase == "Training"
    remove_pods(cluster, client)
    finish(cluster, "Complete")
    ends = [eks.describe(NAME)]
    cluster.faults.webhook_is_down = False
    ends.append(eks.describe(NAME))
    assert [(seen.state, seen.failure) for seen in ends if seen] == [("Failed", "lost_node")] * 2
    assert "EvictionByEvictionAPI" in client.get(JOB, NAME)["metadata"]["annotations"]["traingrid/disrupted"]


@pytest.mark.usefixtures("quick")
def test_the_reconciler_ends_pods_of_a_deleted_object_while_the_webhook_of_kueue_is_down(
    eks: Eks, deployment: Deployment, client: Client, cluster: Cluster, add_pod: Callable[..., None]
) -> None:
    start(eks)
    add_pod(prepare=terminated(), train=running())
    inventory = EksInventory(deployment, REGION)
    (job,) = inventory.listed("InProgress")
    cluster.faults.webhook_is_down = True
    assert inventory.stop(job)
    assert inventory.complete_stop(job)
    remove_pods(cluster, client)


@pytest.mark.parametrize("error", [CHANGED, GONE], ids=["changed", "gone"])
def test_a_description_survives_a_change_while_it_notes_a_disruption(  # noqa: PLR0917  # the fixtures
    eks: Eks,
    client: Client,
    cluster: Cluster,
    add_pod: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    start(eks)
    add_pod(prepare=terminated(), train=running())
    disrupt(cluster, client)
    monkeypatch.setattr(Client, "patch", failing_once(Client.patch, error))
    assert (eks.describe(NAME) or start(eks)).phase == "Training"
    noted = "traingrid/disrupted" in client.get(JOB, NAME)["metadata"]["annotations"]
    assert noted is (error is CHANGED)


def test_a_description_survives_a_change_while_it_ends_the_pods_of_a_deleted_object(
    eks: Eks, client: Client, cluster: Cluster, add_pod: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    start(eks)
    add_pod(prepare=terminated(), train=running())
    client.delete(JOB, NAME)
    monkeypatch.setattr(Client, "delete", failing_once(Client.delete, CHANGED))
    assert (eks.describe(NAME) or start(eks)).state == "Stopping"
    remove_pods(cluster, client)


def test_a_training_job_that_cannot_be_read_is_not_given_up(eks: Eks, monkeypatch: pytest.MonkeyPatch) -> None:
    start(eks)

    def refuse(*_: Any) -> None:
        raise error_of(403, {"message": "cannot get"})

    monkeypatch.setattr(Client, "get", refuse)
    with pytest.raises(LaunchError) as error:
        eks.attach(NAME, eks_job(), {})
    assert (error.value.failure.name, error.value.unresolved) == ("service_error", True)


def test_a_request_that_is_too_large_fails_the_line(eks: Eks, client: Client) -> None:
    with pytest.raises(LaunchError, match="more than the 262,144 bytes"):
        start(eks, eks_job(environment={"LARGE": "x" * 262_144}))
    assert list(client.all(JOB)) == []


def test_a_deployment_without_the_image_of_pods_launches_nothing(deployment: Deployment) -> None:
    eks = Eks(replace(deployment, pod_image=""), REGION)
    with pytest.raises(LaunchError, match="deploy the grid again"):
        start(eks)


def test_a_stopped_training_job_has_stopped_when_its_pods_are_gone(
    eks: Eks, client: Client, cluster: Cluster, add_pod: Callable[..., None]
) -> None:
    start(eks)
    add_pod(prepare=terminated(), train=running())
    assert (eks.describe(NAME) or start(eks)).phase == "Training"
    eks.stop(NAME, "capacity")
    assert (eks.describe(NAME) or start(eks)).state == "Stopping"
    remove_pods(cluster, client)
    seen = eks.describe(NAME)
    assert seen
    assert (seen.state, seen.phase) == ("Stopped", "CapacityWaitExceeded")
    assert seen.started_at is not None, "it was noted, because the pods are gone"


def test_the_pods_of_an_object_that_a_person_deleted_are_deleted(
    eks: Eks, client: Client, cluster: Cluster, add_pod: Callable[..., None]
) -> None:
    start(eks)
    add_pod(prepare=terminated(), train=running())
    client.delete(JOB, NAME)
    assert (eks.describe(NAME) or start(eks)).state == "Stopping"
    remove_pods(cluster, client)
    seen = eks.describe(NAME)
    assert seen
    assert (seen.state, seen.reason) == ("Stopped", f"The Job {NAME} was deleted in the cluster, but not by traingrid.")


def test_an_ended_training_job_is_not_stopped(eks: Eks, client: Client, cluster: Cluster) -> None:
    start(eks)
    finish(cluster, "Complete")
    eks.stop(NAME)
    assert "deletionTimestamp" not in client.get(JOB, NAME)["metadata"]


def test_an_image_that_cannot_be_pulled_for_ten_minutes_fails_the_training_job(
    eks: Eks, client: Client, cluster: Cluster, add_pod: Callable[..., None]
) -> None:
    start(eks)
    add_pod(phase="Pending", prepare={"waiting": {"reason": "ImagePullBackOff", "message": "not found"}})
    assert (eks.describe(NAME) or start(eks)).state == "Stopping"
    remove_pods(cluster, client)
    seen = eks.describe(NAME)
    assert seen
    assert (seen.state, seen.failure) == ("Failed", "image")
    assert "not found" in seen.reason


@pytest.mark.parametrize("by", ["child", "reconciler"])
def test_an_mpijob_with_a_failed_worker_is_stopped_with_its_reason(  # noqa: PLR0917  # the fixtures
    eks: Eks, deployment: Deployment, client: Client, cluster: Cluster, add_pod: Callable[..., None], by: str
) -> None:
    start(eks, eks_job(eks_kind="mpijob", instance_count=2))
    add_pod(prepare=running())
    add_pod(1, phase="Failed", prepare=terminated(1, message="ClientError: Data download failed:NoSuchKey"))
    assert (eks.describe(NAME) or start(eks)).state == "InProgress", "the operator has not counted it"
    counted = cluster.store.get(kinds.MPI_JOB_RESOURCE, "default", NAME)
    counted["status"] = {"replicaStatuses": {"Worker": {"failed": 1}}}
    cluster.store.update(kinds.MPI_JOB_RESOURCE, "default", NAME, lambda _: counted, of_status=True)
    if by == "reconciler":
        inventory = EksInventory(deployment, REGION)
        (job,) = inventory.listed("InProgress")
        assert job.may_hang
        assert inventory.complete_stop(job)
    assert (eks.describe(NAME) or start(eks)).state == "Stopping"
    for one in list(client.all(POD)):  # the garbage collector also deletes pods that have ended
        cluster.ask("DELETE", f"{PODS}/{one['metadata']['name']}", {"gracePeriodSeconds": 0})
    seen = eks.describe(NAME)
    assert seen
    assert (seen.state, seen.failure, seen.reason) == ("Failed", "data", "ClientError: Data download failed:NoSuchKey")


def test_hosts_that_have_trained_are_known_when_their_pods_are_deleted_for_a_late_upload(
    eks: Eks, client: Client, cluster: Cluster, add_pod: Callable[..., None]
) -> None:
    start(eks, eks_job(instance_count=2))
    uploaded = terminated(until=55, message=json.dumps({"artifact": "s3://out/model.tar.gz"}))
    late = {"phase": "Failed", "reason": "DeadlineExceeded", "limit": 42, "results": uploaded}
    add_pod(prepare=terminated(until=15), train=terminated(), **late)
    add_pod(1, prepare=terminated(until=15), train=terminated(), results=running())
    assert (eks.describe(NAME) or start(eks)).state == "InProgress"
    cluster.ask("DELETE", f"{PODS}/{NAME}-1", {"gracePeriodSeconds": 0})
    finish(cluster, "Failed")
    seen = eks.describe(NAME)
    assert seen
    assert (seen.state, seen.artifact) == ("Completed", "s3://out/model.tar.gz")


def test_the_first_lists_are_news_once(eks: Eks, monkeypatch: pytest.MonkeyPatch) -> None:
    pages, listed, may_list = Client.pages, threading.Event(), threading.Event()

    def late(self: Client, kind: Any, *selection: str) -> Any:
        if threading.current_thread().name.startswith("watch"):
            if kind is POD:
                assert may_list.wait(10)
            else:
                listed.set()
        return pages(self, kind, *selection)

    start(eks)
    monkeypatch.setattr(Client, "pages", late)
    eks.has_news(NAME)
    assert listed.wait(10)
    time.sleep(0.2)
    assert not eks.has_news(NAME), "a description now could miss a change of the pods"
    may_list.set()
    wait_until(lambda: eks.has_news(NAME))
    eks.describe(NAME)
    time.sleep(0.2)
    assert not eks.has_news(NAME)


def test_a_change_is_news_until_the_training_job_is_described(eks: Eks, cluster: Cluster) -> None:
    assert not eks.has_news(NAME)
    start(eks)
    wait_until(lambda: eks.has_news(NAME))
    eks.describe(NAME)
    assert not eks.has_news(NAME)
    finish(cluster, "Complete")
    wait_until(lambda: eks.has_news(NAME))
    assert eks.describe(NAME)
    cluster.store.compact()
    finish(cluster, "Failed")
    wait_until(lambda: eks.has_news(NAME))


def disrupt(cluster: Cluster, client: Client) -> None:
    """Mark the only pod as the target of a disruption, and delete it, as the eviction API does."""
    (one,) = client.all(POD)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": one["metadata"]["name"]}}
    assert cluster.ask("POST", f"{PODS}/{one['metadata']['name']}/eviction", eviction)[0] == 201


def test_a_disruption_is_known_when_its_pod_is_gone(
    eks: Eks, client: Client, cluster: Cluster, add_pod: Callable[..., None]
) -> None:
    start(eks)
    add_pod(prepare=terminated(), train=running())
    disrupt(cluster, client)
    assert (eks.describe(NAME) or start(eks)).phase == "Training"
    noted = client.get(JOB, NAME)["metadata"]["annotations"]["traingrid/disrupted"]
    assert "EvictionByEvictionAPI" in noted
    remove_pods(cluster, client)
    finish(cluster, "Complete")
    seen = eks.describe(NAME)
    assert seen
    assert (seen.state, seen.failure, seen.reason.startswith(noted)) == ("Failed", "lost_node", True)


@pytest.mark.parametrize(("at_second", "state"), [(30, "Failed"), (0, "Completed")], ids=["after", "before"])
def test_the_kubelets_event_shows_a_training_that_was_ended(
    eks: Eks, client: Client, cluster: Cluster, at_second: int, state: str
) -> None:
    start(eks)
    finish(cluster, "Complete")
    started = cluster.store.get(kinds.JOB, "default", NAME)
    started["status"]["startTime"] = at(1)
    cluster.store.update(kinds.JOB, "default", NAME, lambda _: started, of_status=True)
    for container in ("train", "results"):
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{container}-{at_second}"},
            "involvedObject": {
                "kind": "Pod",
                "name": f"{NAME}-0-abcde",
                "fieldPath": f"spec.containers{{{container}}}",
            },
            "reason": "Killing",
            "firstTimestamp": at(at_second),
        }
        cluster.store.create(kinds.EVENT, "default", event)
    seen = eks.describe(NAME)
    assert seen
    assert seen.state == state
    assert ("traingrid/disrupted" in client.get(JOB, NAME)["metadata"]["annotations"]) is (state == "Failed")


def test_a_deleted_training_job_whose_pods_end_by_themselves_has_completed(
    eks: Eks, client: Client, add_pod: Callable[..., None]
) -> None:
    start(eks)
    add_pod(phase="Succeeded", prepare=terminated(), train=terminated(), results=terminated(until=55))
    client.delete(JOB, NAME)
    seen = eks.describe(NAME)
    assert seen
    assert (seen.state, seen.reason) == ("Completed", "")


def test_the_log_of_an_evicted_pod_has_no_lines(eks: Eks, add_pod: Callable[..., None]) -> None:
    start(eks)
    train = terminated(137, reason="Error")
    add_pod(phase="Failed", prepare=terminated(), train=train, reason="Evicted", message="The node was low on memory.")
    assert list(eks.log_lines(NAME, {})) == []
    assert eks.last_log_events(f"algo-1/{NAME}-0", 5, {}) == []
