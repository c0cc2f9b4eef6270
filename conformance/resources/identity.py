"""Roles: for services, and for calls under a policy that a claim is about."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import boto3
from botocore.exceptions import ClientError
from botocore.loaders import Loader
from botocore.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from conformance.aws import Aws

    Statement = Mapping[str, Any]

_LOADER = Loader()
"""Service models, which all sessions of claims share: each takes 0.1 s and some MiB."""
CANARY = {"Effect": "Allow", "Action": "sqs:ListQueues", "Resource": "*"}
"""Statement in every role that a claim assumes: once this call is allowed, the role's policy has propagated."""


def document(*statements: Statement) -> str:
    """Return a policy document."""
    return json.dumps(_policy(*statements))


def _policy(*statements: Statement) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": statements}


def allow(actions: str, *resources: str, **conditions: Any) -> Statement:
    """Return a statement that allows space-separated actions on resources."""
    statement = {"Effect": "Allow", "Action": actions.split(), "Resource": list(resources) or ["*"]}
    return {**statement, "Condition": conditions} if conditions else statement


def role(
    aws: Aws,
    what: str,
    principal: Mapping[str, str],
    *statements: Statement,
    actions: str = "sts:AssumeRole",
    conditions: Mapping[str, Any] | None = None,
) -> str:
    """Create a role, wait until it has propagated, and return its ARN.

    Args:
        aws: The place of the run.
        what: A part of the role's name.
        principal: The principal that the role trusts.
        statements: The permissions of the role.
        actions: The actions that the role trusts the principal with.
        conditions: The conditions of the trust.
    """
    iam, name = aws.client("iam"), aws.name(what)
    limited = {"Condition": conditions} if conditions else {}
    trust = document({"Effect": "Allow", "Principal": principal, "Action": actions.split(), **limited})
    aws.undo.later(f"role {name}", lambda: _delete(iam, name))
    made = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust, Tags=aws.tags())
    if statements:
        iam.put_role_policy(RoleName=name, PolicyName="may", PolicyDocument=document(*statements))
    time.sleep(aws.place.settle_seconds)
    return str(made["Role"]["Arn"])


def _delete(iam: Any, name: str) -> None:
    with suppress(iam.exceptions.NoSuchEntityException):
        for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
            iam.delete_role_policy(RoleName=name, PolicyName=policy)
        iam.delete_role(RoleName=name)


def acting_with(aws: Aws, *statements: Statement) -> Callable[..., Any]:
    """Assume a new role that has only these permissions.

    Returns:
        A function like `Aws.client`, whose clients use that role.
    """
    arn = role(aws, "actor", {"AWS": f"arn:aws:iam::{aws.account}:root"}, *statements, CANARY)
    sts = aws.client("sts")

    def assumed() -> Any:
        with suppress(ClientError):  # the new role has not propagated yet
            keys = sts.assume_role(RoleArn=arn, RoleSessionName="conformance")["Credentials"]
            core = Session()
            core.register_component("data_loader", _LOADER)
            session = boto3.Session(
                botocore_session=core,
                aws_access_key_id=keys["AccessKeyId"],
                aws_secret_access_key=keys["SecretAccessKey"],
                aws_session_token=keys["SessionToken"],
            )
            aws.client_with(session, "sqs", aws.home).list_queues(MaxResults=1)
            return session
        return None

    session = aws.wait(assumed, f"permission to assume {arn}")
    return lambda service, region="": aws.client_with(session, service, region or aws.home)
