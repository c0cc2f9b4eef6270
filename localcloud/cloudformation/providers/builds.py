"""CodeBuild projects, and the replication rules and policy of an ECR registry."""

import json

from localcloud.cloudformation.context import Context, Provisioned, ProvisioningError
from localcloud.cloudformation.providers.base import Properties, Provider, provisioned


class ProjectProvider(Provider):
    """AWS::CodeBuild::Project; moto 5.2.5 has no UpdateProject."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create the project; its name is the id."""
        return self._put(context, kind, properties.get("Name") or context.name(), properties)

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Replace the project with a new one."""
        name = properties.get("Name") or old.physical_resource_id
        self.delete(context, old)
        return self._put(context, old.cf_resource_type, name, properties)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete the project."""
        context.client("codebuild").delete_project(name=resource.physical_resource_id)

    def _put(self, context: Context, kind: str, name: str, properties: Properties) -> Provisioned:
        request = context.request("codebuild", "CreateProject", {**properties, "Name": name})
        project = context.client("codebuild").create_project(**request)["project"]
        return provisioned(context, kind, name, Arn=project["arn"])


class ReplicationProvider(Provider):
    """AWS::ECR::ReplicationConfiguration: all rules of a registry, which must have no rules before."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Set the rules; fail if the registry already has rules."""
        if context.client("ecr").describe_registry()["replicationConfiguration"]["rules"]:
            message = f"Resource of type '{kind}' with identifier '{context.account}' already exists."
            raise ProvisioningError(message)
        self._put(context, properties)
        return provisioned(context, kind, context.account, RegistryId=context.account)

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Set the new rules."""
        self._put(context, properties)
        return provisioned(context, old.cf_resource_type, old.physical_resource_id, **old.attributes)

    def delete(self, context: Context, resource: Provisioned) -> None:  # noqa: ARG002 - a registry has only one
        """Remove all rules."""
        self._put(context, {"ReplicationConfiguration": {"Rules": []}})

    def _put(self, context: Context, properties: Properties) -> None:
        request = context.request("ecr", "PutReplicationConfiguration", properties)
        context.client("ecr").put_replication_configuration(**request)


class RegistryPolicyProvider(Provider):
    """AWS::ECR::RegistryPolicy: the policy of a registry, which must have none before."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Set the policy; fail if the registry already has one."""
        ecr = context.client("ecr")
        try:
            ecr.get_registry_policy()
        except ecr.exceptions.RegistryPolicyNotFoundException:
            self._put(context, properties)
            return provisioned(context, kind, context.account, RegistryId=context.account)
        message = f"Resource of type '{kind}' with identifier '{context.account}' already exists."
        raise ProvisioningError(message)

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Set the new policy."""
        self._put(context, properties)
        return provisioned(context, old.cf_resource_type, old.physical_resource_id, **old.attributes)

    def delete(self, context: Context, resource: Provisioned) -> None:  # noqa: ARG002 - a registry has only one
        """Delete the policy."""
        context.client("ecr").delete_registry_policy()

    def _put(self, context: Context, properties: Properties) -> None:
        context.client("ecr").put_registry_policy(policyText=json.dumps(properties["PolicyText"]))


PROVIDERS: dict[str, Provider] = {
    "AWS::CodeBuild::Project": ProjectProvider(),
    "AWS::ECR::ReplicationConfiguration": ReplicationProvider(),
    "AWS::ECR::RegistryPolicy": RegistryPolicyProvider(),
}
