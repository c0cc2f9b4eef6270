"""Region stack: the data, training and results of one training Region."""

from collections.abc import Sequence

from aws_cdk import Aws, CfnOutput, Stack
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.accounts import ActingRoles, region_environment
from stacks.alarms import Alarms
from stacks.buckets import private_bucket, send_object_events
from stacks.eks_access import EksAccess
from stacks.event_forwarding import EventForwarding
from stacks.execution_role import ExecutionRole
from stacks.grants import acknowledge
from stacks.keys import let_sagemaker_encrypt, read_with, stack_key, use_key
from stacks.service_queues import TrainingQueue
from traingrid import names
from traingrid.grid.framework_images import FrameworkImage
from traingrid.grid.model import GridSettings


class RegionStack(Stack):
    """Data bucket, output bucket, execution role, and the rule that sends state changes to the home Region."""

    def __init__(
        self, scope: Construct, *, grid: GridSettings, region: str, frameworks: Sequence[FrameworkImage] = ()
    ) -> None:
        super().__init__(
            scope,
            names.region_stack(grid.name, region),
            env=region_environment(grid, region),
            description=f"traingrid {grid.name}: training in {region}",
        )
        account = Aws.ACCOUNT_ID
        key = stack_key(self, "DataKey", grid=grid, region=region, alias=names.data_key(grid.name))
        data = private_bucket(
            self, "Data", name=names.data_bucket(grid.name, account, region), versioned=False, key=key
        )
        send_object_events(data)  # of markers: stacks/dataset_registration.py
        acknowledge(
            data,
            "NIST.800.53.R5-S3BucketVersioningEnabled",
            "Data sets are copies of data kept elsewhere; versions of terabytes would only add costs",
            checkov="CKV_AWS_21",
        )
        output = private_bucket(
            self, "Output", name=names.output_bucket(grid.name, account, region), versioned=True, key=key
        )
        repositories = [
            f"arn:aws:ecr:{region}:{account}:repository/{names.repository(grid.name, short)}"
            for short in grid.repositories()
        ] + sorted({image.repository_arn(region) for image in frameworks})
        execution = ExecutionRole(self, "Execution", grid=grid, region=region, output=output, repositories=repositories)
        use_key(execution.role, key, region=region, services=["s3"])
        let_sagemaker_encrypt(execution.role, key)
        read_with(execution.role, grid.regions[region].data_keys, region=region)
        acting = (
            ActingRoles(self, "Acting", grid=grid, region=region, key=key) if region in grid.other_accounts() else None
        )
        if grid.regions[region].eks:
            roles = {part: role.role_arn for part, role in acting.roles.items()} if acting else {}
            EksAccess(self, "Eks", grid=grid, region=region, pods=execution.role, acting=roles)
        forwarding = EventForwarding(self, "Forwarding", grid=grid, region=region, key=key)
        if settings := grid.regions[region].service_queue:
            TrainingQueue(self, "TrainingQueue", grid=grid, settings=settings)
        alarms = Alarms(self, "Alarms", grid=grid, key=key)
        alarms.undelivered(f"home-bus-{region}", forwarding.dead_letters)
        alarms.key_in_danger("data")
        self._outputs(data, output, grid, region)

    def _outputs(self, data: s3.Bucket, output: s3.Bucket, grid: GridSettings, region: str) -> None:
        training = names.repository_uri(Aws.ACCOUNT_ID, region, names.training_repository(grid.name))
        CfnOutput(self, "DataBucket", value=data.bucket_name)
        CfnOutput(self, "OutputBucket", value=output.bucket_name)
        CfnOutput(self, "TrainingRepository", value=training)
        if kind_by_file_system := grid.regions[region].file_systems:
            descriptions = ", ".join(f"{file_system} ({kind})" for file_system, kind in kind_by_file_system.items())
            CfnOutput(self, "FileSystems", value=descriptions)
        if settings := grid.regions[region].eks:
            CfnOutput(self, "Cluster", value=settings.place)
        CfnOutput(self, "ExecutionRole", value=names.execution_role_arn(grid.name, Aws.ACCOUNT_ID, region))
