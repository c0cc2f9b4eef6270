"""Clusters of the faulty grid: one in every Region, with the access of the grid."""

from localcloud.eks.clusters import running_cluster
from localcloud.kubernetes.cluster import RunningCluster
from localcloud.server.local_cloud import LocalCloud
from localcloud.server.new_cluster import new_cluster
from localcloud.server.state_file import Running
from traingrid.deploy.cluster_access import access_objects
from traingrid.grid.deployment import Deployment
from verification.faults.account import ACCOUNT

CLUSTER = "research"


def create_clusters(cloud: LocalCloud, regions: tuple[str, ...]) -> None:
    """Create a cluster in every Region, as its owner does before a grid is deployed."""
    server = Running(pid=0, endpoint=cloud.endpoint_url, data_dir=str(cloud.data_dir), secret=cloud.secret)
    for region in regions:
        new_cluster(server, CLUSTER, region, with_operator=True)


def grant_access(cloud: LocalCloud, deployment: Deployment) -> None:
    """Apply the objects of `traingrid eks access` to every cluster, as its owner does."""
    for region, settings in deployment.grid.regions.items():
        if settings.eks is None:
            continue
        cluster = cluster_in(cloud, region)
        served = {(one.api_version, one.kind): one for one in cluster.api.resources}
        for made in access_objects(deployment.grid.name, settings.eks):
            resource = served[made["apiVersion"], made["kind"]]
            cluster.client.create(resource, made["metadata"].get("namespace", ""), made)


def cluster_in(cloud: LocalCloud, region: str) -> RunningCluster:
    """Return the cluster of a Region."""
    return running_cluster(cloud, ACCOUNT, region, CLUSTER)
