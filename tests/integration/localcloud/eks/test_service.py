"""EKS's API: requests, replies and errors."""

import json
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.eks.clusters import (
    POD_TRUST,
    REGION,
    USER_TRUST,
    Clients,
    role,
    session,
    subnets,
    wanted,
)
from traingrid.kubernetes.cluster import cluster_of

LAUNCH = "arn:aws:iam::123456789012:role/launch"
POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"


@pytest.fixture(scope="module")
def eks(client: Clients, cluster: str) -> Any:
    role(client, "pods", POD_TRUST)
    return client("eks", REGION)


def test_a_cluster_is_described(eks: Any) -> None:
    found = eks.describe_cluster(name="research")["cluster"]
    assert found["arn"] == "arn:aws:eks:eu-west-1:123456789012:cluster/research"
    assert found["status"] == "ACTIVE"
    assert found["endpoint"].startswith("https://127.0.0.1:")
    assert found["accessConfig"] == {"authenticationMode": "API"}
    assert found["resourcesVpcConfig"]["vpcId"].startswith("vpc-")
    assert eks.list_clusters()["clusters"] == ["research"]


def test_a_cluster_belongs_to_its_region(eks: Any, client: Clients) -> None:
    assert client("eks", "us-west-2").list_clusters()["clusters"] == []
    with pytest.raises(ClientError, match=r"No cluster found for name: research\.") as refused:
        client("eks", "us-west-2").describe_cluster(name="research")
    assert refused.value.response["Error"]["Code"] == "ResourceNotFoundException"
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404


def test_a_deleted_cluster_ends(eks: Any, client: Clients) -> None:
    created = eks.create_cluster(**wanted(client, "short-lived", tags={"team": "one"}))["cluster"]
    assert created["status"] == "CREATING"
    assert eks.list_tags_for_resource(resourceArn=created["arn"])["tags"] == {"team": "one"}
    assert eks.delete_cluster(name="short-lived")["cluster"]["status"] == "DELETING"
    with pytest.raises(eks.exceptions.ResourceNotFoundException):
        eks.describe_cluster(name="short-lived")


@pytest.mark.parametrize(
    ("changed", "code", "text"),
    [
        ({"name": "research"}, "ResourceInUseException", "Cluster already exists with name: research"),
        ({"name": "a_b.c"}, "InvalidParameterException", "regular expression pattern"),
        ({"roleArn": LAUNCH}, "InvalidParameterException", "could not be assumed because it does not exist"),
        ({"roleArn": f"{LAUNCH}-missing"}, "InvalidParameterException", "could not be assumed because"),
        (
            {"resourcesVpcConfig": {"subnetIds": ["subnet-1"]}},
            "InvalidParameterException",
            "The subnet ID 'subnet-1' does not exist",
        ),
        (
            {"accessConfig": {"authenticationMode": "CONFIG_MAP", "bootstrapClusterCreatorAdminPermissions": False}},
            "InvalidParameterException",
            "must be true if cluster authentication mode is set to CONFIG_MAP",
        ),
        (
            {"computeConfig": {"enabled": True}},
            "InvalidParameterException",
            "computeConfig, kubernetesNetworkConfig, and blockStorage are all either fully enabled or fully disabled",
        ),
    ],
)
def test_an_invalid_cluster_is_refused(
    eks: Any, client: Clients, changed: dict[str, Any], code: str, text: str
) -> None:
    with pytest.raises(ClientError, match=text) as refused:
        eks.create_cluster(**wanted(client, "new") | changed)
    assert refused.value.response["Error"]["Code"] == code
    assert "new" not in eks.list_clusters()["clusters"]


def test_a_cluster_of_auto_mode_is_described_as_one(eks: Any, client: Clients) -> None:
    def make(service: str, region: str | None = None, _role: object = None, /) -> Any:
        return client(service, region)

    assert cluster_of("research", REGION, make).auto_mode is False
    enabled = {"enabled": True}
    parts = {
        "computeConfig": {**enabled, "nodePools": ["general-purpose"]},
        "kubernetesNetworkConfig": {"elasticLoadBalancing": enabled},
        "storageConfig": {"blockStorage": enabled},
    }
    eks.create_cluster(**wanted(client, "auto", **parts))
    assert cluster_of("auto", REGION, make).auto_mode is True
    eks.delete_cluster(name="auto")


def test_a_cluster_needs_subnets_in_two_zones(eks: Any, client: Clients) -> None:
    with pytest.raises(ClientError, match="in at least two different AZs"):
        eks.create_cluster(**wanted(client, "new", resourcesVpcConfig={"subnetIds": subnets(client)[:1]}))


def test_a_cluster_has_no_access_entries_by_default(eks: Any, client: Clients) -> None:
    eks.create_cluster(**wanted(client, "old", accessConfig={}))
    assert eks.describe_cluster(name="old")["cluster"]["accessConfig"] == {"authenticationMode": "CONFIG_MAP"}
    with pytest.raises(eks.exceptions.InvalidRequestException, match=r"one of \[API, API_AND_CONFIG_MAP\]"):
        eks.create_access_entry(clusterName="old", principalArn=LAUNCH)
    eks.delete_cluster(name="old")


def test_the_creator_needs_no_entry_if_the_cluster_has_none(eks: Any, client: Clients) -> None:
    access = {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False}
    eks.create_cluster(**wanted(client, "closed", accessConfig=access))
    assert eks.list_access_entries(clusterName="closed")["accessEntries"] == []
    assert eks.list_access_entries(clusterName="research")["accessEntries"] == ["arn:aws:iam::123456789012:root"]
    eks.delete_cluster(name="closed")


def test_access_entries_are_created_changed_and_deleted(eks: Any) -> None:
    key = {"clusterName": "research", "principalArn": LAUNCH}
    made = eks.create_access_entry(**key, kubernetesGroups=["one"], tags={"team": "one"})["accessEntry"]
    assert made["accessEntryArn"].startswith(
        "arn:aws:eks:eu-west-1:123456789012:access-entry/research/role/123456789012/launch/"
    )
    assert made["type"] == "STANDARD"
    assert made["username"] == "arn:aws:sts::123456789012:assumed-role/launch/{{SessionName}}"
    with pytest.raises(eks.exceptions.ResourceInUseException, match="already in use on this cluster"):
        eks.create_access_entry(**key)
    changed = eks.update_access_entry(**key, kubernetesGroups=["two", "three"], username="who:{{SessionName}}")
    assert changed["accessEntry"]["kubernetesGroups"] == ["two", "three"]
    assert eks.describe_access_entry(**key)["accessEntry"]["username"] == "who:{{SessionName}}"
    eks.associate_access_policy(**key, policyArn=POLICY, accessScope={"type": "namespace", "namespaces": ["a"]})
    listed = eks.list_associated_access_policies(**key)["associatedAccessPolicies"]
    assert [(one["policyArn"], one["accessScope"]) for one in listed] == [
        (POLICY, {"type": "namespace", "namespaces": ["a"]})
    ]
    assert eks.list_access_entries(clusterName="research", associatedPolicyArn=POLICY)["accessEntries"] == [LAUNCH]
    eks.disassociate_access_policy(**key, policyArn=POLICY)
    assert eks.list_associated_access_policies(**key)["associatedAccessPolicies"] == []
    eks.delete_access_entry(**key)
    with pytest.raises(eks.exceptions.ResourceNotFoundException, match="principalArn could not be found"):
        eks.describe_access_entry(**key)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"principalArn": f"{LAUNCH}-missing"}, "The specified principalArn is invalid: invalid principal."),
        ({"principalArn": LAUNCH.replace("role/", "role/path/")}, "invalid principal"),
        ({"principalArn": "arn:aws:sts::123456789012:assumed-role/launch/me"}, "invalid principal"),
        ({"principalArn": "arn:aws:iam::1:role/aws-service-role/a.amazonaws.com/A"}, "Service Linked Role"),
        ({"kubernetesGroups": ["system:masters"]}, "system:masters is invalid, it cannot start with system:"),
        ({"username": "system:admin"}, "The username must not begin with system:"),
        ({"username": "john{{SessionName}}"}, "must include a colon before"),
    ],
)
def test_an_invalid_access_entry_is_refused(eks: Any, changed: dict[str, Any], text: str) -> None:
    with pytest.raises(eks.exceptions.InvalidParameterException, match=text):
        eks.create_access_entry(**{"clusterName": "research", "principalArn": LAUNCH, **changed})


def test_access_policies_are_listed_in_pages(eks: Any) -> None:
    pages = eks.get_paginator("list_access_policies").paginate(PaginationConfig={"PageSize": 2})
    names = [policy["name"] for page in pages for policy in page["accessPolicies"]]
    assert "AmazonEKSClusterAdminPolicy" in names
    assert names == sorted(set(names))


def test_associations_are_created_changed_and_deleted(eks: Any) -> None:
    arn = "arn:aws:iam::123456789012:role/pods"
    key = {"clusterName": "research", "namespace": "training", "serviceAccount": "trainer"}
    made = eks.create_pod_identity_association(**key, roleArn=arn)["association"]
    with pytest.raises(eks.exceptions.ResourceInUseException):
        eks.create_pod_identity_association(**key, roleArn=arn)
    one = {"clusterName": "research", "associationId": made["associationId"]}
    assert eks.describe_pod_identity_association(**one)["association"]["roleArn"] == arn
    listed = eks.list_pod_identity_associations(clusterName="research", namespace="training")["associations"]
    assert [found["associationId"] for found in listed] == [made["associationId"]]
    assert eks.list_pod_identity_associations(clusterName="research", namespace="other")["associations"] == []
    changed = eks.update_pod_identity_association(**one, disableSessionTags=True)["association"]
    assert changed["disableSessionTags"]
    eks.delete_pod_identity_association(**one)
    with pytest.raises(eks.exceptions.ResourceNotFoundException):
        eks.describe_pod_identity_association(**one)


def test_an_operation_that_is_not_built_is_refused(eks: Any) -> None:
    with pytest.raises(ClientError, match="DescribeClusterVersions has not been implemented in localcloud"):
        eks.describe_cluster_versions()


def test_a_role_needs_permissions(eks: Any, client: Clients, cloud: LocalCloud) -> None:
    role(client, "limited", USER_TRUST)
    allowed = [
        {"Action": "eks:DescribeCluster", "Resource": "arn:aws:eks:eu-west-1:123456789012:cluster/research"},
        {"Action": "eks:DescribeAccessEntry", "Resource": "arn:aws:eks:*:*:access-entry/research/*"},
        {"Action": "eks:CreatePodIdentityAssociation", "Resource": "*"},
    ]
    document = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **one} for one in allowed]}
    client("iam").put_role_policy(RoleName="limited", PolicyName="eks", PolicyDocument=json.dumps(document))
    keys = session(client, "limited")
    limited = boto3.client(
        "eks",
        region_name=REGION,
        endpoint_url=cloud.endpoint_url,
        aws_access_key_id=keys.access_key,
        aws_secret_access_key=keys.secret_key,
        aws_session_token=keys.token,
    )
    root = "arn:aws:iam::123456789012:root"
    assert limited.describe_cluster(name="research")["cluster"]["status"] == "ACTIVE"
    assert limited.describe_access_entry(clusterName="research", principalArn=root)["accessEntry"]
    with pytest.raises(ClientError, match=r"perform: eks:DescribeCluster on resource: .*cluster/other"):
        limited.describe_cluster(name="other")
    with pytest.raises(ClientError, match="perform: eks:DeleteAccessEntry on resource"):
        limited.delete_access_entry(clusterName="research", principalArn=root)
    with pytest.raises(ClientError, match="perform: iam:PassRole on resource: arn:aws:iam::123456789012:role/pods"):
        limited.create_pod_identity_association(
            clusterName="research", namespace="a", serviceAccount="b", roleArn="arn:aws:iam::123456789012:role/pods"
        )
