"""Rules for EKS clusters: a grid creates access to clusters with the least permissions, and no cluster."""

from collections.abc import Iterator

from tests.integration.posture.rule import Rule, added
from tests.integration.posture.synthesised import Synthesised
from tests.integration.stacks.templates import flat

ENTRY, ASSOCIATION = "AWS::EKS::AccessEntry", "AWS::EKS::PodIdentityAssociation"


def a_grid_creates_nothing_else_of_eks(made: Synthesised) -> Iterator[str]:
    for stack, template in made.templates.items():
        for name, resource in template["Resources"].items():
            if resource["Type"].startswith("AWS::EKS::") and resource["Type"] not in (ENTRY, ASSOCIATION):
                yield f"{stack}/{name} is a {resource['Type']}"


def an_access_entry_gives_a_role_of_the_grid_one_group_of_the_grid(made: Synthesised) -> Iterator[str]:
    """Access policies of EKS would let a role read secrets, or the reconciler create jobs."""
    for where, entry in made.properties(ENTRY):
        groups = entry.get("KubernetesGroups", [])
        if len(groups) != 1 or not groups[0].startswith(f"traingrid:{made.grid.name}:"):
            yield f"{where} has the groups {groups}"
        if entry.get("AccessPolicies") or entry.get("Username"):
            yield f"{where} has a policy or a user name"
        principal = flat(entry["PrincipalArn"])
        if not (principal.startswith("<Acting") or f":role/{made.grid.name}-" in principal):
            yield f"{where} is for {principal}"


def pods_get_the_execution_role_with_session_tags_only(made: Synthesised) -> Iterator[str]:
    """The trust policy of the role compares the tags."""
    for where, association in made.properties(ASSOCIATION):
        if not flat(association["RoleArn"]).startswith("<ExecutionRole"):
            yield f"{where} gives pods {association['RoleArn']}"
        if association.get("DisableSessionTags") or association.get("TargetRoleArn"):
            yield f"{where} has no session tags, or another role"


_PLAIN = {"ClusterName": "c", "PrincipalArn": "arn:aws:iam::1:role/traingrid-child"}
_GROUP = {"KubernetesGroups": ["traingrid:traingrid:launch"]}
_PODS = {"ClusterName": "c", "RoleArn": {"Fn::GetAtt": ["ExecutionRole0", "Arn"]}}
RULES = (
    Rule(a_grid_creates_nothing_else_of_eks, (added("AWS::EKS::Cluster", {}), added("AWS::EKS::Addon", {}))),
    Rule(
        an_access_entry_gives_a_role_of_the_grid_one_group_of_the_grid,
        (
            added(ENTRY, _PLAIN),
            added(ENTRY, {**_PLAIN, "KubernetesGroups": ["system:masters"]}),
            added(ENTRY, {**_PLAIN, **_GROUP, "AccessPolicies": [{"PolicyArn": "AmazonEKSEditPolicy"}]}),
            added(ENTRY, {**_PLAIN, **_GROUP, "PrincipalArn": "arn:aws:iam::1:role/Admin"}),
        ),
    ),
    Rule(
        pods_get_the_execution_role_with_session_tags_only,
        (
            added(ASSOCIATION, {**_PODS, "DisableSessionTags": True}),
            added(ASSOCIATION, {**_PODS, "RoleArn": "arn:aws:iam::1:role/Admin"}),
        ),
    ),
)
