"""IAM roles and policies."""

import json
from typing import Any

from localcloud.cloudformation.context import Context, Provisioned
from localcloud.cloudformation.providers.base import Drift, Properties, Provider, changed, provisioned


def _document(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


class RoleProvider(Provider):
    """AWS::IAM::Role; moto 5.2.5 updates a role by deleting and creating it."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create the role with its inline and managed policies."""
        name = properties.get("RoleName") or context.name(64)
        passed = ("Path", "Description", "MaxSessionDuration", "PermissionsBoundary", "Tags")
        request = {key: properties[key] for key in passed if key in properties}
        request |= {"RoleName": name, "AssumeRolePolicyDocument": _document(properties["AssumeRolePolicyDocument"])}
        role = context.client("iam").create_role(**context.request("iam", "CreateRole", request))["Role"]
        self._attach(context, name, {}, properties)
        return provisioned(context, kind, name, Arn=role["Arn"], RoleId=role["RoleId"])

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Update trust, description and policies in place."""
        name, iam = old.physical_resource_id, context.client("iam")
        iam.update_assume_role_policy(RoleName=name, PolicyDocument=_document(properties["AssumeRolePolicyDocument"]))
        iam.update_role(RoleName=name, Description=properties.get("Description", ""))
        self._attach(context, name, old.properties, properties)
        return provisioned(context, old.cf_resource_type, name, **old.attributes)

    def drift(self, context: Context, resource: Provisioned) -> Drift:
        """Return "deleted" if the role does not exist."""
        iam = context.client("iam")
        try:
            iam.get_role(RoleName=resource.physical_resource_id)
        except iam.exceptions.NoSuchEntityException:
            return "deleted"
        return ""

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Remove the policies, then delete the role."""
        self._attach(context, resource.physical_resource_id, resource.properties, {})
        context.client("iam").delete_role(RoleName=resource.physical_resource_id)

    def _attach(self, context: Context, name: str, old: Properties, new: Properties) -> None:
        iam = context.client("iam")
        policy_names = {policy["PolicyName"] for policy in new.get("Policies", [])}
        for policy in new.get("Policies", []):
            document = _document(policy["PolicyDocument"])
            iam.put_role_policy(RoleName=name, PolicyName=policy["PolicyName"], PolicyDocument=document)
        for policy in old.get("Policies", []):
            if policy["PolicyName"] not in policy_names:
                iam.delete_role_policy(RoleName=name, PolicyName=policy["PolicyName"])
        before, after = set(old.get("ManagedPolicyArns", [])), set(new.get("ManagedPolicyArns", []))
        for arn in sorted(after - before):
            iam.attach_role_policy(RoleName=name, PolicyArn=arn)
        for arn in sorted(before - after):
            iam.detach_role_policy(RoleName=name, PolicyArn=arn)


class PolicyProvider(Provider):
    """AWS::IAM::Policy: an inline policy in roles; moto 5.2.5 gives it the random name of another type."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Add the policy to every role, user and group."""
        self._put(context, properties)
        return provisioned(context, kind, f"{context.name(64)}")

    def drift(self, context: Context, resource: Provisioned) -> Drift:
        """Return "changed" if a role no longer has the policy."""
        iam, name = context.client("iam"), resource.properties["PolicyName"]
        for role in resource.properties.get("Roles", []):
            try:
                if name not in iam.list_role_policies(RoleName=role)["PolicyNames"]:
                    return "changed"
            except iam.exceptions.NoSuchEntityException:
                return "changed"
        return ""

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Set the new policy, and remove it from roles, users and groups that are no longer listed."""
        self._put(context, properties)
        for holder, name in self._holders(old.properties):
            renamed = changed(old, properties, "PolicyName")
            if renamed or (holder, name) not in self._holders(properties):
                self._delete_policy(context, holder, name, old.properties["PolicyName"])
        return provisioned(context, old.cf_resource_type, old.physical_resource_id)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Remove the policy from every role, user and group."""
        for holder, name in self._holders(resource.properties):
            self._delete_policy(context, holder, name, resource.properties["PolicyName"])

    def _holders(self, properties: Properties) -> list[tuple[str, str]]:
        kinds = (("role", "Roles"), ("user", "Users"), ("group", "Groups"))
        return [(kind, name) for kind, key in kinds for name in properties.get(key, [])]

    def _put(self, context: Context, properties: Properties) -> None:
        for holder, name in self._holders(properties):
            put = getattr(context.client("iam"), f"put_{holder}_policy")
            put(
                **{f"{holder.title()}Name": name},
                PolicyName=properties["PolicyName"],
                PolicyDocument=_document(properties["PolicyDocument"]),
            )

    def _delete_policy(self, context: Context, holder: str, name: str, policy: str) -> None:
        delete = getattr(context.client("iam"), f"delete_{holder}_policy")
        delete(**{f"{holder.title()}Name": name}, PolicyName=policy)


class ManagedPolicyProvider(Provider):
    """AWS::IAM::ManagedPolicy."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create the policy and attach it to its roles."""
        iam = context.client("iam")
        name = properties.get("ManagedPolicyName") or context.name(128)
        request = {key: properties[key] for key in ("Description", "Path") if key in properties}
        document = _document(properties["PolicyDocument"])
        arn = iam.create_policy(PolicyName=name, PolicyDocument=document, **request)["Policy"]["Arn"]
        for role in properties.get("Roles", []):
            iam.attach_role_policy(RoleName=role, PolicyArn=arn)
        return provisioned(context, kind, arn, PolicyArn=arn)

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Create a new default version and delete the previous one, because IAM keeps at most five."""
        iam, arn = context.client("iam"), old.physical_resource_id
        before = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
        iam.create_policy_version(
            PolicyArn=arn, PolicyDocument=_document(properties["PolicyDocument"]), SetAsDefault=True
        )
        iam.delete_policy_version(PolicyArn=arn, VersionId=before)
        for role in set(properties.get("Roles", [])) - set(old.properties.get("Roles", [])):
            iam.attach_role_policy(RoleName=role, PolicyArn=arn)
        for role in set(old.properties.get("Roles", [])) - set(properties.get("Roles", [])):
            iam.detach_role_policy(RoleName=role, PolicyArn=arn)
        return provisioned(context, old.cf_resource_type, arn, **old.attributes)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Detach the policy from all roles, then delete it."""
        iam, arn = context.client("iam"), resource.physical_resource_id
        for role in iam.list_entities_for_policy(PolicyArn=arn)["PolicyRoles"]:
            iam.detach_role_policy(RoleName=role["RoleName"], PolicyArn=arn)
        iam.delete_policy(PolicyArn=arn)


PROVIDERS: dict[str, Provider] = {
    "AWS::IAM::Role": RoleProvider(),
    "AWS::IAM::Policy": PolicyProvider(),
    "AWS::IAM::ManagedPolicy": ManagedPolicyProvider(),
}
