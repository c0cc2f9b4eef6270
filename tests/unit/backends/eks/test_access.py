"""Access: errors of a cluster name it, the principal that it refuses, and the commands for an administrator."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.eks_jobs import REGION, eks_deployment
from traingrid.backends.eks.access import Access
from traingrid.backends.eks.jobs import ClusterJobs
from traingrid.backends.eks.log import unreadable
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings
from traingrid.kubernetes.errors import ApiError, NoReplyError, error_of
from traingrid.names import Part

OTHER_ACCOUNT = "210987654321"
FORBIDDEN = 'pods is forbidden: User "arn:aws:sts::1:assumed-role/ada" cannot list resource "pods"'
CLUSTER = "The cluster research in eu-west-1"
OF_CLUSTER = "--region eu-west-1 --cluster-name research"
CREATE_ENTRY = (
    f"`aws eks create-access-entry {OF_CLUSTER} --principal-arn ARN-OF-YOUR-ROLE "
    "--kubernetes-groups traingrid:traingrid:use`"
)
APPLY = (
    "s an administrator of the cluster, run `aws eks update-kubeconfig --region eu-west-1 --name research --alias "
    "research`, then `traingrid eks access eu-west-1 | kubectl --context research apply -f -`."
)


def access(part: Part = "use", account: str = "", role: str = "") -> Access:
    """Return the access of a process of a part of traingrid, to a cluster in an account."""
    deployment = replace(eks_deployment(), part=part)
    if account:
        grid = deployment.grid.model_dump(exclude_defaults=True) | {"account": deployment.account}
        grid["regions"][REGION]["account"] = account
        deployment = replace(deployment, grid=GridSettings.model_validate(grid))
    return ClusterJobs(deployment, REGION, lambda *_: None, role).access


def explained(error: ApiError, of: Access, *, was_accepted: bool = False) -> ApiError:
    of.explain(error, was_accepted=was_accepted)
    return error


def entry_step(role: str) -> str:
    entry = f"access-entry {OF_CLUSTER} --principal-arn {role}"
    return (
        f"Run `aws eks describe-{entry}`. If it finds no entry, run `npx cdk deploy --all --revert-drift`. If it finds "
        f"one, the role was created again after the entry: run `aws eks delete-{entry}`, then that deployment."
    )


def test_a_user_without_an_entry_gets_the_command_that_creates_one() -> None:
    error = explained(error_of(401, {"reason": "Unauthorized", "message": "Unauthorized"}), access())
    assert str(error) == f"{CLUSTER} does not accept your credentials. Ask its administrator to run {CREATE_ENTRY}."
    log = unreadable("traingrid-0123abcd-0-1", error)
    assert log.what == (
        f"{CLUSTER} does not accept your credentials, so the log of traingrid-0123abcd-0-1 cannot be read."
    )
    assert log.next_step == f"Ask its administrator to run {CREATE_ENTRY}."


@pytest.mark.parametrize(
    ("settings", "role"),
    [
        ({"part": "launch"}, "arn:aws:iam::123456789012:role/traingrid-child"),
        ({"part": "sweep"}, "arn:aws:iam::123456789012:role/traingrid-reconciler"),
        ({"account": OTHER_ACCOUNT}, f"arn:aws:iam::{OTHER_ACCOUNT}:role/traingrid-use-eu-west-1"),
        (
            {"part": "launch", "account": OTHER_ACCOUNT},
            f"arn:aws:iam::{OTHER_ACCOUNT}:role/traingrid-launch-eu-west-1",
        ),
        ({"role": "arn:aws:iam::123456789012:role/traingrid-guard"}, "arn:aws:iam::123456789012:role/traingrid-guard"),
    ],
    ids=["child", "reconciler", "user of another account", "child of another account", "guard"],
)
def test_a_role_of_the_grid_without_an_entry_gets_it_by_a_deployment(settings: Any, role: str) -> None:
    found = access(**settings)
    error = explained(error_of(401, {}), found)
    assert str(error) == f"{CLUSTER} does not accept the role {role}. {entry_step(role)}"
    assert found.role == role


def test_credentials_that_were_accepted_before_need_no_entry() -> None:
    error = explained(error_of(401, {}), access(), was_accepted=True)
    assert error.what == f"{CLUSTER} no longer accepts your credentials."
    assert error.next_step == "If your credentials have expired, renew them; otherwise try again later."


def test_missing_permissions_name_the_group_and_the_objects_to_apply() -> None:
    error = explained(error_of(403, {"message": FORBIDDEN}), access())
    assert error.what == f"{CLUSTER} does not allow this request of your credentials: {FORBIDDEN}."
    group = (
        "Your access entry needs the group traingrid:traingrid:use. If it has this group, the group lacks permissions"
    )
    assert error.next_step == f"{group}: a{APPLY}"
    assert "does not allow this request" in unreadable("x", error).what
    error = explained(error_of(403, {"message": FORBIDDEN}), access("launch"))
    assert error.next_step == f"A{APPLY}"


def test_a_refusal_of_a_webhook_is_no_missing_permission() -> None:
    text = 'admission webhook "limits.example" denied the request: pods cannot run as root'
    error = explained(error_of(403, {"reason": "Forbidden", "message": text}), access())
    assert str(error) == f"{CLUSTER} replied 403 Forbidden: {text}."


@pytest.mark.parametrize(
    ("part", "start"),
    [
        ("use", "Check the route from this machine to the endpoint of the cluster"),
        ("launch", "If this lasts, check the route from the network of this process to the endpoint of the cluster"),
    ],
)
def test_an_endpoint_that_does_not_reply_is_checked_by_its_route(part: Part, start: str) -> None:
    error = explained(
        NoReplyError("0a1b.eks.amazonaws.com", "ConnectTimeoutError", "connection timed out"), access(part)
    )
    command = "aws eks describe-cluster --region eu-west-1 --name research --query cluster.resourcesVpcConfig"
    assert error.what == "The API server at 0a1b.eks.amazonaws.com did not reply: connection timed out."
    assert error.next_step == f"{start}, and the cluster's `publicAccessCidrs`: `{command}`."
    log = str(unreadable("x", error))
    assert log.startswith("The log of x cannot be read now: The API server at 0a1b.eks.amazonaws.com did not reply: ")
    assert log.endswith(f"`{command}`. The training job continues.")


def test_any_other_error_names_the_cluster() -> None:
    error = explained(error_of(503, {"reason": "ServiceUnavailable", "message": "down"}), access())
    assert str(error) == f"{CLUSTER} replied 503 ServiceUnavailable: down."


def test_a_deployment_knows_no_role_of_users_in_its_own_account() -> None:
    deployment: Deployment = eks_deployment()
    assert deployment.role_in(REGION) == ""
