"""AWS Batch: fair-share queues, quota shares and networks."""

from conformance.aws import Aws, refused
from conformance.claim import claim, documented
from conformance.resources.batch import Batch
from conformance.sources import model, page

_SHARE = model("batch", "SubmitJobRequest", "if the job queue doesn't have a fair-share scheduling policy")


def _shared_queue(aws: Aws) -> str:
    batch, name = Batch.of(aws), aws.name("policy")
    policy = batch.api.create_scheduling_policy(
        name=name, fairsharePolicy={"shareDistribution": [{"shareIdentifier": "a"}]}, tags=aws.tag_map
    )["arn"]
    aws.undo.later(f"scheduling policy {name}", lambda: batch.api.delete_scheduling_policy(arn=policy))
    return batch.new_queue(policy)


@claim(_SHARE, used_by="traingrid/aws/batch.py traingrid/grid/queues.py")
def share_is_refused_without_a_policy(aws: Aws) -> None:
    """SubmitJob with a share identifier is refused by a queue without a scheduling policy."""
    batch = Batch.of(aws)
    with refused("ClientException"):
        batch.submit(batch.define("nothing"), shareIdentifier="a")


@claim(_SHARE, used_by="traingrid/aws/batch.py traingrid/grid/queues.py")
def share_is_required_with_a_policy(aws: Aws) -> None:
    """A queue with a scheduling policy refuses SubmitJob without a share identifier, and accepts it with one."""
    batch = Batch.of(aws)
    queue = aws.once("queue/shared", lambda: _shared_queue(aws))
    definition = batch.define("nothing", schedulingPriority=1)
    with refused("ClientException"):
        batch.submit(definition, jobQueue=queue)
    batch.ended(batch.submit(definition, jobQueue=queue, shareIdentifier="a"))


@claim(
    model("batch", "CreateJobQueueRequest", "have a fair-share scheduling policy added"),
    used_by="stacks/orchestrator.py",
    not_modelled="a queue may gain a scheduling policy by an update",
)
def queue_cannot_gain_a_policy(aws: Aws) -> None:
    """A scheduling policy cannot be added to an existing queue, so enabling shares requires a new queue."""
    batch = Batch.of(aws)
    plain = batch.new_queue()
    shared = aws.once("queue/shared", lambda: _shared_queue(aws))
    (found,) = batch.api.describe_job_queues(jobQueues=[shared])["jobQueues"]
    with refused("ClientException"):
        batch.api.update_job_queue(jobQueue=plain, schedulingPolicyArn=found["schedulingPolicyArn"])


@documented(
    page(
        "https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task_cannot_pull_image.html",
        "it's because a route to the internet doesn't exist",
    ),
    used_by="stacks/network.py stacks/endpoints.py",
    why="it requires a subnet without a route in the account, where jobs fail only after minutes",
    not_modelled="VPCs: routes, endpoints and security groups do not restrict connections",
)
def child_needs_a_route_to_services(aws: Aws) -> None:
    """A Fargate job in a subnet without a route to ECR and CloudWatch Logs does not start."""


@documented(
    page(
        "https://docs.aws.amazon.com/batch/latest/userguide/quota-shares.html",
        "cross-share preemption to restore borrowed capacity back to a quota share",
    ),
    model("batch", "ServiceJobPreemptionConfiguration", "preempted jobs will be requeued an unlimited number of times"),
    used_by="stacks/service_queues.py traingrid/backends/queued/jobs.py",
    why="preemption requires instances in two shares, which exceeds the budget",
    not_modelled="preemption between quota shares",
)
def borrowed_instances_are_taken_back(aws: Aws) -> None:
    """A quota share reclaims the instances that it lent: the borrower's training job is stopped and requeued."""


@documented(
    page("https://github.com/dask/dask-cloudprovider/issues/299", "require too many VCPUs for a new AWS account"),
    page(
        "https://docs.aws.amazon.com/batch/latest/userguide/job_states.html",
        "jobs can remain in this state indefinitely",
    ),
    used_by="docs/quotas.md traingrid/grid/orchestrator.py",
    why="the limit depends on the account",
)
def young_account_has_few_fargate_vcpus(aws: Aws) -> None:
    """A new account can run few Fargate vCPUs concurrently; Batch keeps other jobs RUNNABLE until capacity is free."""


@documented(
    page(
        "https://docs.aws.amazon.com/aws-managed-policy/latest/reference/BatchServiceRolePolicy.html", "ecs:TagResource"
    ),
    page(
        "https://github.com/snakemake/snakemake-executor-plugin-aws-batch/pull/48",
        "the AWS Batch service role requires ecs:TagResource permissions",
    ),
    used_by="stacks/orchestrator.py",
    why="no recorded response shows which principal ECS requires ecs:TagResource from",
)
def propagated_tags_need_no_permission_of_ours(aws: Aws) -> None:
    """With propagateTags, the service-linked role of AWS Batch tags the ECS tasks, not the caller of SubmitJob."""
