"""EKS clusters: checks that a Region's cluster can run training jobs, and that the grid and its pods have access."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from traingrid import names
from traingrid.aws.clients import client
from traingrid.deploy.checkup.finding import REVERT_DRIFT, Finding, Verdict, run_check
from traingrid.kubernetes.commands import Commands

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from traingrid.aws.clients import ActingRole
    from traingrid.deploy.checkup.needs import ClusterField, ClusterNeed
    from traingrid.grid.eks import EksCluster
    from traingrid.grid.model import GridSettings
    from traingrid.names import Part

MIN_VERSION = (1, 29)
"""The first version that starts a sidecar, which uploads results after the training has ended, without a feature gate
(https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/)."""
_ADMINISTRATOR = "as an administrator of the cluster"
_ANYWHERE = "0.0.0.0/0"
_WITH_ENTRIES = ("API", "API_AND_CONFIG_MAP")
"""The authentication modes with access entries (https://docs.aws.amazon.com/eks/latest/userguide/setting-up-access-entries.html)."""
_NOT_FOUND = "ResourceNotFoundException"
Described = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class CheckedCluster:
    """A cluster that is checked, with its grid and Region.

    Attributes:
        settings: The Region's `eks` section.
        needs: The kinds and queues that lines of a manifest require of the cluster.
    """

    grid: GridSettings
    settings: EksCluster
    account: str
    region: str
    role: ActingRole | None = None
    needs: Sequence[ClusterNeed] = ()

    @classmethod
    def of(
        cls,
        grid: GridSettings,
        account: str,
        region: str,
        role: ActingRole | None = None,
        needs: Iterable[ClusterNeed] = (),
    ) -> CheckedCluster | None:
        """Return the cluster of a Region; None for a Region without `eks`.

        Args:
            needs: The kinds and queues that lines of a manifest require of all clusters.
        """
        settings = grid.regions[region].eks
        if settings is None:
            return None
        needs_of_region = tuple(need for need in needs if need.region == region)
        return cls(grid=grid, settings=settings, account=account, region=region, role=role, needs=needs_of_region)

    def required(self, field: ClusterField) -> dict[str, str]:
        """Return the values of a field that training jobs have, each with the place where it is set."""
        name: str | None = getattr(self.settings, field)
        source_by_name = {name: f"`{field}` in `eks` of {self.region}"} if name else {}
        for need in self.needs:
            if need.field == field:
                source_by_name.setdefault(need.value, f"`eks_{field}` of line {need.line}")
        return source_by_name

    @property
    def commands(self) -> Commands:
        """The commands of users for the cluster."""
        return Commands(self.region, self.settings.cluster)

    def kubectl(self, arguments: str) -> str:
        """Return a command of kubectl for this cluster, after the one that adds its context."""
        return self._command_in_context(self.commands.kubectl(arguments))

    def as_administrator(self, arguments: str) -> str:
        """Return such a command for an administrator of the cluster."""
        return f"{_ADMINISTRATOR}: {self.kubectl(arguments)}"

    @property
    def apply_access(self) -> str:
        """The command that creates the namespace and the permissions of the grid."""
        return f"{_ADMINISTRATOR}: {self._command_in_context(self.commands.apply_access)}"

    def _command_in_context(self, command: str) -> str:
        return f"{self.commands.kubeconfig} && {command}"

    def finding(self, subject: str, verdict: Verdict = Verdict.GOOD, reason: str = "", fix: str = "") -> Finding:
        """Return a finding about the cluster or an object in it."""
        return Finding(region=self.region, subject=subject, verdict=verdict, reason=reason, fix=fix)

    def principals(self) -> dict[str, Part]:
        """Return the roles that must have an access entry, and the part that each has.

        They do not depend on the caller, who may be a user of the other account and assume no role.
        """
        if self.role or self.region in self.grid.other_accounts():
            parts: tuple[Part, ...] = ("launch", "sweep", "use")
            return {names.acting_role(self.grid.name, part, self.region): part for part in parts}
        return {
            names.home_role(self.grid.name, "launch"): "launch",
            names.home_role(self.grid.name, "sweep"): "sweep",
            names.guard_role(self.grid.name): "sweep",
        }


def check_cluster(cluster: CheckedCluster) -> tuple[Finding, Described]:
    """Check that the cluster exists, is active and new enough; also return its description, empty if unknown."""
    description: Described = {}
    subject = f"cluster {cluster.settings.cluster}"

    def look() -> Finding:
        try:
            description.update(
                client("eks", cluster.region, cluster.role).describe_cluster(name=cluster.settings.cluster)["cluster"]
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != _NOT_FOUND:
                raise
            fix = f"create it, or correct `cluster` in `eks` of {cluster.region} in grid.yaml"
            return cluster.finding(subject, Verdict.WRONG, "does not exist", fix)
        return _usable(cluster, subject, description)

    return run_check(cluster.region, subject, look, "eks:DescribeCluster"), description


def _usable(cluster: CheckedCluster, subject: str, description: Mapping[str, Any]) -> Finding:
    version, status = description.get("version", ""), description.get("status", "")
    if status not in ("ACTIVE", "UPDATING"):
        wait = f"`aws eks wait cluster-active {cluster.commands.options}`"
        fix = f"wait for it ({wait}), or find the cause in the console of EKS"
        return cluster.finding(subject, Verdict.WRONG, f"its status is {status}", fix)
    if version and _numbers(version) < MIN_VERSION:
        least = ".".join(map(str, MIN_VERSION))
        major, minor = _numbers(version)
        command = f"aws eks update-cluster-version {cluster.commands.options} --kubernetes-version {major}.{minor + 1}"
        reason = f"its version is {version}, but pods need the sidecars of {least}"
        return cluster.finding(subject, Verdict.WRONG, reason, f"{command}, one version after the other until {least}")
    return cluster.finding(subject, reason=f"{status}, version {version}")


def _numbers(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor)


def preconditions(cluster: CheckedCluster, description: Mapping[str, Any]) -> Iterator[Finding]:
    """Check the settings of a cluster that a deployment and its functions require.

    Args:
        description: Its description by EKS.
    """
    yield _endpoint(cluster, description.get("resourcesVpcConfig") or {})
    yield _authentication_mode(cluster, (description.get("accessConfig") or {}).get("authenticationMode", "CONFIG_MAP"))
    yield run_check(
        cluster.region, _agent(cluster), partial(_pod_identity_agent, cluster, description), "eks:DescribeAddon"
    )


def _endpoint(cluster: CheckedCluster, network: Mapping[str, Any]) -> Finding:
    """Check that all processes of the grid can reach the API, as far as the cluster's settings decide about it.

    The reconciler is a function without a VPC unless `network.reconciler` is set, and children have changing public
    addresses unless they are in your network or behind a gateway
    (https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html).
    """
    subject = f"endpoint of {cluster.settings.cluster}"
    change = f"aws eks update-cluster-config {cluster.commands.options}"
    admitted = network.get("publicAccessCidrs") or [_ANYWHERE]
    kind = "private" if not network.get("endpointPublicAccess", True) else "public"
    if kind == "public" and _ANYWHERE not in admitted:
        kind += f" for {', '.join(admitted)} only"
    if kind != "public" and not cluster.grid.network.reconciler:
        setting = "endpointPublicAccess=true" if kind == "private" else f"publicAccessCidrs={_ANYWHERE}"
        reason = f"{kind}, so that the reconciler, which runs outside of your networks, cannot reach it"
        fix = f"set `reconciler: true` in an existing `network`, or: {change} --resources-vpc-config {setting}"
        return cluster.finding(subject, Verdict.WRONG, reason, fix)
    if cluster.grid.network.kind == "existing":
        callers = "children and the reconciler" if cluster.grid.network.reconciler else "children"
        reason = (
            f"{kind}; not checked: {callers} need a route from your network to it, and to the API of EKS in this Region"
        )
        return cluster.finding(subject, Verdict.UNKNOWN, reason)
    return cluster.finding(subject, reason=kind)


def _authentication_mode(cluster: CheckedCluster, mode: str) -> Finding:
    subject = f"authentication mode of {cluster.settings.cluster}"
    if mode in _WITH_ENTRIES:
        return cluster.finding(subject, reason=mode)
    both = "authenticationMode=API_AND_CONFIG_MAP"
    change = f"aws eks update-cluster-config {cluster.commands.options} --access-config {both}"
    reason = f"{mode} has no access entries, which a deployment creates"
    return cluster.finding(subject, Verdict.WRONG, reason, f"{change}  # cannot be undone")


def _agent(cluster: CheckedCluster) -> str:
    return f"Pod Identity Agent of {cluster.settings.cluster}"


def _pod_identity_agent(cluster: CheckedCluster, description: Mapping[str, Any]) -> Finding:
    """Check that nodes give pods the credentials of their role; Auto Mode includes it.

    https://docs.aws.amazon.com/eks/latest/userguide/pod-id-agent-setup.html
    """
    if (description.get("computeConfig") or {}).get("enabled"):
        return cluster.finding(_agent(cluster), reason="built into EKS Auto Mode")
    addon = {"clusterName": cluster.settings.cluster, "addonName": names.POD_IDENTITY_AGENT}
    try:
        status = client("eks", cluster.region, cluster.role).describe_addon(**addon)["addon"]["status"]
    except ClientError as error:
        if error.response["Error"]["Code"] != _NOT_FOUND:
            raise
        add = f"aws eks create-addon --region {cluster.region} --cluster-name {cluster.settings.cluster}"
        reason = "the add-on is not installed, so pods have no access to data and results"
        return cluster.finding(_agent(cluster), Verdict.WRONG, reason, f"{add} --addon-name {names.POD_IDENTITY_AGENT}")
    if status in ("ACTIVE", "UPDATING"):
        return cluster.finding(_agent(cluster), reason=status)
    fix = f"find the cause in the add-ons of {cluster.settings.cluster} in the console of EKS"
    return cluster.finding(_agent(cluster), Verdict.WRONG, f"the status of the add-on is {status}", fix)


def access(cluster: CheckedCluster) -> Iterator[Finding]:
    """Check the access entries and the Pod Identity association that a deployment has created."""
    for principal, part in cluster.principals().items():
        subject = f"access entry of {principal}"
        yield run_check(
            cluster.region, subject, partial(_entry, cluster, subject, principal, part), "eks:DescribeAccessEntry"
        )
    subject = f"role of pods in {cluster.settings.namespace}"
    permissions = "eks:ListPodIdentityAssociations and eks:DescribePodIdentityAssociation"
    yield run_check(cluster.region, subject, partial(_association, cluster, subject), permissions)


def _entry(cluster: CheckedCluster, subject: str, principal: str, part: Part) -> Finding:
    arn = names.role_arn(cluster.account, principal)
    group = names.kubernetes_group(cluster.grid.name, part)
    eks = client("eks", cluster.region, cluster.role)

    def look() -> Finding:
        entry = eks.describe_access_entry(clusterName=cluster.settings.cluster, principalArn=arn)["accessEntry"]
        groups = entry.get("kubernetesGroups") or []
        if group in groups:
            return cluster.finding(subject, reason=group)
        reason = f"it has {', '.join(groups) or 'no group'} instead of {group}"
        return cluster.finding(subject, Verdict.WRONG, reason, REVERT_DRIFT)

    return _unless_missing(cluster.finding(subject, Verdict.WRONG, "does not exist", REVERT_DRIFT), look)


def _association(cluster: CheckedCluster, subject: str) -> Finding:
    """Check that Pod Identity gives the pods' service account the execution role."""
    settings = cluster.settings
    eks = client("eks", cluster.region, cluster.role)
    selection = {
        "clusterName": settings.cluster,
        "namespace": settings.namespace,
        "serviceAccount": settings.service_account,
    }
    execution = names.execution_role_arn(cluster.grid.name, cluster.account, cluster.region)

    def look() -> Finding:
        associations = eks.list_pod_identity_associations(**selection)["associations"]
        if not associations:
            return missing
        association = {"clusterName": settings.cluster, "associationId": associations[0]["associationId"]}
        role = eks.describe_pod_identity_association(**association)["association"]["roleArn"]
        if role == execution:
            return cluster.finding(subject, reason=names.execution_role(cluster.grid.name, cluster.region))
        return cluster.finding(subject, Verdict.WRONG, f"it is {role} instead of {execution}", REVERT_DRIFT)

    reason = f"the service account {settings.service_account} has no Pod Identity association"
    missing = cluster.finding(subject, Verdict.WRONG, reason, REVERT_DRIFT)
    return _unless_missing(missing, look)


def _unless_missing(missing: Finding, look: Callable[[], Finding]) -> Finding:
    try:
        return look()
    except ClientError as error:
        if error.response["Error"]["Code"] != _NOT_FOUND:
            raise
        return replace(missing)
