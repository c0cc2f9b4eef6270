"""A grid with EKS clusters: the resources of the deployment in them, and the roles that may find and use them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.stacks.templates import Template, a_grid, actions, flat, on, only, resources, synthesise
from traingrid import names

HOME, OTHER = "123456789012", "210987654321"
ENTRY, ASSOCIATION = "AWS::EKS::AccessEntry", "AWS::EKS::PodIdentityAssociation"
REGIONS: dict[str, Any] = {
    "us-east-1": {"eks": {"cluster": "research"}},
    "us-west-2": None,
    "eu-west-1": {"account": OTHER, "eks": {"cluster": "gpus", "namespace": "training", "service_account": "jobs"}},
}


@pytest.fixture(scope="module")
def made(layer: Path) -> dict[str, Template]:
    return synthesise(a_grid(REGIONS, account=HOME), layer)


def entries(template: Template) -> dict[str, tuple[str, list[str]]]:
    """Return the cluster and the groups of each access entry, by its principal."""
    found = (entry["Properties"] for entry in resources(template, ENTRY).values())
    return {flat(one["PrincipalArn"]): (one["ClusterName"], one["KubernetesGroups"]) for one in found}


def test_the_control_planes_roles_have_one_group_each_in_a_cluster_of_their_account(made: dict[str, Template]) -> None:
    role = "arn:aws:iam::<AWS::AccountId>:role/traingrid-"
    assert entries(made["traingrid-us-east-1"]) == {
        f"{role}child": ("research", ["traingrid:traingrid:launch"]),
        f"{role}reconciler": ("research", ["traingrid:traingrid:sweep"]),
        f"{role}guard": ("research", ["traingrid:traingrid:sweep"]),
    }


def test_the_named_roles_exist(made: dict[str, Template]) -> None:
    control = resources(made["traingrid-control"], "AWS::IAM::Role").values()
    named = {role["Properties"].get("RoleName") for role in control}
    assert {principal.rpartition("/")[2] for principal in entries(made["traingrid-us-east-1"])} <= named


def test_in_another_account_its_own_roles_have_the_groups(made: dict[str, Template]) -> None:
    template = made["traingrid-eu-west-1"]
    roles = resources(template, "AWS::IAM::Role")
    found = {
        roles[principal.strip("<>").partition(".")[0]]["Properties"]["RoleName"]: groups
        for principal, (_, groups) in entries(template).items()
    }
    assert found == {
        f"traingrid-{part}-eu-west-1": [f"traingrid:traingrid:{part}"] for part in ("launch", "sweep", "use")
    }


def test_no_entry_has_a_policy_or_a_username(made: dict[str, Template]) -> None:
    allowed = {"ClusterName", "PrincipalArn", "KubernetesGroups", "Tags"}
    for template in made.values():
        for entry in resources(template, ENTRY).values():
            assert set(entry["Properties"]) == allowed


def test_only_pods_of_the_named_service_account_get_the_execution_role(made: dict[str, Template]) -> None:
    for region, place in (
        ("us-east-1", ["research", "traingrid", "traingrid"]),
        ("eu-west-1", ["gpus", "training", "jobs"]),
    ):
        template = made[f"traingrid-{region}"]
        association = only(template, ASSOCIATION)
        role = template["Resources"][association["RoleArn"]["Fn::GetAtt"][0]]["Properties"]
        assert role["RoleName"] == names.execution_role("traingrid", region)
        assert [association[key] for key in ("ClusterName", "Namespace", "ServiceAccount")] == place
        assert "DisableSessionTags" not in association
        _, pods = role["AssumeRolePolicyDocument"]["Statement"]
        assert pods["Principal"] == {"Service": "pods.eks.amazonaws.com"}
        assert pods["Action"] == ["sts:AssumeRole", "sts:TagSession"]
        compared = {key.partition("/")[2]: flat(value) for key, value in pods["Condition"]["StringEquals"].items()}
        assert compared == {
            "eks-cluster-arn": f"arn:aws:eks:{region}:<AWS::AccountId>:cluster/{place[0]}",
            "kubernetes-namespace": place[1],
            "kubernetes-service-account": place[2],
        }


def test_a_region_without_a_cluster_is_as_before(made: dict[str, Template], oregon: Template) -> None:
    template = made["traingrid-us-west-2"]
    assert not resources(template, ENTRY) | resources(template, ASSOCIATION)
    (trust,) = resources(oregon, "AWS::IAM::Role")["ExecutionRole829ADBFF"]["Properties"]["AssumeRolePolicyDocument"][
        "Statement"
    ]
    assert trust["Principal"] == {"Service": "sagemaker.amazonaws.com"}


def test_pods_may_delete_only_checkpoints(made: dict[str, Template]) -> None:
    (arn,) = on(made["traingrid-us-east-1"], "ExecutionRole", "s3:DeleteObject")
    assert arn.endswith(".Arn>/*/checkpoints/*")
    assert not on(made["traingrid-us-west-2"], "ExecutionRole", "s3:DeleteObject")


def test_roles_may_find_the_clusters_of_their_account_and_do_nothing_else_with_eks(made: dict[str, Template]) -> None:
    control, there = made["traingrid-control"], made["traingrid-eu-west-1"]
    for role in ("OrchestratorRole", "ReconcilerSweepRole", "GuardAnswerRole"):
        assert on(control, role, "eks:DescribeCluster") == {"arn:aws:eks:us-east-1:<AWS::AccountId>:cluster/research"}
        assert {action for action in actions(control, role) if action.startswith("eks")} == {"eks:DescribeCluster"}
    for part in ("Launch", "Sweep", "Use"):
        found = on(there, f"Acting{part}", "eks:DescribeCluster")
        assert found == {"arn:aws:eks:eu-west-1:<AWS::AccountId>:cluster/gpus"}
    for template in made.values():
        for role in resources(template, "AWS::IAM::Role"):
            others = actions(template, role) - {"eks:DescribeCluster"}
            reads = ("eks:Describe", "eks:List")
            assert all(action.startswith(reads) for action in others if action.startswith("eks"))


def test_children_know_the_image_that_they_run_for_pods(made: dict[str, Template]) -> None:
    container = only(made["traingrid-control"], "AWS::Batch::JobDefinition")["ContainerProperties"]
    environment = {variable["Name"]: variable["Value"] for variable in container["Environment"]}
    assert environment["TRAINGRID_POD_IMAGE"] == container["Image"]
    functions = resources(made["traingrid-control"], "AWS::Lambda::Function").values()
    assert not [one for one in functions if "TRAINGRID_POD_IMAGE" in json.dumps(one)]


def test_without_clusters_no_template_mentions_eks(templates: Callable[[int], dict[str, Template]]) -> None:
    text = json.dumps(templates(4))
    for word in ("TRAINGRID_POD_IMAGE", "AWS::EKS", "eks:DescribeCluster", "pods.eks"):
        assert word not in text


def test_nodes_of_another_account_may_only_pull_the_orchestrators_image(made: dict[str, Template]) -> None:
    policies = {
        repository["Properties"]["RepositoryName"]: repository["Properties"].get("RepositoryPolicyText")
        for repository in resources(made["traingrid-images"], "AWS::ECR::Repository").values()
    }
    (statement,) = policies.pop("traingrid/orchestrator")["Statement"]
    assert flat(statement["Principal"]["AWS"]) == f"arn:aws:iam::{OTHER}:root"
    assert set(statement["Action"]) == {
        f"ecr:{action}" for action in ("BatchCheckLayerAvailability", "BatchGetImage", "GetDownloadUrlForLayer")
    }
    assert set(policies.values()) == {None}


def test_an_account_without_a_cluster_may_not_pull_it(layer: Path) -> None:
    grid = a_grid({"us-east-1": {"eks": {"cluster": "research"}}, "eu-west-1": {"account": OTHER}}, account=HOME)
    images = synthesise(grid, layer)["traingrid-images"]
    assert "RepositoryPolicyText" not in json.dumps(images)


def test_the_region_guard_compares_the_place_of_pods(made: dict[str, Template]) -> None:
    (question,) = resources(made["traingrid-control"], names.REGIONS_QUESTION).values()
    places = {"us-east-1": "research/traingrid/traingrid", "eu-west-1": "gpus/training/jobs"}
    assert question["Properties"]["Clusters"] == places


def test_outputs_name_the_place_of_pods(made: dict[str, Template]) -> None:
    assert made["traingrid-eu-west-1"]["Outputs"]["Cluster"]["Value"] == "gpus/training/jobs"


@pytest.mark.parametrize("other", [{}, {"us-west-2": None}])
def test_children_in_a_private_network_need_a_route_to_a_cluster(other: dict[str, Any]) -> None:
    """With other Regions, the network has a NAT gateway (stacks/network.py)."""
    regions = {"us-east-1": {"eks": {"cluster": "research"}}, **other}
    if other:
        assert a_grid(regions, network="private").regions["us-east-1"].eks
        return
    with pytest.raises(ValueError, match="no route to the API of an EKS cluster"):
        a_grid(regions, network="private")
