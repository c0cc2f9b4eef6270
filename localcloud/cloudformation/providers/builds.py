"""CodeBuild's projects."""

from localcloud.cloudformation.context import Context, Provisioned
from localcloud.cloudformation.providers.base import Properties, Provider, provisioned


class Project(Provider):
    """AWS::CodeBuild::Project; moto 5.2.5 has no UpdateProject."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create the project; its name is the id."""
        return self._put(context, kind, properties.get("Name") or context.name(), properties)

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Put the new one in its place."""
        name = properties.get("Name") or old.physical_resource_id
        self.delete(context, old)
        return self._put(context, old.cf_resource_type, name, properties)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete the project."""
        context.client("codebuild").delete_project(name=resource.physical_resource_id)

    def _put(self, context: Context, kind: str, name: str, properties: Properties) -> Provisioned:
        wanted = context.request("codebuild", "CreateProject", {**properties, "Name": name})
        made = context.client("codebuild").create_project(**wanted)["project"]
        return provisioned(context, kind, name, Arn=made["arn"])


PROVIDERS: dict[str, Provider] = {"AWS::CodeBuild::Project": Project()}
