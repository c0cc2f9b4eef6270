"""Role limits: refuses a grid whose roles need more managed policies than IAM attaches to a role.

The CDK moves statements that do not fit into a role's inline policies into managed policies, whose number grows with
the Regions of a grid. It only warns of too many, and the deployment would fail after its first stacks.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from aws_cdk.cx_api import CloudAssembly

from traingrid.errors import UsageError

MAX_MANAGED_POLICIES = 10
"""IAM's default quota of managed policies per role
(https://aws.amazon.com/premiumsupport/knowledge-center/iam-increase-policy-size/)."""


def refuse_long_policies(assembly: CloudAssembly) -> None:
    """Check the roles of all stacks.

    Raises:
        UsageError: A role has more managed policies than IAM's quota.
    """
    for stack in assembly.stacks:
        for role, number in _managed_policies(stack.template["Resources"]).items():
            if number > MAX_MANAGED_POLICIES:
                raise UsageError(
                    f"the role {role} of the stack {stack.stack_name} needs {number} managed policies, because its "
                    f"permissions name each Region, but IAM attaches at most {MAX_MANAGED_POLICIES} to a role.",
                    "Remove Regions, or `service_queue`, `data_buckets` or `moves`, or split the grid into two.",
                )


def _managed_policies(resources: Mapping[str, Any]) -> Counter[str]:
    """Return the number of managed policies of each role, by the role's logical id."""
    counts = Counter[str](_roles_of_policies(resources))
    for name, resource in resources.items():
        if resource["Type"] == "AWS::IAM::Role":
            counts[name] += len(resource["Properties"].get("ManagedPolicyArns", []))
    return counts


def _roles_of_policies(resources: Mapping[str, Any]) -> Iterator[str]:
    """Yield the logical id of a role for each managed policy that a template attaches to it."""
    for resource in resources.values():
        if resource["Type"] == "AWS::IAM::ManagedPolicy":
            yield from (role["Ref"] for role in resource["Properties"].get("Roles", []) if "Ref" in role)
