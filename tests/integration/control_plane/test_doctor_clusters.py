"""Doctor with a cluster of EKS in a local AWS, before and after a person and a deployment give access to it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from localcloud.credentials.environments import user_environment
from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import ACCOUNT
from tests.integration.localcloud.eks.clusters import CLUSTER_TRUST, POD_TRUST, USER_TRUST, role, wanted
from tests.unit.deploy.test_cluster import place
from traingrid import names
from traingrid.aws.clients import client
from traingrid.deploy.checkup import cluster
from traingrid.deploy.checkup.cluster_objects import client_of, objects
from traingrid.deploy.checkup.finding import Finding, Verdict
from traingrid.deploy.checkup.kinds import NAMESPACE, OPERATOR_DEPLOYMENT, ROLE, ROLE_BINDING, SERVICE_ACCOUNT
from traingrid.deploy.cluster_access import access_objects

REGION = "eu-west-1"
WHERE = place()
KINDS = {kind.kind: kind for kind in (NAMESPACE, SERVICE_ACCOUNT, ROLE, ROLE_BINDING)}
PARTS: dict[str, names.Part] = {"child": "launch", "reconciler": "sweep", "guard": "sweep"}


@pytest.fixture(scope="module")
def eks(cloud: LocalCloud) -> Iterator[Any]:
    """A client of EKS, in which the caller is the administrator of a new cluster, and the roles of the grid."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in user_environment(cloud.endpoint_url).items():
            patch.setenv(name, value)
        role(client, "cluster", CLUSTER_TRUST)
        role(client, names.execution_role("grid", REGION), POD_TRUST)
        for name in PARTS:
            role(client, f"grid-{name}", USER_TRUST)
        yield client("eks", REGION)


def checked() -> dict[str, Finding]:
    finding, described = cluster.check_cluster(WHERE)
    found = [finding]
    if described:
        found += [*cluster.preconditions(WHERE, described), *objects(WHERE), *cluster.access(WHERE)]
    return {one.subject: one for one in found}


def verdicts(*wrong: str, unknown: tuple[str, ...] = ()) -> None:
    found = checked()
    assert {what for what, one in found.items() if one.verdict is Verdict.WRONG} == set(wrong)
    assert {what for what, one in found.items() if one.verdict is Verdict.UNKNOWN} == set(unknown)


def test_each_missing_step_is_reported_until_all_are_done(eks: Any) -> None:
    verdicts("cluster research")
    eks.create_cluster(**wanted(client, "research"))
    agent = ("Pod Identity Agent of research",)
    entries = {f"access entry of grid-{name}" for name in PARTS} | {"role of pods in training"}
    groups = {f"permissions of traingrid:grid:{part}" for part in ("launch", "sweep")}
    verdicts("namespace training", "service account jobs", *groups, *entries, unknown=agent)
    kubernetes = client_of(WHERE)
    for made in access_objects("grid", WHERE.settings):
        kubernetes.create(KINDS[made["kind"]], made)
    verdicts(*entries, unknown=agent)
    for name, part in PARTS.items():
        arn = f"arn:aws:iam::{ACCOUNT}:role/grid-{name}"
        group = names.kubernetes_group("grid", part)
        eks.create_access_entry(clusterName="research", principalArn=arn, kubernetesGroups=[group])
    eks.create_pod_identity_association(
        clusterName="research",
        namespace="training",
        serviceAccount="jobs",
        roleArn=names.execution_role_arn("grid", ACCOUNT, REGION),
    )
    verdicts(unknown=agent)
    for level, wrong in (("restricted", ["namespace training"]), ("baseline", [])):
        kubernetes.patch(NAMESPACE, "training", {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}})
        verdicts(*wrong, unknown=agent)
    assert json.dumps([one.reason for one in checked().values()]).count("traingrid:grid:sweep") == 2


def test_the_operator_of_mpi_jobs_is_found_in_any_namespace(eks: Any) -> None:
    settings = {"cluster": "with-operator", "kind": "mpijob"}
    eks.create_cluster(**wanted(client, "with-operator"))
    where = place(regions={REGION: {"eks": settings}})

    def operator() -> Finding:
        return {one.subject: one for one in objects(where)}["mpi-operator"]

    assert operator().reason.startswith("it has no Deployment in the cluster")
    labels = {"app": "mpi-operator"}
    container = {"name": "mpi-operator", "image": "mpioperator/mpi-operator:0.5"}
    made = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "dependencies-mpi-operator"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    client_of(where).create(replace(OPERATOR_DEPLOYMENT, namespace="kube-system"), made)
    assert "dependencies-mpi-operator in kube-system is mpioperator/mpi-operator:0.5" in operator().reason
