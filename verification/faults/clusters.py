"""Clusters of the faulty grid: one in every Region, with the access of the grid."""

import json
from collections.abc import Mapping

from localcloud.eks.clusters import running_cluster
from localcloud.kubernetes.cluster import RunningCluster
from localcloud.server.local_cloud import LocalCloud
from localcloud.server.new_cluster import new_cluster
from localcloud.server.state_file import Running
from traingrid import names
from traingrid.aws.clients import client
from traingrid.deploy.cluster_access import access_objects
from traingrid.grid.deployment import Deployment
from verification.faults.account import ACCOUNT, OPERATORS

CLUSTER = "research"


def create_clusters(cloud: LocalCloud, regions: tuple[str, ...]) -> None:
    """Create a cluster in every Region, as its owner does before a grid is deployed."""
    _create_operators()
    server = Running(pid=0, endpoint=cloud.endpoint_url, data_dir=str(cloud.data_dir), secret=cloud.secret)
    for region in regions:
        new_cluster(server, CLUSTER, region, with_operator=True)
        client("eks", region).create_access_entry(
            clusterName=CLUSTER,
            principalArn=f"arn:aws:iam::{ACCOUNT}:role/{OPERATORS}",
            kubernetesGroups=[names.kubernetes_group("grid", "use")],
        )


def _create_operators() -> None:
    """Create the role of the persons who use the grid, because access entries only exist for existing roles."""
    everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    trust = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "sts:AssumeRole"}
    iam = client("iam", "us-east-1")
    iam.create_role(RoleName=OPERATORS, AssumeRolePolicyDocument=_document(trust))
    iam.put_role_policy(RoleName=OPERATORS, PolicyName="everything", PolicyDocument=_document(everything))


def _document(statement: Mapping[str, object]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def grant_access(cloud: LocalCloud, deployment: Deployment) -> None:
    """Apply the objects of `traingrid eks access` to every cluster, as its owner does."""
    for region, settings in deployment.grid.regions.items():
        if settings.eks is None:
            continue
        cluster = cluster_in(cloud, region)
        served = {(api_resource.api_version, api_resource.kind): api_resource for api_resource in cluster.api.resources}
        for definition in access_objects(deployment.grid.name, settings.eks):
            resource = served[definition["apiVersion"], definition["kind"]]
            cluster.client.create(resource, definition["metadata"].get("namespace", ""), definition)


def cluster_in(cloud: LocalCloud, region: str) -> RunningCluster:
    """Return the cluster of a Region."""
    return running_cluster(cloud, ACCOUNT, region, CLUSTER)
