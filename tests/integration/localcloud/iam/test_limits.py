"""Roles, policies and sessions beyond the limits of IAM and STS, and those at the limits."""

import json
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from localcloud.iam.limits import MAX_INLINE, MAX_ROLE_NAME
from tests.integration.localcloud.compute import ACCOUNT

TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "sts:AssumeRole"}
        ],
    }
)


def policy(characters: int) -> str:
    """Return a policy with this length without white space."""

    def text(name: str) -> str:
        may = {"Effect": "Allow", "Action": "*", "Resource": ["*", f"arn:aws:s3:::{name}"]}
        return json.dumps({"Version": "2012-10-17", "Statement": [may]}, separators=(",", ":"))

    return text("x" * (characters - len(text("")))).replace(",", ", ")


def test_the_inline_policies_of_a_role_have_a_limit_together(client: Callable[..., Any]) -> None:
    iam = client("iam")
    iam.create_role(RoleName="large", AssumeRolePolicyDocument=TRUST)
    iam.put_role_policy(RoleName="large", PolicyName="a", PolicyDocument=policy(MAX_INLINE // 2))
    iam.put_role_policy(RoleName="large", PolicyName="b", PolicyDocument=policy(MAX_INLINE // 2))
    iam.put_role_policy(RoleName="large", PolicyName="b", PolicyDocument=policy(MAX_INLINE // 2))
    with pytest.raises(ClientError, match="Maximum policy size of 10240 bytes exceeded for role large"):
        iam.put_role_policy(RoleName="large", PolicyName="b", PolicyDocument=policy(MAX_INLINE // 2 + 1))


def test_a_role_has_a_short_name_and_a_short_trust_policy(client: Callable[..., Any]) -> None:
    iam = client("iam")
    iam.create_role(RoleName="r" * MAX_ROLE_NAME, AssumeRolePolicyDocument=TRUST)
    with pytest.raises(ClientError, match="at 'roleName' failed to satisfy constraint"):
        iam.create_role(RoleName="r" * (MAX_ROLE_NAME + 1), AssumeRolePolicyDocument=TRUST)
    long = TRUST.replace(":root", ":role/" + "x" * 2048)
    with pytest.raises(ClientError, match="LimitExceeded"):
        iam.create_role(RoleName="trusting", AssumeRolePolicyDocument=long)


def test_a_session_is_no_longer_than_its_role_allows(client: Callable[..., Any]) -> None:
    iam, sts = client("iam"), client("sts")
    iam.create_role(RoleName="an-hour", AssumeRolePolicyDocument=TRUST)
    iam.create_role(RoleName="two-hours", AssumeRolePolicyDocument=TRUST, MaxSessionDuration=7200)
    for name in ("an-hour", "two-hours"):
        iam.put_role_policy(RoleName=name, PolicyName="may", PolicyDocument=policy(1000))
    words: dict[str, Any] = {"RoleSessionName": "mine", "DurationSeconds": 7200}
    with pytest.raises(ClientError, match="exceeds the MaxSessionDuration set for this role"):
        sts.assume_role(RoleArn=f"arn:aws:iam::{ACCOUNT}:role/an-hour", **words)
    longer = f"arn:aws:iam::{ACCOUNT}:role/two-hours"
    keys = sts.assume_role(RoleArn=longer, **words)["Credentials"]
    chained = boto3.client(
        "sts",
        endpoint_url=sts.meta.endpoint_url,
        region_name="us-east-1",
        aws_access_key_id=keys["AccessKeyId"],
        aws_secret_access_key=keys["SecretAccessKey"],
        aws_session_token=keys["SessionToken"],
    )
    with pytest.raises(ClientError, match="1 hour session limit for roles assumed by role chaining"):
        chained.assume_role(RoleArn=longer, **words)
    chained.assume_role(RoleArn=longer, **{**words, "DurationSeconds": 3600})
