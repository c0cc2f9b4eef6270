"""Service queues: scheduling policies by weight, and the queues of SageMaker training jobs in the training Regions."""

from aws_cdk import aws_batch as batch
from constructs import Construct

from traingrid import names
from traingrid.grid.model import GridSettings
from traingrid.grid.queues import ONLY_SHARE, ServiceQueue


def shared_by_weight(
    scope: Construct, identifier: str, *, name: str, grid: GridSettings
) -> batch.FairshareSchedulingPolicy:
    """Return a scheduling policy that divides a queue's capacity between the grid's shares by their weights.

    Within a share, jobs with a higher priority start first. A queue without a policy ignores priorities
    (schedulingPriority in https://docs.aws.amazon.com/batch/latest/APIReference/API_SubmitServiceJob.html).
    """
    weights = grid.shares or {ONLY_SHARE: 1}
    return batch.FairshareSchedulingPolicy(
        scope,
        identifier,
        scheduling_policy_name=name,
        # Batch's weight factor is inverse: a lower one gets more capacity. It ranges from 0.0001 to 999.9999
        # (https://docs.aws.amazon.com/batch/latest/APIReference/API_ShareAttributes.html).
        shares=[
            batch.Share(share_identifier=share, weight_factor=round(1 / weight, 4)) for share, weight in weights.items()
        ],
    )


class TrainingQueue(Construct):
    """A Region's service queue: its service environment, its scheduling policy, and its quota shares, if any.

    Batch starts its jobs with the service-linked role AWSServiceRoleForAWSBatchWithSagemaker, which it creates with the
    account's first service environment
    (https://docs.aws.amazon.com/batch/latest/userguide/using-service-linked-roles-batch-sagemaker.html).
    """

    def __init__(self, scope: Construct, identifier: str, *, grid: GridSettings, settings: ServiceQueue) -> None:
        super().__init__(scope, identifier)
        self._name = names.service_queue(grid.name, quota=bool(settings.quota_shares))
        # Batch cannot change the resources of a queue between with and without quota shares, so they differ in name.
        kind = "Quota" if settings.quota_shares else ""
        environment = batch.CfnServiceEnvironment(
            self,
            f"{kind}Environment",
            service_environment_name=self._name,
            service_environment_type="SAGEMAKER_TRAINING",
            state="ENABLED",
            capacity_limits=[
                batch.CfnServiceEnvironment.CapacityLimitProperty(capacity_unit=unit, max_capacity=limit)
                for unit, limit in settings.limits().items()
            ],
        )
        self.queue = batch.CfnJobQueue(
            self,
            f"{kind}Queue",
            job_queue_name=self._name,
            job_queue_type="SAGEMAKER_TRAINING",
            priority=1,
            state="ENABLED",
            scheduling_policy_arn=self._policy(kind, grid),
            service_environment_order=[
                batch.CfnJobQueue.ServiceEnvironmentOrderProperty(
                    order=1, service_environment=environment.attr_service_environment_arn
                )
            ],
        )
        for share, types in settings.quota_shares.items():
            self._quota_share(share, types, lend=settings.lend)

    def _policy(self, kind: str, grid: GridSettings) -> str:
        if not kind:
            return shared_by_weight(self, "Policy", name=self._name, grid=grid).scheduling_policy_arn
        first_come = batch.CfnSchedulingPolicy.QuotaSharePolicyProperty(idle_resource_assignment_strategy="FIFO")
        policy = batch.CfnSchedulingPolicy(self, "QuotaPolicy", name=self._name, quota_share_policy=first_come)
        return policy.attr_arn

    def _quota_share(self, share: str, types: dict[str, int], *, lend: bool) -> None:
        """Add a quota share. Only shares that borrow can be preempted, and never by jobs of the same share."""
        batch.CfnQuotaShare(
            self,
            f"Share-{share}",
            quota_share_name=share,
            job_queue=self.queue.attr_job_queue_arn,
            state="ENABLED",
            capacity_limits=[
                batch.CfnQuotaShare.QuotaShareCapacityLimitProperty(capacity_unit=unit, max_capacity=limit)
                for unit, limit in types.items()
            ],
            resource_sharing_configuration=batch.CfnQuotaShare.QuotaShareResourceSharingConfigurationProperty(
                strategy="LEND_AND_BORROW" if lend else "RESERVE"
            ),
            preemption_configuration=batch.CfnQuotaShare.QuotaSharePreemptionConfigurationProperty(
                in_share_preemption="DISABLED"
            ),
        )
