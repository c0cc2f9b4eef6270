"""Clusters: the state of EKS, by account, Region and name."""

from __future__ import annotations

import base64
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from moto.ec2.models import ec2_backends

from localcloud.eks import access_entries, errors
from localcloud.eks.access_policies import USER_FACING_ROLES, Scope, policy_arn
from localcloud.eks.authorizer import Authorizer
from localcloud.eks.cluster_calls import ClusterCalls
from localcloud.eks.kubeconfig import Kubeconfig
from localcloud.eks.pod_identity import environment
from localcloud.eks.principals import principal
from localcloud.iam.resource_policies import allows_service
from localcloud.iam.roles import trust_of
from localcloud.kubernetes.cluster import RunningCluster
from localcloud.kubernetes.resources import CLUSTER_ROLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localcloud.eks.access_entries import AccessEntry
    from localcloud.eks.pod_identity import Association
    from localcloud.server.local_cloud import LocalCloud

_VERSION = "1.36"
_SERVICE = "eks.amazonaws.com"
OPERATOR_TAG = "localcloud:mpi-operator"
"""A tag of a cluster, which decides whether it has the MPI operator of Kubeflow: unless its value is "none"."""
MODES = ("API", "API_AND_CONFIG_MAP")
"""The authentication modes in which access entries exist."""


@dataclass
class Cluster:
    """A cluster.

    Attributes:
        request: The request of CreateCluster.
        network: The VPC and the subnets.
        plane: Its API and controllers, which run.
        mode: The authentication mode.
        entries: The access entries, by the ARN of the principal.
        associations: The Pod Identity associations, by id.
        created: Time of the creation, in seconds since 1970.
    """

    arn: str
    request: Mapping[str, Any]
    network: dict[str, Any]
    mode: str
    tags: dict[str, str]
    plane: RunningCluster = field(init=False)
    entries: dict[str, AccessEntry] = field(default_factory=dict)
    associations: dict[str, Association] = field(default_factory=dict)
    created: float = field(default_factory=time.time)

    @property
    def name(self) -> str:
        """The name."""
        return str(self.request["name"])

    @property
    def has_auto_mode(self) -> bool:
        """True if EKS provides the nodes (https://docs.aws.amazon.com/eks/latest/userguide/automode.html)."""
        return _is_enabled(self.request, "computeConfig")

    def described(self, status: str = "ACTIVE") -> dict[str, Any]:
        """Return the cluster in the form of DescribeCluster."""
        _, _, _, region, account, _ = self.arn.split(":", 5)
        return {
            "name": self.name,
            "arn": self.arn,
            "createdAt": self.created,
            "version": self.request.get("version") or _VERSION,
            "endpoint": self.plane.address,
            "roleArn": self.request["roleArn"],
            "resourcesVpcConfig": self.network,
            "kubernetesNetworkConfig": {"serviceIpv4Cidr": "172.20.0.0/16", "ipFamily": "ipv4"}
            | {"elasticLoadBalancing": {"enabled": self.has_auto_mode}},
            "logging": {"clusterLogging": []},
            "identity": {"oidc": {"issuer": f"https://oidc.eks.{region}.amazonaws.com/id/{account}{self.name}"}},
            "status": status,
            "certificateAuthority": {"data": base64.b64encode(self.plane.authority).decode()},
            "platformVersion": "eks.1",
            "tags": self.tags,
            "health": {"issues": []},
            "accessConfig": {"authenticationMode": self.mode},
            "deletionProtection": bool(self.request.get("deletionProtection")),
            "computeConfig": {"enabled": False, **(self.request.get("computeConfig") or {})},
            "storageConfig": self.request.get("storageConfig") or {"blockStorage": {"enabled": False}},
        }

    def association_of(self, namespace: str, service_account: str) -> Association | None:
        """Return the association of a service account."""
        account_in_namespace = (namespace, service_account)
        matching = (
            association
            for association in self.associations.values()
            if (association.namespace, association.service_account) == account_in_namespace
        )
        return next(matching, None)


_of_clouds: WeakKeyDictionary[LocalCloud, Clusters] = WeakKeyDictionary()


def running_cluster(cloud: LocalCloud, account: str, region: str, name: str) -> RunningCluster:
    """Return a cluster of a server in this process, for tests that disturb it."""
    return _of_clouds[cloud].of(account, region)[name].plane


class Clusters:
    """The clusters of a server; they end with it."""

    def __init__(self, cloud: LocalCloud) -> None:
        self._cloud = cloud
        _of_clouds[cloud] = self
        self._kubeconfig = Kubeconfig(cloud.data_dir)
        self._kubeconfig.start()
        self._clusters: dict[tuple[str, str], dict[str, Cluster]] = {}
        self._lock = threading.RLock()

    def of(self, account: str, region: str) -> dict[str, Cluster]:
        """Return the clusters of an account in a Region, by name."""
        with self._lock:
            return self._clusters.setdefault((account, region), {})

    def create(self, request: Mapping[str, Any], account: str, region: str, creator: str) -> Cluster:
        """Create a cluster and start it.

        Args:
            request: The request of CreateCluster.
            creator: The ARN of the principal that becomes its administrator; empty for none.

        Raises:
            RefusedError: EKS refuses the request.
        """
        name = str(request["name"])
        clusters = self.of(account, region)
        with self._lock:
            if name in clusters:
                raise errors.in_use(f"Cluster already exists with name: {name}")
            cluster = _valid_cluster(request, account, region)
            if creator:
                entry = access_entries.made(cluster.arn, {"principalArn": creator})
                now = time.time()
                entry.policies[policy_arn("AmazonEKSClusterAdminPolicy")] = Scope((), now, now)
                cluster.entries[creator] = entry
            self._start(cluster, account, region)
            clusters[name] = cluster
            return cluster

    def _start(self, cluster: Cluster, account: str, region: str) -> None:
        cloud, name = self._cloud, cluster.name
        authorizer = Authorizer(cluster.entries, name, cloud.port)
        cluster.plane = RunningCluster(
            cloud,
            name=name,
            region=region,
            account=account,
            admit=authorizer.admit,
            pod_environment=lambda namespace, service_account: environment(
                cluster.association_of(namespace, service_account), cluster.arn, cloud.endpoint_url
            ),
            auto_mode=cluster.has_auto_mode,
            mpi_operator=cluster.tags.get(OPERATOR_TAG) != "none",
            calls=ClusterCalls(cloud.faults, cloud.record, region, name),
        )
        authorizer.store = cluster.plane.store
        for role, rules in USER_FACING_ROLES.items():
            definition = {"apiVersion": CLUSTER_ROLE.api_version, "kind": "ClusterRole", "metadata": {"name": role}}
            authorizer.store.create(CLUSTER_ROLE, "", {**definition, "rules": [dict(rule) for rule in rules]})
        cluster.plane.start()
        self._kubeconfig.add(cluster.described())

    def delete(self, cluster: Cluster) -> None:
        """Stop a cluster and forget it."""
        if cluster.request.get("deletionProtection"):
            raise errors.invalid_request(f"Cluster {cluster.name} has deletion protection enabled")
        _, _, _, region, account, _ = cluster.arn.split(":", 5)
        with self._lock:
            self.of(account, region).pop(cluster.name, None)
            self._kubeconfig.remove(cluster.arn)
        cluster.plane.stop()

    def stop_all(self) -> None:
        """Stop every cluster."""
        with self._lock:
            running = [cluster for clusters in self._clusters.values() for cluster in clusters.values()]
            self._clusters.clear()
        for cluster in running:
            cluster.plane.stop()


def _valid_cluster(request: Mapping[str, Any], account: str, region: str) -> Cluster:
    """Return the cluster of a valid request; it does not run yet."""
    arn = f"arn:aws:eks:{region}:{account}:cluster/{request['name']}"
    role = str(request["roleArn"])
    role_principal = principal(role)
    if not role_principal or role_principal.kind != "role" or not _is_trusted(role_principal.name, account, arn):
        # the text: https://github.com/terraform-aws-modules/terraform-aws-eks/issues/2406
        text = "could not be assumed because it does not exist or the trusted entity is not correct"
        raise errors.invalid_parameter(f"Role with arn: {role}, {text}")
    access = request.get("accessConfig") or {}
    mode = access.get("authenticationMode") or "CONFIG_MAP"
    if mode == "CONFIG_MAP" and access.get("bootstrapClusterCreatorAdminPermissions") is False:
        # the text: https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3026
        text = "must be true if cluster authentication mode is set to CONFIG_MAP"
        raise errors.invalid_parameter(f"bootstrapClusterCreatorAdminPermissions {text}")
    parts = ("computeConfig",), ("kubernetesNetworkConfig", "elasticLoadBalancing"), ("storageConfig", "blockStorage")
    if len({_is_enabled(request, *path) for path in parts}) > 1:
        # the text: https://github.com/kubernetes-sigs/cluster-api-provider-aws/issues/5278
        text = "including computeConfig, kubernetesNetworkConfig, and blockStorage are all either fully enabled or"
        ensure = "For EKS Auto Mode, please ensure that all required configs"
        raise errors.invalid_parameter(f"{ensure}, {text} fully disabled.")
    network = _network(request["resourcesVpcConfig"], account, region)
    return Cluster(arn=arn, request=request, network=network, mode=mode, tags=dict(request.get("tags") or {}))


def _is_enabled(request: Mapping[str, Any], *path: str) -> bool:
    """Return True if a part of a request is enabled."""
    part: Any = request
    for name in path:
        part = part.get(name) or {}
    return bool(part.get("enabled"))


def _is_trusted(role: str, account: str, cluster_arn: str) -> bool:
    return allows_service(trust_of(role, account), "sts:AssumeRole", _SERVICE, cluster_arn)


def _network(settings: Mapping[str, Any], account: str, region: str) -> dict[str, Any]:
    """Return the network of a cluster, which needs subnets in two zones.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
    """
    subnets = {subnet.id: subnet for subnet in ec2_backends[account][region].describe_subnets()}
    names = list(settings.get("subnetIds") or [])
    if missing := [name for name in names if name not in subnets]:
        raise errors.invalid_parameter(f"The subnet ID '{missing[0]}' does not exist")
    if len({subnets[name].availability_zone for name in names}) < 2:  # two zones
        raise errors.invalid_parameter("Subnets specified must be in at least two different AZs")
    return {
        "subnetIds": names,
        "securityGroupIds": list(settings.get("securityGroupIds") or []),
        "vpcId": subnets[names[0]].vpc_id,
        "endpointPublicAccess": settings.get("endpointPublicAccess", True),
        "endpointPrivateAccess": settings.get("endpointPrivateAccess", False),
        "publicAccessCidrs": settings.get("publicAccessCidrs") or ["0.0.0.0/0"],
    }
