"""Clusters: the address and the certificate authority of an Amazon EKS cluster."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from traingrid.errors import UsageError

if TYPE_CHECKING:
    from traingrid.aws.clients import ActingRole, ClientFactory


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster.

    Attributes:
        endpoint: The URL of its API server.
        authority: The certificates of its authority, in PEM.
        auto_mode: True if it is a cluster of EKS Auto Mode, where EKS provides nodes
            (https://docs.aws.amazon.com/eks/latest/APIReference/API_ComputeConfigResponse.html).
    """

    name: str
    arn: str
    endpoint: str
    authority: str
    auto_mode: bool = False


class NoClusterError(UsageError):
    """The cluster does not exist, or is not active yet."""


def cluster_of(name: str, region: str, make_client: ClientFactory, role: ActingRole | None = None) -> Cluster:
    """Return a cluster, by DescribeCluster.

    Args:
        make_client: Makes the client of EKS.
        role: The role of another account that the process assumes, if the cluster is there.

    Raises:
        NoClusterError: There is no such cluster, or it has no API server yet.
        ClientError: AWS refused the call.
    """
    eks: Any = make_client("eks", region, role)
    try:
        description = eks.describe_cluster(name=name)["cluster"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        command = f"`aws eks list-clusters --region {region}` lists the clusters"
        raise NoClusterError(
            f"There is no EKS cluster {name} in {region}.", f"Fix eks.cluster in grid.yaml and deploy; {command}."
        ) from error
    if not description.get("endpoint"):  # while it is created, it has neither endpoint nor authority
        raise NoClusterError(
            f"The EKS cluster {name} in {region} is {description.get('status', 'not active')}.",
            "Wait until it is ACTIVE.",
        )
    authority = base64.b64decode(description["certificateAuthority"]["data"]).decode()
    return Cluster(
        name=name,
        arn=description["arn"],
        endpoint=description["endpoint"],
        authority=authority,
        auto_mode=bool((description.get("computeConfig") or {}).get("enabled")),
    )
