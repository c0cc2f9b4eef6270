"""Resources in which service jobs wait: service environments, SAGEMAKER_TRAINING queues, and quota shares."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moto.batch.exceptions import ClientException

from localcloud.batch.waiting_jobs import WaitingJobs
from localcloud.credentials.arn import name_of_arn

KIND = "SAGEMAKER_TRAINING"
ANY_TYPE = "NUM_INSTANCES"
MAX_SHARES = 20
"""User Guide, "AWS Batch service quotas": maximum number of quota shares of a queue."""


@dataclass(kw_only=True)
class Environment:
    """A service environment."""

    name: str
    arn: str
    limits: dict[str, int]
    state: str = "ENABLED"

    @property
    def has_quota(self) -> bool:
        """Return True if its queue has quota shares, because its capacity is counted by instance type."""
        return ANY_TYPE not in self.limits

    def describe(self) -> dict[str, Any]:
        """Return the ServiceEnvironmentDetail of the API reference."""
        limits = [{"capacityUnit": unit, "maxCapacity": limit} for unit, limit in self.limits.items()]
        return {
            "serviceEnvironmentName": self.name,
            "serviceEnvironmentArn": self.arn,
            "serviceEnvironmentType": KIND,
            "state": self.state,
            "status": "VALID",
            "capacityLimits": limits,
        }


@dataclass(kw_only=True)
class QuotaShare:
    """A quota share: a reserved number of instances of each type."""

    name: str
    arn: str
    limits: dict[str, int]
    may_borrow: bool


@dataclass(kw_only=True, eq=False)
class Queue:
    """A queue of service jobs.

    Attributes:
        policy: The ARN of its scheduling policy; None if it is first in, first out.
        jobs: All service jobs ever submitted to it, each a `localcloud.batch.service_jobs.jobs.ServiceJob`.
    """

    name: str
    arn: str
    environment: Environment
    policy: str | None = None
    priority: int = 1
    state: str = "ENABLED"
    shares: dict[str, QuotaShare] = field(default_factory=dict)
    waiting: WaitingJobs[Any] = field(default_factory=WaitingJobs)
    jobs: list[Any] = field(default_factory=list)

    def describe(self) -> dict[str, Any]:
        """Return the JobQueueDetail of the API reference."""
        description = {
            "jobQueueName": self.name,
            "jobQueueArn": self.arn,
            "jobQueueType": KIND,
            "state": self.state,
            "status": "VALID",
            "statusReason": "JobQueue Healthy",
            "priority": self.priority,
            "computeEnvironmentOrder": [],
            "serviceEnvironmentOrder": [{"order": 1, "serviceEnvironment": self.environment.arn}],
        }
        if self.policy:
            description["schedulingPolicyArn"] = self.policy
        return description


class ServiceResources:
    """Stores the service environments and service queues of one account and Region."""

    def __init__(self, region: str, account: str) -> None:
        self._prefix = f"arn:aws:batch:{region}:{account}"
        self.environments: dict[str, Environment] = {}
        self.queues: dict[str, Queue] = {}

    def environment(self, identifier: str) -> Environment:
        """Return a service environment by name or ARN."""
        name = name_of_arn(identifier)
        if name not in self.environments:
            raise ClientException(f"Service environment {identifier} does not exist")
        return self.environments[name]

    def queue(self, identifier: str) -> Queue | None:
        """Return a queue of service jobs by name or ARN, or None if it does not exist."""
        return self.queues.get(name_of_arn(identifier))

    def create_environment(self, request: Mapping[str, Any]) -> Environment:
        """CreateServiceEnvironment."""
        name = str(request["serviceEnvironmentName"])
        if name in self.environments:
            raise ClientException(f"Object already exists: service environment {name}")
        if request.get("serviceEnvironmentType") != KIND:
            raise ClientException(f"serviceEnvironmentType must be {KIND}")
        environment = Environment(
            name=name, arn=f"{self._prefix}:service-environment/{name}", limits=_limits(request["capacityLimits"])
        )
        self.environments[name] = environment
        return environment

    def update_environment(self, request: Mapping[str, Any]) -> Environment:
        """UpdateServiceEnvironment."""
        environment = self.environment(str(request["serviceEnvironment"]))
        environment.state = str(request.get("state") or environment.state)
        if request.get("capacityLimits"):
            environment.limits = _limits(request["capacityLimits"])
        return environment

    def delete_environment(self, request: Mapping[str, Any]) -> None:
        """DeleteServiceEnvironment: refuse an environment that is enabled or used by a queue (API reference)."""
        environment = self.environment(str(request["serviceEnvironment"]))
        queue_names = [queue.name for queue in self.queues.values() if queue.environment is environment]
        if queue_names or environment.state == "ENABLED":
            reason = f"queue {queue_names[0]} uses it" if queue_names else "it is ENABLED"
            raise ClientException(f"Cannot delete service environment {environment.name}: {reason}")
        del self.environments[environment.name]

    def create_queue(self, request: Mapping[str, Any]) -> Queue:
        """CreateJobQueue with a serviceEnvironmentOrder of at most one environment (service quotas)."""
        name = str(request["jobQueueName"])
        order = request["serviceEnvironmentOrder"]
        if name in self.queues:
            raise ClientException(f"Job queue {name} already exists")
        if request.get("jobQueueType") != KIND or len(order) != 1:
            raise ClientException(f"jobQueueType must be {KIND} for service queues, with exactly one environment")
        queue = Queue(
            name=name,
            arn=f"{self._prefix}:job-queue/{name}",
            environment=self.environment(str(order[0]["serviceEnvironment"])),
            policy=request.get("schedulingPolicyArn"),
            priority=int(request.get("priority") or 0),
            state=str(request.get("state") or "ENABLED"),
        )
        self.queues[name] = queue
        return queue

    def update_queue(self, queue: Queue, request: Mapping[str, Any]) -> None:
        """UpdateJobQueue: a policy can be replaced but not added or removed (API reference, CreateJobQueue)."""
        policy = request.get("schedulingPolicyArn")
        if policy and not queue.policy:
            raise ClientException(f"Job queue {queue.name} has no scheduling policy, and a policy cannot be added")
        queue.policy = policy or queue.policy
        queue.state = str(request.get("state") or queue.state)
        queue.priority = int(request.get("priority") or queue.priority)

    def create_share(self, request: Mapping[str, Any]) -> QuotaShare:
        """CreateQuotaShare."""
        queue = self.queue(str(request["jobQueue"]))
        name = str(request["quotaShareName"])
        if queue is None or not queue.environment.has_quota:
            raise ClientException(f"JobQueue {request['jobQueue']} has no quota management")
        if name in queue.shares or len(queue.shares) == MAX_SHARES:
            raise ClientException(f"Quota share {name} already exists, or {queue.name} already has {MAX_SHARES} shares")
        share = QuotaShare(
            name=name,
            arn=f"{queue.arn}/quota-share/{name}",
            limits=_limits(request["capacityLimits"]),
            may_borrow=(request.get("resourceSharingConfiguration") or {}).get("strategy") == "LEND_AND_BORROW",
        )
        queue.shares[name] = share
        return share

    def queue_and_share(self, arn: str) -> tuple[Queue, QuotaShare]:
        """Return the queue of a quota share, and the share, by the share's ARN."""
        queue = self.queue(arn.partition("/quota-share/")[0])
        share = queue.shares.get(name_of_arn(arn)) if queue else None
        if queue is None or share is None:
            raise ClientException(f"Quota share {arn} does not exist")
        return queue, share


def _limits(limits: list[Mapping[str, Any]]) -> dict[str, int]:
    limit_by_unit = {str(limit["capacityUnit"]): int(limit["maxCapacity"]) for limit in limits}
    if not limit_by_unit or (ANY_TYPE in limit_by_unit and len(limit_by_unit) > 1):
        raise ClientException(f"capacityLimits must be one limit of {ANY_TYPE}, or limits of instance types")
    return limit_by_unit
