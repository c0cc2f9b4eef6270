"""EKS: the access of roles to the API of a cluster, and of pods to AWS."""

from conformance.aws import Aws, refused
from conformance.claim import claim
from conformance.resources.identity import acting_with, role
from conformance.resources.kubernetes import Cluster
from conformance.sources import model, page, schema

_TOKENS = "https://github.com/kubernetes-sigs/aws-iam-authenticator/blob/master/pkg/token/token.go"
_ENTRIES = "https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html"
_POLICIES = "https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html"
_PODS = "https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html"
_ARN = "arn:aws:eks::aws:cluster-access-policy/"
_ACCESS = "stacks/eks_access.py traingrid/deploy/cluster_access.py"


@claim(
    page(_TOKENS, "client did not sign the %s header in the pre-signed URL"), used_by="traingrid/kubernetes/token.py"
)
def token_is_signed_for_one_cluster(aws: Aws) -> None:
    """A token is a presigned GetCallerIdentity with the cluster's name in a header; other clusters answer 401."""
    cluster, actor = Cluster.of(aws), acting_with(aws)
    cluster.enter(actor)
    aws.wait(lambda: cluster.ask(cluster.token(actor), "/api")[0] == 200, "the access entry")
    status, answer = cluster.ask(cluster.token(actor, "another"), "/api")
    assert (status, answer["reason"]) == (401, "Unauthorized")


@claim(
    page(
        "https://docs.aws.amazon.com/eks/latest/userguide/troubleshooting.html#unauthorized",
        "an access entry doesn't exist with your IAM principal",
    ),
    used_by="traingrid/backends/eks/refusals.py stacks/eks_access.py",
)
def role_without_an_access_entry_is_unauthorized(aws: Aws) -> None:
    """A valid token of a role that has no access entry gets 401, even if IAM allows the role all of EKS."""
    cluster, actor = Cluster.of(aws), acting_with(aws, {"Effect": "Allow", "Action": "eks:*", "Resource": "*"})
    status, answer = cluster.ask(cluster.token(actor), "/api")
    assert (status, answer["reason"]) == (401, "Unauthorized")


@claim(
    page(_ENTRIES, "have any permissions until matching Kubernetes RBAC resources are created"),
    page("https://kubernetes.io/docs/reference/access-authn-authz/rbac/", "Permissions are purely additive"),
    used_by=_ACCESS,
)
def access_entry_alone_allows_no_objects(aws: Aws) -> None:
    """An access entry with groups allows only what roles of the cluster allow to these groups; the rest is 403."""
    cluster, actor = Cluster.of(aws), acting_with(aws)
    cluster.enter(actor, kubernetesGroups=["traingrid:conformance"])
    aws.wait(lambda: cluster.ask(cluster.token(actor), "/api")[0] == 200, "the access entry")
    status, answer = cluster.ask(cluster.token(actor), "/api/v1/namespaces/default/pods")
    name = actor("sts").get_caller_identity()["Arn"]
    text = f'User "{name}" cannot list resource "pods" in API group "" in the namespace "default"'
    assert (status, answer["reason"], answer["message"]) == (403, "Forbidden", f"pods is forbidden: {text}")


@claim(page(_POLICIES, "pods/proxy, secrets, services/proxy"), used_by=_ACCESS)
def edit_policy_reads_secrets(aws: Aws) -> None:
    """AmazonEKSEditPolicy lets a role read all Secrets of its namespaces, and no object of the whole cluster."""
    cluster, actor = Cluster.of(aws), acting_with(aws)
    cluster.api.associate_access_policy(
        clusterName=cluster.name,
        principalArn=cluster.enter(actor),
        policyArn=f"{_ARN}AmazonEKSEditPolicy",
        accessScope={"type": "namespace", "namespaces": ["default"]},
    )
    secrets = "/api/v1/namespaces/default/secrets"
    aws.wait(lambda: cluster.ask(cluster.token(actor), secrets)[0] == 200, "the access policy")
    assert cluster.ask(cluster.token(actor), secrets.replace("default", "kube-system"))[0] == 403
    assert cluster.ask(cluster.token(actor), "/api/v1/nodes")[0] == 403


@claim(
    page(
        "https://github.com/terraform-aws-modules/terraform-aws-eks/issues/2915",
        "is invalid, it cannot start with system:",
    ),
    page("https://github.com/awsdocs/amazon-eks-user-guide/pull/985", "The Kubernetes group name cannot start with"),
    used_by=_ACCESS,
)
def groups_of_an_entry_are_not_those_of_kubernetes(aws: Aws) -> None:
    """An access entry cannot name a group that begins with system:, so it cannot give cluster-admin by a group."""
    cluster, actor = Cluster.of(aws), acting_with(aws)
    with refused("InvalidParameterException", text="cannot start with system:"):
        cluster.enter(actor, kubernetesGroups=["system:masters"])


@claim(
    model("eks", "CreateAccessEntryRequest", "This value can't be changed after access entry creation"),
    schema("AWS::EKS::AccessEntry", "PrincipalArn"),
    page(
        "https://github.com/aws/eks-distro/issues/2805",
        "The specified access entry resource is already in use on this cluster",
    ),
    used_by="stacks/eks_access.py",
)
def principal_has_one_entry_in_a_cluster(aws: Aws) -> None:
    """A second access entry for a principal is refused, so two stacks cannot share a role's entry in one cluster."""
    cluster, actor = Cluster.of(aws), acting_with(aws)
    cluster.enter(actor)
    with refused("ResourceInUseException", text="already in use on this cluster"):
        cluster.enter(actor, kubernetesGroups=["traingrid:conformance"])


@claim(
    page(_PODS, "EKS Pod Identity uses TagSession to include session tags"),
    page(
        "https://github.com/hashicorp/terraform-provider-aws/issues/41483",
        "Trust policy of the role provided is invalid",
    ),
    used_by="stacks/eks_access.py",
)
def role_of_pods_trusts_two_actions(aws: Aws) -> None:
    """A Pod Identity association is refused if its role does not trust pods.eks.amazonaws.com with both actions."""
    cluster, service = Cluster.of(aws), {"Service": "pods.eks.amazonaws.com"}
    wanted = {"clusterName": cluster.name, "namespace": "conformance", "serviceAccount": aws.name("pods")}
    with refused("InvalidParameterException", text="Trust policy of the role provided is invalid"):
        cluster.api.create_pod_identity_association(**wanted, roleArn=role(aws, "half", service))
    whole = role(aws, "whole", service, actions="sts:AssumeRole sts:TagSession")
    made = cluster.api.create_pod_identity_association(**wanted, roleArn=whole)["association"]
    assert made["roleArn"] == whole


@claim(
    page(
        "https://docs.aws.amazon.com/eks/latest/userguide/service-accounts.html",
        "associate one IAM role to each Kubernetes service account in each cluster",
    ),
    used_by="stacks/eks_access.py",
)
def service_account_has_one_role(aws: Aws) -> None:
    """A second Pod Identity association of a service account is refused, even with another role."""
    cluster, service = Cluster.of(aws), {"Service": "pods.eks.amazonaws.com"}
    wanted = {"clusterName": cluster.name, "namespace": "conformance", "serviceAccount": aws.name("pods")}
    both = "sts:AssumeRole sts:TagSession"
    first, second = (role(aws, "pods", service, actions=both) for _ in range(2))
    cluster.api.create_pod_identity_association(**wanted, roleArn=first)
    with refused("ResourceInUseException"):
        cluster.api.create_pod_identity_association(**wanted, roleArn=second)
