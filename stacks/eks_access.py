"""EKS access: the resources of a grid in a user's own cluster, and the permissions to find it.

https://aws.amazon.com/eks/pricing/ lists no price for access entries and Pod Identity associations.
"""

from collections.abc import Iterable, Mapping

from aws_cdk import Aws
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_eks as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.grants import grant
from traingrid import names
from traingrid.grid.eks import EksCluster
from traingrid.grid.model import GridSettings
from traingrid.names import Part

PODS = "pods.eks.amazonaws.com"
"""The service that assumes a role for pods (https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html)."""


class EksAccess(Construct):
    """The access of a grid to the cluster of a Region, and of the cluster's pods to the Region's execution role.

    An access entry gives a role a group in the cluster's API, and nothing else: Roles and RoleBindings in the namespace
    (`traingrid eks access`) grant the permissions. A principal can have one entry in a cluster
    (https://docs.aws.amazon.com/eks/latest/userguide/create-k8s-group-access-entry.html), and a service account one
    association. The roles belong to one grid, so another grid needs no entry for them; the deployment fails if a person
    has created one.

    CloudFormation replaces an entry or an association whose cluster, principal, namespace or service account changes
    (createOnlyProperties of both types in its registry), and updates groups and the role in place.

    Args:
        region: The Region, which has a cluster.
        pods: The execution role.
        acting: The ARNs of the roles with which the parts of the control plane act in another account; empty in the
            home Region's account.
    """

    def __init__(
        self,
        scope: Construct,
        identifier: str,
        *,
        grid: GridSettings,
        region: str,
        pods: iam.Role,
        acting: Mapping[Part, str],
    ) -> None:
        super().__init__(scope, identifier)
        settings = _cluster(grid, region)
        for name, (principal, part) in (
            _principals_in_account(acting) if acting else _principals_at_home(grid)
        ).items():
            eks.CfnAccessEntry(
                self,
                name,
                cluster_name=settings.cluster,
                principal_arn=principal,
                kubernetes_groups=[names.kubernetes_group(grid.name, part)],
            )
        eks.CfnPodIdentityAssociation(
            self,
            "Pods",
            cluster_name=settings.cluster,
            namespace=settings.namespace,
            service_account=settings.service_account,
            role_arn=pods.role_arn,
        )


def _principals_at_home(grid: GridSettings) -> dict[str, tuple[str, Part]]:
    """Return the principals with access, and the part that each has, by name. Users have their own access."""
    parts: dict[str, tuple[str, Part]] = {
        "Child": (names.home_role(grid.name, "launch"), "launch"),
        "Reconciler": (names.home_role(grid.name, "sweep"), "sweep"),
        "Guard": (names.guard_role(grid.name), "sweep"),
    }
    return {name: (names.role_arn(Aws.ACCOUNT_ID, role), part) for name, (role, part) in parts.items()}


def _principals_in_account(acting: Mapping[Part, str]) -> dict[str, tuple[str, Part]]:
    parts: tuple[Part, ...] = ("launch", "sweep", "use")
    return {part.capitalize(): (acting[part], part) for part in parts}


def _cluster(grid: GridSettings, region: str) -> EksCluster:
    settings = grid.regions[region].eks
    if settings is None:
        raise ValueError(f"{region} has no cluster")
    return settings


def cluster_arn(settings: EksCluster, region: str) -> str:
    """Return the ARN of a cluster in the stack's own account."""
    return f"arn:aws:eks:{region}:{Aws.ACCOUNT_ID}:cluster/{settings.cluster}"


def let_find_clusters(role: iam.Role, grid: GridSettings, regions: Iterable[str]) -> None:
    """Allow a role to read the address and the certificate of the clusters of Regions in its own account.

    It needs no other permission for them: the API server of a cluster decides about everything else, by the group of
    the role's access entry.
    """
    cluster_arns = [cluster_arn(settings, region) for region in regions if (settings := grid.regions[region].eks)]
    if cluster_arns:
        grant(role, ["eks:DescribeCluster"], cluster_arns)


def let_pods_assume(role: iam.Role, settings: EksCluster, region: str) -> None:
    """Allow EKS to assume a role for the pods of one service account in one namespace of one cluster.

    EKS adds their names as session tags, which the trust policy compares
    (https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html). The ARN of the cluster, one of these tags
    (https://docs.aws.amazon.com/eks/latest/userguide/pod-id-abac.html), includes its account and Region, so the service
    cannot act for another account.
    """
    if role.assume_role_policy is None:
        raise ValueError(f"{role.node.path} has no trust policy")
    tags = {
        "eks-cluster-arn": cluster_arn(settings, region),
        "kubernetes-namespace": settings.namespace,
        "kubernetes-service-account": settings.service_account,
    }
    role.assume_role_policy.add_statements(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal(PODS)],
            actions=["sts:AssumeRole", "sts:TagSession"],
            conditions={"StringEquals": {f"aws:RequestTag/{tag}": value for tag, value in tags.items()}},
        )
    )


def accounts_with_clusters(grid: GridSettings) -> list[str]:
    """Return the accounts, other than the home Region's, that have a cluster of the grid."""
    return sorted({account for region, account in grid.other_accounts().items() if grid.regions[region].eks})


def let_nodes_pull(repository: ecr.Repository, accounts: Iterable[str]) -> None:
    """Let the nodes of clusters in other accounts pull images; the policy of their role must allow it, too.

    The roles of nodes belong to the clusters' owners, so no condition names them. The actions are those of
    https://docs.aws.amazon.com/AmazonECR/latest/userguide/ECR_on_EKS.html, which nodes have on all repositories. A
    token comes from the node's own account. Nodes in the home account need no policy of the repository.
    """
    repository.add_to_resource_policy(
        iam.PolicyStatement(
            sid="NodesPull",
            principals=[iam.AccountPrincipal(account) for account in accounts],
            actions=["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
        )
    )
