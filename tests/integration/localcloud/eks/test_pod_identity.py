"""Pods get credentials only of a role that trusts EKS, through an association of their service account."""

import json
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from localcloud.eks import pod_identity
from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.eks.clusters import POD_TRUST, REGION, Clients, role

CLUSTER = "arn:aws:eks:eu-west-1:123456789012:cluster/research"
SERVICE = {"Service": "pods.eks.amazonaws.com"}


def associated(role_arn: str, **members: Any) -> pod_identity.Association:
    request = {"namespace": "training", "serviceAccount": "trainer", "roleArn": role_arn, **members}
    return pod_identity.made(CLUSTER, request)


def test_a_pod_calls_aws_with_the_role(cloud: LocalCloud, client: Clients) -> None:
    variables = pod_identity.environment(associated(role(client, "pods", POD_TRUST)), CLUSTER, cloud.endpoint_url)
    sts = boto3.client(
        "sts",
        region_name=variables["AWS_REGION"],
        endpoint_url=variables["AWS_ENDPOINT_URL"],
        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
        aws_session_token=variables["AWS_SESSION_TOKEN"],
    )
    assert sts.get_caller_identity()["Arn"].startswith("arn:aws:sts::123456789012:assumed-role/pods/")
    assert variables["AWS_REGION"] == REGION


def test_a_pod_without_an_association_has_no_keys(cloud: LocalCloud) -> None:
    variables = pod_identity.environment(None, CLUSTER, cloud.endpoint_url)
    assert variables["AWS_ENDPOINT_URL"] == cloud.endpoint_url
    assert cloud.secret not in variables.values()
    assert not [name for name in variables if "KEY" in name or "TOKEN" in name]


@pytest.mark.parametrize(
    "trust",
    [
        pytest.param({"Principal": SERVICE, "Action": "sts:AssumeRole"}, id="without TagSession"),
        pytest.param({"Principal": SERVICE, "Action": "sts:TagSession"}, id="without AssumeRole"),
        pytest.param(
            {"Principal": {"Service": "eks.amazonaws.com"}, "Action": ["sts:AssumeRole", "sts:TagSession"]},
            id="another service",
        ),
        pytest.param({**POD_TRUST, "Effect": "Deny"}, id="denied"),
    ],
)
def test_a_role_that_does_not_trust_eks_is_refused(
    client: Clients, cluster: str, request: pytest.FixtureRequest, trust: dict[str, Any]
) -> None:
    arn = role(client, request.node.callspec.id.replace(" ", "-"), trust)
    with pytest.raises(ClientError, match="Trust policy of the role provided is invalid") as refused:
        client("eks", REGION).create_pod_identity_association(
            clusterName=cluster, namespace="training", serviceAccount="trainer", roleArn=arn
        )
    assert refused.value.response["Error"]["Code"] == "InvalidParameterException"


@pytest.mark.parametrize(
    ("key", "value", "is_given"),
    [
        ("aws:RequestTag/kubernetes-namespace", "training", True),
        ("aws:RequestTag/kubernetes-namespace", "other", False),
        ("aws:RequestTag/kubernetes-service-account", "trainer", True),
        ("aws:RequestTag/eks-cluster-name", "research", True),
        ("aws:SourceArn", CLUSTER, True),
        ("aws:SourceArn", f"{CLUSTER}-2", False),
        ("aws:SourceAccount", "123456789012", True),
    ],
)
def test_the_conditions_of_the_trust_must_be_met(
    cloud: LocalCloud, client: Clients, key: str, value: str, *, is_given: bool
) -> None:
    name = f"conditional-{abs(hash((key, value)))}"
    arn = role(client, name, {**POD_TRUST, "Condition": {"StringEquals": {key: value}}})
    variables = pod_identity.environment(associated(arn), CLUSTER, cloud.endpoint_url)
    assert ("AWS_SESSION_TOKEN" in variables) is is_given


def test_a_session_without_tags_does_not_meet_a_condition_on_them(cloud: LocalCloud, client: Clients) -> None:
    condition = {"StringEquals": {"aws:RequestTag/kubernetes-namespace": "training"}}
    arn = role(client, "untagged", {**POD_TRUST, "Condition": condition})
    found = associated(arn, disableSessionTags=True)
    assert "AWS_SESSION_TOKEN" not in pod_identity.environment(found, CLUSTER, cloud.endpoint_url)


def test_a_changed_trust_takes_effect(cloud: LocalCloud, client: Clients) -> None:
    found = associated(role(client, "changed", POD_TRUST))
    other = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [other]})
    client("iam").update_assume_role_policy(RoleName="changed", PolicyDocument=document)
    assert "AWS_SESSION_TOKEN" not in pod_identity.environment(found, CLUSTER, cloud.endpoint_url)
