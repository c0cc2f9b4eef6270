"""Lambda functions, their layers, permissions and event settings, and AWS Batch."""

from localcloud.cloudformation.context import Context, Provisioned, ProvisioningError, snake, tag_map, without
from localcloud.cloudformation.providers.base import Properties, Provider, changed, provisioned


class FunctionProvider(Provider):
    """AWS::Lambda::Function."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create the function from its asset."""
        name = properties.get("FunctionName") or context.name(64)
        request = {**without(properties, "Tags"), "FunctionName": name, "Tags": tag_map(properties)}
        if "ZipFile" in properties["Code"]:
            message = "localcloud does not support inline function code; upload the code to S3, as the CDK does"
            raise ProvisioningError(message)
        function = context.client("lambda").create_function(**context.request("lambda", "CreateFunction", request))
        return provisioned(context, kind, name, Arn=function["FunctionArn"])

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Update code and configuration in place."""
        client, name = context.client("lambda"), old.physical_resource_id
        if changed(old, properties, "Code"):
            client.update_function_code(FunctionName=name, **properties["Code"])
        separate = ("Code", "Tags", "Architectures", "ReservedConcurrentExecutions", "RecursiveLoop")
        absent = {
            "Environment": {"Variables": {}},
            "Layers": [],
            "VpcConfig": {"SubnetIds": [], "SecurityGroupIds": []},
        }
        request = {**absent, **without(properties, *separate), "FunctionName": name}
        client.update_function_configuration(**context.request("lambda", "UpdateFunctionConfiguration", request))
        return provisioned(context, old.cf_resource_type, name, **old.attributes)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete the function."""
        context.client("lambda").delete_function(FunctionName=resource.physical_resource_id)


class LayerProvider(Provider):
    """AWS::Lambda::LayerVersion: every change publishes a new version."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Publish a version."""
        request = {**properties, "LayerName": properties.get("LayerName") or context.name(64)}
        version = context.client("lambda").publish_layer_version(
            **context.request("lambda", "PublishLayerVersion", request)
        )
        return provisioned(context, kind, version["LayerVersionArn"], LayerVersionArn=version["LayerVersionArn"])

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete the version."""
        name, version = resource.physical_resource_id.rsplit(":", 2)[-2:]
        context.client("lambda").delete_layer_version(LayerName=name, VersionNumber=int(version))


class PermissionProvider(Provider):
    """AWS::Lambda::Permission: a statement of a function's resource policy."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Add the statement."""
        name = context.name(100)
        request = {**properties, "StatementId": name}
        context.client("lambda").add_permission(**context.request("lambda", "AddPermission", request))
        return provisioned(context, kind, name, Id=name)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Remove the statement."""
        function = resource.properties["FunctionName"]
        context.client("lambda").remove_permission(FunctionName=function, StatementId=resource.physical_resource_id)


class EventInvokeConfigProvider(Provider):
    """AWS::Lambda::EventInvokeConfig, unknown to moto 5.2.5."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create the configuration; function and qualifier are the id."""
        request = without(properties, "Qualifier") if properties.get("Qualifier") == "$LATEST" else properties
        client = context.client("lambda")
        client.put_function_event_invoke_config(**context.request("lambda", "PutFunctionEventInvokeConfig", request))
        return provisioned(context, kind, f"{properties['FunctionName']}|{properties['Qualifier']}")

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Replace the configuration."""
        return self.create(context, old.cf_resource_type, properties)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete the configuration."""
        name = resource.properties["FunctionName"]
        context.client("lambda").delete_function_event_invoke_config(FunctionName=name)


class EventSourceMappingProvider(Provider):
    """AWS::Lambda::EventSourceMapping."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create the mapping; its UUID is the id."""
        request = {**without(properties, "Tags"), "Tags": tag_map(properties)}
        client = context.client("lambda")
        mapping = client.create_event_source_mapping(**context.request("lambda", "CreateEventSourceMapping", request))
        return provisioned(context, kind, mapping["UUID"], Id=mapping["UUID"])

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete the mapping."""
        context.client("lambda").delete_event_source_mapping(UUID=resource.physical_resource_id)


class BatchProvider(Provider):
    """A compute or service environment, job queue or job definition; the API's names begin in lower case."""

    def __init__(self, create: str, name: str, arn: str, update: str = "") -> None:
        self._create, self._name, self._arn, self._update = create, name, arn, update

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create or register the resource; its ARN is the id."""
        given_name = next((value for key, value in properties.items() if key.lower() == self._name.lower()), None)
        request = {
            **{key: value for key, value in properties.items() if key.lower() != self._name.lower()},
            self._name: given_name or context.name(128),
        }
        request = without(request, "ReplaceComputeEnvironment", "UpdatePolicy")
        if kind == "AWS::Batch::ComputeEnvironment":  # the API accepts upper case only, CloudFormation any case
            request["Type"] = str(request["Type"]).upper()
        reply = getattr(context.client("batch"), snake(self._create))(**context.request("batch", self._create, request))
        arn = reply[self._arn]
        if kind == "AWS::Batch::ComputeEnvironment":
            self._require_valid(context, arn)
        return provisioned(context, kind, arn, **{self._arn[0].upper() + self._arn[1:]: arn})

    def _require_valid(self, context: Context, arn: str) -> None:
        """Fail as CloudFormation does if a compute environment becomes INVALID, and delete the environment.

        Raises:
            ProvisioningError: If the environment is INVALID.
        """
        batch = context.client("batch")
        environment = batch.describe_compute_environments(computeEnvironments=[arn])["computeEnvironments"][0]
        if environment["status"] == "INVALID":
            batch.update_compute_environment(computeEnvironment=arn, state="DISABLED")
            batch.delete_compute_environment(computeEnvironment=arn)
            raise ProvisioningError(f"Operation CREATE failed: {environment['statusReason']}")

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Update in place if the API can; a job definition gets a new revision with the same name."""
        if not self._update:
            name = old.physical_resource_id.rsplit("/", 1)[-1].split(":")[0]
            return self.create(context, old.cf_resource_type, {**properties, self._name: name})
        key = self._name.removesuffix("Name")
        separate = ("Tags", "ReplaceComputeEnvironment", "UpdatePolicy", self._name[0].upper() + self._name[1:])
        kinds = ("Type", "JobQueueType", "ServiceEnvironmentType")
        request = {**without(properties, *separate, *kinds), key: old.physical_resource_id}
        if "ComputeResources" in request:
            request["ComputeResources"] = without(request["ComputeResources"], "Type")
        getattr(context.client("batch"), snake(self._update))(**context.request("batch", self._update, request))
        return provisioned(context, old.cf_resource_type, old.physical_resource_id, **old.attributes)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Disable and delete the resource, or deregister the revision."""
        batch, arn = context.client("batch"), resource.physical_resource_id
        if self._create == "RegisterJobDefinition":
            batch.deregister_job_definition(jobDefinition=arn)
            return
        key = self._name.removesuffix("Name")
        kind = key[0].upper() + key[1:]
        getattr(batch, snake(f"Update{kind}"))(**{key: arn}, state="DISABLED")
        getattr(batch, snake(f"Delete{kind}"))(**{key: arn})


PROVIDERS: dict[str, Provider] = {
    "AWS::Lambda::Function": FunctionProvider(),
    "AWS::Lambda::LayerVersion": LayerProvider(),
    "AWS::Lambda::Permission": PermissionProvider(),
    "AWS::Lambda::EventInvokeConfig": EventInvokeConfigProvider(),
    "AWS::Lambda::EventSourceMapping": EventSourceMappingProvider(),
    "AWS::Batch::ComputeEnvironment": BatchProvider(
        "CreateComputeEnvironment", "computeEnvironmentName", "computeEnvironmentArn", "UpdateComputeEnvironment"
    ),
    "AWS::Batch::JobQueue": BatchProvider("CreateJobQueue", "jobQueueName", "jobQueueArn", "UpdateJobQueue"),
    "AWS::Batch::ServiceEnvironment": BatchProvider(
        "CreateServiceEnvironment", "serviceEnvironmentName", "serviceEnvironmentArn", "UpdateServiceEnvironment"
    ),
    "AWS::Batch::JobDefinition": BatchProvider("RegisterJobDefinition", "jobDefinitionName", "jobDefinitionArn"),
}  # fmt: skip
