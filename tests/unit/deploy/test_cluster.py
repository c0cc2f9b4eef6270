"""EKS clusters: doctor finds what prevents a grid from using a cluster, with the command that fixes it."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from traingrid.aws.clients import ActingRole
from traingrid.deploy.checkup import cluster
from traingrid.deploy.checkup.cluster import CheckedCluster
from traingrid.deploy.checkup.finding import REVERT_DRIFT, Finding, Verdict
from traingrid.grid.model import GridSettings

ACCOUNT, REGION, LATEST = "123456789012", "eu-west-1", "1.33"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/"
GOOD: dict[str, Any] = {
    "status": "ACTIVE",
    "version": LATEST,
    "resourcesVpcConfig": {"endpointPublicAccess": True, "publicAccessCidrs": ["0.0.0.0/0"]},
    "accessConfig": {"authenticationMode": "API"},
}
ACTING = ActingRole(arn=f"{ROLE}grid-use-{REGION}", session="doctor", home="us-east-1")


class Eks:
    """The reads of EKS's API."""

    def __init__(self) -> None:
        self.cluster: dict[str, Any] | None = dict(GOOD)
        self.addon = "ACTIVE"
        self.entries = {f"{ROLE}grid-{name}": [f"traingrid:grid:{part}"] for name, part in PARTS.items()}
        self.roles = {("training", "jobs"): f"{ROLE}grid-execution-{REGION}"}

    def describe_cluster(self, *, name: str) -> dict[str, Any]:
        return {"cluster": _found(self.cluster if name == "research" else None)}

    def describe_addon(self, **asked: str) -> dict[str, Any]:
        assert asked == {"clusterName": "research", "addonName": "eks-pod-identity-agent"}
        return {"addon": {"status": _found(self.addon or None)}}

    def describe_access_entry(self, *, clusterName: str, principalArn: str) -> dict[str, Any]:  # noqa: N803 - the names of EKS
        assert clusterName == "research"
        return {"accessEntry": {"kubernetesGroups": _found(self.entries.get(principalArn))}}

    def list_pod_identity_associations(self, **asked: str) -> dict[str, Any]:
        place = asked["namespace"], asked["serviceAccount"]
        return {"associations": [{"associationId": "a-1"}] if place in self.roles else []}

    def describe_pod_identity_association(self, **asked: str) -> dict[str, Any]:
        assert asked == {"clusterName": "research", "associationId": "a-1"}
        return {"association": {"roleArn": next(iter(self.roles.values()))}}


PARTS = {"child": "launch", "reconciler": "sweep", "guard": "sweep"}
ACTING_PARTS = ("launch", "sweep", "use")


def _found(one: Any) -> Any:
    if one is None:
        raise ClientError({"Error": {"Code": "ResourceNotFoundException", "Message": "none"}}, "Describe")
    return one


@pytest.fixture
def eks(monkeypatch: pytest.MonkeyPatch) -> Eks:
    found = Eks()
    monkeypatch.setattr(cluster, "client", lambda *_: found)
    return found


def place(role: ActingRole | None = None, **changes: Any) -> CheckedCluster:
    settings = {"cluster": "research", "namespace": "training", "service_account": "jobs"}
    described = {
        "name": "grid",
        "home": "us-east-1",
        "regions": {REGION: {"eks": settings}},
        "images": {"resnet": {"repository": "training", "tag": "1"}},
        "job": {"image": "resnet", "instance_type": "ml.g5.48xlarge"},
    }
    found = CheckedCluster.of(GridSettings.model_validate({**described, **changes}), ACCOUNT, REGION, role)
    assert found
    return found


def checked(where: CheckedCluster) -> dict[str, Finding]:
    finding, described = cluster.check_cluster(where)
    others = [*cluster.preconditions(where, described), *cluster.access(where)] if described else []
    return {found.subject: found for found in (finding, *others)}


def test_a_cluster_that_fits_is_good(eks: Eks) -> None:
    found = checked(place())
    assert {one.verdict for one in found.values()} == {Verdict.GOOD}
    assert {one.region for one in found.values()} == {REGION}
    assert list(found) == [
        "cluster research",
        "endpoint of research",
        "authentication mode of research",
        "Pod Identity Agent of research",
        *(f"access entry of grid-{name}" for name in PARTS),
        "role of pods in training",
    ]


def test_without_the_cluster_nothing_more_is_checked(eks: Eks) -> None:
    eks.cluster = None
    assert checked(place()) == {
        "cluster research": Finding(
            region=REGION,
            subject="cluster research",
            verdict=Verdict.WRONG,
            reason="does not exist",
            fix="create it, or correct `cluster` in `eks` of eu-west-1 in grid.yaml",
        )
    }


@pytest.mark.parametrize(
    ("changes", "what", "why", "fix"),
    [
        ({"status": "CREATING"}, "cluster research", "its status is CREATING", "aws eks wait cluster-active"),
        (
            {"version": "1.27"},
            "cluster research",
            "version is 1.27, but pods need the sidecars of 1.29",
            "version 1.28,",
        ),
        (
            {"resourcesVpcConfig": {"endpointPublicAccess": False, "endpointPrivateAccess": True}},
            "endpoint of research",
            "the reconciler, which runs outside of your networks, cannot reach it",
            "--region eu-west-1 --name research --resources-vpc-config endpointPublicAccess=true",
        ),
        (
            {"resourcesVpcConfig": {"endpointPublicAccess": True, "publicAccessCidrs": ["203.0.113.0/24"]}},
            "endpoint of research",
            "public for 203.0.113.0/24 only, so that the reconciler",
            "publicAccessCidrs=0.0.0.0/0",
        ),
        (
            {"accessConfig": {"authenticationMode": "CONFIG_MAP"}},
            "authentication mode of research",
            "CONFIG_MAP has no access entries",
            "--access-config authenticationMode=API_AND_CONFIG_MAP",
        ),
        ({"accessConfig": None}, "authentication mode of research", "CONFIG_MAP", "authenticationMode"),
    ],
)
def test_a_cluster_that_does_not_fit_is_wrong(eks: Eks, changes: dict[str, Any], what: str, why: str, fix: str) -> None:
    eks.cluster = GOOD | changes
    found = checked(place())
    assert [name for name, one in found.items() if one.verdict is Verdict.WRONG] == [what]
    assert why in found[what].reason
    assert fix in found[what].fix


@pytest.mark.parametrize(
    ("reconciler", "endpoint", "why"),
    [
        (False, {}, "public; not checked: children need a route from your network to it"),
        (True, {}, "public; not checked: children and the reconciler need a route from your network to it"),
        (True, {"endpointPublicAccess": False}, "private; not checked: children and the reconciler need a route"),
        (True, {"publicAccessCidrs": ["203.0.113.0/24"]}, "public for 203.0.113.0/24 only; not checked: children and"),
    ],
)
def test_the_route_from_your_network_is_not_checked(
    eks: Eks, reconciler: bool, endpoint: dict[str, Any], why: str
) -> None:
    eks.cluster = GOOD | {"resourcesVpcConfig": {"endpointPublicAccess": True} | endpoint}
    network = {"kind": "existing", "vpc": "vpc-0a1b2c3d", "subnets": ["subnet-0a1b2c3d", "subnet-0a1b2c3e"]}
    found = checked(place(network=network | {"reconciler": reconciler}))["endpoint of research"]
    assert (found.verdict, found.fix) == (Verdict.UNKNOWN, "")
    assert found.reason.startswith(why)


def test_the_agent_is_an_add_on_or_part_of_auto_mode(eks: Eks) -> None:
    eks.addon = ""
    found = checked(place())["Pod Identity Agent of research"]
    assert found.verdict is Verdict.WRONG
    assert found.fix == (
        "aws eks create-addon --region eu-west-1 --cluster-name research --addon-name eks-pod-identity-agent"
    )
    eks.cluster = GOOD | {"computeConfig": {"enabled": True}}
    assert checked(place())["Pod Identity Agent of research"].reason == "built into EKS Auto Mode"
    eks.cluster, eks.addon = GOOD, "DEGRADED"
    assert "DEGRADED" in checked(place())["Pod Identity Agent of research"].reason


def test_a_missing_or_changed_entry_is_restored_by_a_deployment(eks: Eks) -> None:
    del eks.entries[f"{ROLE}grid-guard"]
    eks.entries[f"{ROLE}grid-reconciler"] = ["traingrid:grid:launch"]
    found = checked(place())
    guard, reconciler = found["access entry of grid-guard"], found["access entry of grid-reconciler"]
    assert (guard.reason, guard.fix) == ("does not exist", REVERT_DRIFT)
    assert reconciler.reason == "it has traingrid:grid:launch instead of traingrid:grid:sweep"
    assert found["access entry of grid-child"].verdict is Verdict.GOOD


def test_pods_must_have_the_execution_role(eks: Eks) -> None:
    eks.roles[("training", "jobs")] = f"{ROLE}other"
    assert f"it is {ROLE}other instead of" in checked(place())["role of pods in training"].reason
    eks.roles = {("training", "default"): f"{ROLE}grid-execution-{REGION}"}
    found = checked(place())["role of pods in training"]
    assert (found.verdict, found.fix) == (Verdict.WRONG, REVERT_DRIFT)
    assert found.reason == "the service account jobs has no Pod Identity association"


def test_in_another_account_the_acting_roles_have_the_entries(eks: Eks) -> None:
    eks.entries = {f"{ROLE}grid-{part}-{REGION}": [f"traingrid:grid:{part}"] for part in ACTING_PARTS}
    found = checked(place(ACTING))
    assert {one.verdict for one in found.values()} == {Verdict.GOOD}
    assert {what for what in found if "entry" in what} == {
        f"access entry of grid-{part}-{REGION}" for part in ACTING_PARTS
    }
    del eks.entries[f"{ROLE}grid-use-{REGION}"]
    found = checked(place(ACTING))
    users = found[f"access entry of grid-use-{REGION}"]
    assert (users.verdict, users.reason, users.fix) == (Verdict.WRONG, "does not exist", REVERT_DRIFT)


def test_a_denied_check_names_the_permission(eks: Eks, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(**_: str) -> None:
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "DescribeCluster")

    monkeypatch.setattr(eks, "describe_cluster", denied)
    (found,) = checked(place()).values()
    assert (found.verdict, found.fix) == (Verdict.UNKNOWN, "allow the caller eks:DescribeCluster")


def test_a_region_without_a_cluster_has_no_place() -> None:
    assert (
        CheckedCluster.of(
            place(regions={REGION: {"eks": {"cluster": "x"}}, "us-west-2": None}).grid, ACCOUNT, "us-west-2"
        )
        is None
    )
