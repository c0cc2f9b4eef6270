"""Stacks with clusters, access entries and Pod Identity associations."""

import json
from typing import Any

import pytest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError, WaiterError

from tests.integration.localcloud.eks.clusters import CLUSTER_TRUST, POD_TRUST, REGION, Clients, role, subnets

POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"
LAUNCH = "arn:aws:iam::123456789012:role/launch"
PODS = "arn:aws:iam::123456789012:role/pods"


def resource(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": f"AWS::EKS::{kind}", "Properties": properties}


def entry(**changed: Any) -> dict[str, Any]:
    common = {"ClusterName": "research", "PrincipalArn": LAUNCH, "KubernetesGroups": ["one"]}
    return resource("AccessEntry", **common, **changed)


def association(**changed: Any) -> dict[str, Any]:
    common = {"ClusterName": "research", "Namespace": "training", "ServiceAccount": "trainer", "RoleArn": PODS}
    return resource("PodIdentityAssociation", **common | changed)


def deploy(client: Clients, name: str, resources: dict[str, Any], **outputs: Any) -> dict[str, str]:
    """Create or update a stack; return its outputs."""
    stacks = client("cloudformation", REGION)
    body = json.dumps({"Resources": resources, "Outputs": {key: {"Value": one} for key, one in outputs.items()}})
    try:
        stacks.describe_stacks(StackName=name)
    except ClientError:
        stacks.create_stack(StackName=name, TemplateBody=body)
        stacks.get_waiter("stack_create_complete").wait(StackName=name)
    else:
        stacks.update_stack(StackName=name, TemplateBody=body)
        stacks.get_waiter("stack_update_complete").wait(StackName=name)
    found = stacks.describe_stacks(StackName=name)["Stacks"][0].get("Outputs", [])
    return {output["OutputKey"]: output["OutputValue"] for output in found}


def test_a_stack_creates_updates_and_deletes_a_cluster(client: Clients, cluster: str, user: Credentials) -> None:
    eks = client("eks", REGION)
    wanted = {
        "RoleArn": "arn:aws:iam::123456789012:role/cluster",
        "ResourcesVpcConfig": {"SubnetIds": subnets(client)},
        "AccessConfig": {"AuthenticationMode": "API"},
    }
    outputs = {
        "Name": {"Ref": "C"},
        **{name: {"Fn::GetAtt": ["C", name]} for name in ("Arn", "Endpoint", "CertificateAuthorityData")},
    }
    made = deploy(client, "with-cluster", {"C": resource("Cluster", **wanted)}, **outputs)
    found = eks.describe_cluster(name=made["Name"])["cluster"]
    assert (made["Arn"], made["Endpoint"]) == (found["arn"], found["endpoint"])
    assert made["CertificateAuthorityData"] == found["certificateAuthority"]["data"]
    tagged = {**wanted, "Tags": [{"Key": "team", "Value": "one"}]}
    assert deploy(client, "with-cluster", {"C": resource("Cluster", **tagged)}, **outputs) == made
    assert eks.describe_cluster(name=made["Name"])["cluster"]["tags"] == {"team": "one"}
    role(client, "cluster-2", CLUSTER_TRUST)
    replaced = {**wanted, "RoleArn": "arn:aws:iam::123456789012:role/cluster-2"}
    other = deploy(client, "with-cluster", {"C": resource("Cluster", **replaced)}, **outputs)
    assert other["Name"] != made["Name"]
    assert sorted(eks.list_clusters()["clusters"]) == sorted([cluster, other["Name"]])
    client("cloudformation", REGION).delete_stack(StackName="with-cluster")
    assert eks.list_clusters()["clusters"] == [cluster]


def test_a_stack_changes_an_access_entry_in_place(client: Clients, cluster: str) -> None:
    eks, key = client("eks", REGION), {"clusterName": cluster, "principalArn": LAUNCH}
    view = {"PolicyArn": POLICY, "AccessScope": {"Type": "namespace", "Namespaces": ["a"]}}
    outputs = {"Id": {"Ref": "E"}, "Arn": {"Fn::GetAtt": ["E", "AccessEntryArn"]}}
    made = deploy(client, "entry", {"E": entry(AccessPolicies=[view])}, **outputs)
    assert made["Id"] == f"{LAUNCH}|{cluster}"
    assert [one["policyArn"] for one in eks.list_associated_access_policies(**key)["associatedAccessPolicies"]] == [
        POLICY
    ]
    changed = entry()
    changed["Properties"] |= {"KubernetesGroups": ["two"], "Tags": [{"Key": "team", "Value": "one"}]}
    assert deploy(client, "entry", {"E": changed}, **outputs) == made
    found = eks.describe_access_entry(**key)["accessEntry"]
    assert (found["kubernetesGroups"], found["tags"]) == (["two"], {"team": "one"})
    assert eks.list_associated_access_policies(**key)["associatedAccessPolicies"] == []
    client("cloudformation", REGION).delete_stack(StackName="entry")
    with pytest.raises(eks.exceptions.ResourceNotFoundException):
        eks.describe_access_entry(**key)


def test_another_principal_replaces_an_access_entry(client: Clients, cluster: str) -> None:
    eks, outputs = client("eks", REGION), {"Id": {"Ref": "E"}}
    other = role(client, "sweep", POD_TRUST)
    deploy(client, "replaced", {"E": entry()}, **outputs)
    changed = entry()
    changed["Properties"]["PrincipalArn"] = other
    assert deploy(client, "replaced", {"E": changed}, **outputs) == {"Id": f"{other}|{cluster}"}
    listed = eks.list_access_entries(clusterName=cluster)["accessEntries"]
    assert other in listed
    assert LAUNCH not in listed
    client("cloudformation", REGION).delete_stack(StackName="replaced")


def test_a_stack_changes_an_association_in_place(client: Clients, cluster: str) -> None:
    eks = client("eks", REGION)
    role(client, "pods", POD_TRUST)
    second = role(client, "pods-2", POD_TRUST)
    outputs = {"Id": {"Ref": "A"}, "Short": {"Fn::GetAtt": ["A", "AssociationId"]}}
    made = deploy(client, "association", {"A": association()}, **outputs)
    assert made["Id"] == f"arn:aws:eks:eu-west-1:123456789012:podidentityassociation/{cluster}/{made['Short']}"
    assert deploy(client, "association", {"A": association(RoleArn=second)}, **outputs) == made
    one = {"clusterName": cluster, "associationId": made["Short"]}
    assert eks.describe_pod_identity_association(**one)["association"]["roleArn"] == second
    moved = deploy(client, "association", {"A": association(Namespace="other")}, **outputs)
    assert moved["Short"] != made["Short"]
    client("cloudformation", REGION).delete_stack(StackName="association")
    assert eks.list_pod_identity_associations(clusterName=cluster)["associations"] == []


def test_a_stack_with_an_untrusting_role_fails(client: Clients, cluster: str) -> None:
    role(client, "untrusting", CLUSTER_TRUST)
    arn = "arn:aws:iam::123456789012:role/untrusting"
    with pytest.raises(WaiterError):
        deploy(client, "failing", {"A": association(RoleArn=arn)})
    events = client("cloudformation", REGION).describe_stack_events(StackName="failing")["StackEvents"]
    reasons = [event.get("ResourceStatusReason", "") for event in events]
    assert any("Trust policy of the role provided is invalid" in reason for reason in reasons)


def test_a_deleted_cluster_does_not_keep_its_entries_from_deletion(client: Clients, cluster: str) -> None:
    eks = client("eks", REGION)
    described = eks.describe_cluster(name=cluster)["cluster"]
    request = {"name": "gone", "roleArn": described["roleArn"], "accessConfig": {"authenticationMode": "API"}}
    eks.create_cluster(**request, resourcesVpcConfig={"subnetIds": subnets(client)})
    changed = entry()
    changed["Properties"]["ClusterName"] = "gone"
    deploy(client, "after", {"E": changed})
    eks.delete_cluster(name="gone")
    stacks = client("cloudformation", REGION)
    stacks.delete_stack(StackName="after")
    with pytest.raises(ClientError, match="does not exist"):
        stacks.describe_stacks(StackName="after")
