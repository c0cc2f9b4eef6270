"""Orchestrator: AWS Batch's queue and job definition, whose children each start and watch one training job."""

from collections.abc import Mapping

from aws_cdk import Aws, Duration, Size, Tags
from aws_cdk import aws_batch as batch
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.grants import grant, same_account
from stacks.log_keeping import LogKeeping
from stacks.network import Network
from stacks.service_queues import shared_by_weight
from traingrid import names
from traingrid.grid.model import GridSettings
from traingrid.job.failures import FOR_GOOD

ATTEMPTS = 10
"""Batch's maximum. A child that is retried attaches to its existing training job, so nothing is paid for twice."""

LIFETIME = Duration.days(14)
"""Fargate may retire the hosts of older tasks (https://docs.aws.amazon.com/batch/latest/userguide/fargate.html)."""

ORDINARY_USER = "65532:65532"
"""User and group of a child, as in batch_job/Dockerfile. Repeated here, so that no image can run as root."""


class Orchestrator(Construct):
    """A Fargate compute environment, its queue, and the definition of the job that runs the orchestrator's image.

    Args:
        image: URI of the image.
        image_tag: Tag of the image, for people.
        environment: The environment variables of a child.
        keeping: The settings of the children's log.

    Attributes:
        role: The role of a child; the stack grants its permissions.
        queue: The queue that the intake submits to.
        definition: The job definition that the intake submits.
        placement: The network settings of children.
    """

    def __init__(
        self,
        scope: Construct,
        identifier: str,
        *,
        grid: GridSettings,
        image: str,
        image_tag: str,
        environment: Mapping[str, str],
        keeping: LogKeeping,
    ) -> None:
        super().__init__(scope, identifier)
        self._image = image
        self.log_group = keeping.log_group(self, "Log")
        # https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-iam-roles.html
        tasks = same_account(f"arn:aws:ecs:{grid.home}:{Aws.ACCOUNT_ID}:*")
        trust = iam.ServicePrincipal("ecs-tasks.amazonaws.com", conditions=tasks)
        name = names.home_role(grid.name, "launch")
        self.role = iam.Role(self, "Role", role_name=name, assumed_by=trust, description="Role of Batch children")
        self.placement = Network(self, "Network", grid=grid, keeping=keeping).placement
        self.queue = self._queue(grid)
        self.definition = batch.EcsJobDefinition(
            self,
            "JobDefinition",
            job_definition_name=names.job_definition(grid.name),
            container=self._container(grid, environment, self._pull_role(grid)),
            retry_attempts=ATTEMPTS,
            retry_strategies=retry_strategies(),
            timeout=LIFETIME,
            # The service-linked role of AWS Batch tags the tasks that it starts; its policy allows ecs:TagResource on
            # task/*_Batch_* (https://docs.aws.amazon.com/aws-managed-policy/latest/reference/BatchServiceRolePolicy.html).
            propagate_tags=True,
            scheduling_priority=0 if grid.shares else None,
        )
        # The image's digest is a reference to another stack. The tag makes a new image change this template, too.
        Tags.of(self.definition).add(names.TAG_IMAGE, image_tag)

    def _queue(self, grid: GridSettings) -> batch.JobQueue:
        compute = batch.FargateComputeEnvironment(
            self,
            "Compute",
            vpc=self.placement.vpc,
            vpc_subnets=self.placement.subnets,
            security_groups=list(self.placement.security_groups),
            maxv_cpus=grid.orchestrator.max_vcpus,
        )
        # Batch cannot change a queue between shared and not shared, so each is a separate queue.
        name = names.job_queue(grid.name, shared=bool(grid.shares))
        return batch.JobQueue(
            self,
            "SharedQueue" if grid.shares else "Queue",
            job_queue_name=name,
            scheduling_policy=shared_by_weight(self, "Shares", name=name, grid=grid) if grid.shares else None,
            compute_environments=[batch.OrderedComputeEnvironment(compute_environment=compute, order=1)],
        )

    def _pull_role(self, grid: GridSettings) -> iam.Role:
        """Return the role with which ECS starts a child. It may pull one image and write one log.

        The trust policy has no condition, because ECS documents one for the role of a task, but none for this role
        (https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task_execution_IAM_role.html).
        """
        trust = iam.ServicePrincipal("ecs-tasks.amazonaws.com")
        role = iam.Role(self, "PullRole", assumed_by=trust, description="Role with which ECS starts Batch children")
        grant(
            role,
            ["ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage"],
            [f"arn:aws:ecr:{grid.home}:{Aws.ACCOUNT_ID}:repository/{names.orchestrator_repository(grid.name)}"],
        )
        grant(
            role,
            ["ecr:GetAuthorizationToken"],
            ["*"],
            because="The token is valid for the account: the action does not support resources",
        )
        self.log_group.grant_write(role)
        return role

    def _container(
        self, grid: GridSettings, environment: Mapping[str, str], pull_role: iam.Role
    ) -> batch.EcsFargateContainerDefinition:
        return batch.EcsFargateContainerDefinition(
            self,
            "Container",
            image=ecs.ContainerImage.from_registry(self._image),
            cpu=grid.orchestrator.vcpu,
            memory=Size.mebibytes(grid.orchestrator.memory_mib),
            job_role=self.role,
            execution_role=pull_role,
            assign_public_ip=self.placement.public_addresses,
            readonly_root_filesystem=True,
            user=ORDINARY_USER,
            # Fargate supports it: it is not in the list of unsupported parameters
            # (https://docs.aws.amazon.com/batch/latest/userguide/fargate-job-definitions.html).
            linux_parameters=batch.LinuxParameters(self, "Linux", init_process_enabled=True),
            environment=dict(environment),
            logging=ecs.LogDriver.aws_logs(stream_prefix="orchestrator", log_group=self.log_group),
        )


def retry_strategies() -> list[batch.RetryStrategy]:
    """Return Batch's reaction to the exit code of a child: fail for codes that are final, otherwise retry.

    Only the child itself can decide that a failure is final. Batch retries if no entry matches
    (https://docs.aws.amazon.com/batch/latest/userguide/job_retries.html). That includes: a child that requests it (75);
    one that was killed (137: out of memory, or because its host is retired); and all failures of Fargate, before the
    child starts or later, for which no list exists: a network interface that is not provided in time,
    ResourceInitializationError, an image that cannot be pulled, a host under maintenance. Batch never retries a child
    that a user or its timeout has terminated.
    """
    codes = (batch.Reason.custom(on_exit_code=str(code)) for code in FOR_GOOD)
    return [batch.RetryStrategy.of(batch.Action.EXIT, code) for code in codes]
