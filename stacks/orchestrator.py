"""AWS Batch: the queue and the job definition whose children each start and watch one training job."""

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
from traingrid.failures import FOR_GOOD
from traingrid.grid import Grid

ATTEMPTS = 10
"""Most that Batch allows. A child that is tried again attaches to its training job: nothing is paid twice."""

LIFETIME = Duration.days(14)
"""Fargate may retire the host of an older task (https://docs.aws.amazon.com/batch/latest/userguide/fargate.html)."""

ORDINARY_USER = "65532:65532"
"""User and group of a child, as in batch_job/Dockerfile; said here too, so that no other image makes it root."""


class Orchestrator(Construct):
    """A Fargate compute environment, its queue, and the definition of the job that runs the orchestrator's image.

    `image` is its URI, and `image_tag` what a person calls it.
    `role` is what a child may do; the stack grants it. `queue` and `definition` are what the intake submits to.
    """

    def __init__(
        self,
        scope: Construct,
        identifier: str,
        *,
        grid: Grid,
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
        self.role = iam.Role(self, "Role", role_name=name, assumed_by=trust, description="What a Batch child may do")
        self._placement = Network(self, "Network", grid=grid, keeping=keeping).placement
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
        # The image's digest comes from another stack: this tag is how its change is a change of this template.
        Tags.of(self.definition).add(names.TAG_IMAGE, image_tag)

    def _queue(self, grid: Grid) -> batch.JobQueue:
        compute = batch.FargateComputeEnvironment(
            self,
            "Compute",
            vpc=self._placement.vpc,
            vpc_subnets=self._placement.subnets,
            security_groups=list(self._placement.security_groups),
            maxv_cpus=grid.orchestrator.max_vcpus,
        )
        # A queue that is shared cannot become one that is not, nor the other way round: it is another queue.
        name, shared = names.job_queue(grid.name, shared=bool(grid.shares)), "Shared" * bool(grid.shares)
        return batch.JobQueue(
            self,
            f"{shared}Queue",
            job_queue_name=name,
            scheduling_policy=shared_by_weight(self, "Shares", name=name, grid=grid) if shared else None,
            compute_environments=[batch.OrderedComputeEnvironment(compute_environment=compute, order=1)],
        )

    def _pull_role(self, grid: Grid) -> iam.Role:
        """Return the role with which ECS starts a child: it may pull this one image and write this one log.

        The trust has no condition, because ECS documents one for the role of a task, but none for this role
        (https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task_execution_IAM_role.html).
        """
        trust = iam.ServicePrincipal("ecs-tasks.amazonaws.com")
        role = iam.Role(self, "PullRole", assumed_by=trust, description="How Batch starts a child")
        grant(
            role,
            ["ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage"],
            [f"arn:aws:ecr:{grid.home}:{Aws.ACCOUNT_ID}:repository/{names.orchestrator_repository(grid.name)}"],
        )
        grant(
            role, ["ecr:GetAuthorizationToken"], ["*"], because="The token is the account's: the action has no resource"
        )
        self.log_group.grant_write(role)
        return role

    def _container(
        self, grid: Grid, environment: Mapping[str, str], pull_role: iam.Role
    ) -> batch.EcsFargateContainerDefinition:
        return batch.EcsFargateContainerDefinition(
            self,
            "Container",
            image=ecs.ContainerImage.from_registry(self._image),
            cpu=grid.orchestrator.vcpu,
            memory=Size.mebibytes(grid.orchestrator.memory_mib),
            job_role=self.role,
            execution_role=pull_role,
            assign_public_ip=self._placement.public_addresses,
            readonly_root_filesystem=True,
            user=ORDINARY_USER,
            # Not among the parameters that Fargate lacks
            # (https://docs.aws.amazon.com/batch/latest/userguide/fargate-job-definitions.html).
            linux_parameters=batch.LinuxParameters(self, "Linux", init_process_enabled=True),
            environment=dict(environment),
            logging=ecs.LogDriver.aws_logs(stream_prefix="orchestrator", log_group=self.log_group),
        )


def retry_strategies() -> list[batch.RetryStrategy]:
    """Return what Batch does when a child ends: give up after the exit codes that are for good, else try again.

    Only what a child has said of itself ends it for good. Batch tries again what matches no entry
    (https://docs.aws.amazon.com/batch/latest/userguide/job_retries.html): a child that asks for it (75), that was
    killed (137: out of memory, or by a host that goes), and all in which Fargate fails before it runs or while it does,
    of which there is no list: a network interface that is not provided in time, ResourceInitializationError, an image
    that is not pulled, a host under maintenance. Batch never tries again what a user has terminated, or a timeout has.
    """
    codes = (batch.Reason.custom(on_exit_code=str(code)) for code in FOR_GOOD)
    return [batch.RetryStrategy.of(batch.Action.EXIT, code) for code in codes]
