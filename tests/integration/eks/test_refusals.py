"""EKS backend: refused launches, each with its failure class and the command that fixes it."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.integration.eks.conftest import FixedTokens
from tests.integration.eks.steps import REGION, start
from tests.integration.localcloud.kubernetes.running_cluster import TOKEN
from tests.support.eks_jobs import NAME, eks_job
from tests.support.training_jobs import FakeTime
from traingrid.backends import logs_of
from traingrid.backends.base import LaunchError, LogUnreadableError
from traingrid.backends.eks import jobs
from traingrid.backends.eks.backend import Eks
from traingrid.backends.eks.inventory import EksInventory
from traingrid.backends.joint_inventory import JointInventory, PartlyListedError
from traingrid.grid.deployment import Deployment
from traingrid.kubernetes.client import JOB, SERVICE, Client
from traingrid.kubernetes.errors import UnavailableError, error_of

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
        403,
        {"message": "x is forbidden: unable to create new content in namespace default because it is being terminated"},
        "invalid_request",
        f"When `kubectl get namespace default` no longer finds it: as{APPLY[2:]}",
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
        logs_of(deployment, REGION, "eks").log_streams(NAME)
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


def test_a_request_that_is_too_large_fails_the_line(eks: Eks, client: Client) -> None:
    with pytest.raises(LaunchError, match="more than the 262,144 bytes"):
        start(eks, eks_job(environment={"LARGE": "x" * 262_144}))
    assert list(client.all(JOB)) == []


def test_a_deployment_without_the_image_of_pods_launches_nothing(deployment: Deployment) -> None:
    eks = Eks(replace(deployment, pod_image=""), REGION)
    with pytest.raises(LaunchError, match="deploy the grid again"):
        start(eks)
