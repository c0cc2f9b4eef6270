"""Training plans: reserved instances, which localcloud's user adds in place of buying them.

`POST /localcloud/training-plans` with the members of `Plan` adds a plan or replaces it, for example

    {"region": "us-east-1", "name": "reserved", "instance_type": "ml.p5.48xlarge", "instances": 2,
     "starts_at": "2026-11-23T00:00:00Z", "ends_at": "2026-11-30T00:00:00Z"}

With 0 instances, it removes the plan. SearchTrainingPlanOfferings and CreateTrainingPlan, which buy a plan in AWS, are
not supported. Running jobs are not ended before the end of a plan.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal

from moto.sagemaker.exceptions import AWSValidationException
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from werkzeug.wrappers import Request, Response

from localcloud.credentials.account import account
from localcloud.sagemaker.host_capacity import HostCapacity

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

PAGE = "/localcloud/training-plans"
USABLE = ("Scheduled", "Active")
"""A training job may use a plan in these states
(https://docs.aws.amazon.com/sagemaker/latest/dg/training-plan-utilization-for-training-jobs.html)."""
_LISTED = 10
"""Plans of a page without MaxResults; the service model allows up to 100."""


class Plan(BaseModel):
    """A training plan with one reserved capacity.

    Attributes:
        account: The account; the server's own if empty.
        instances: Their number; 0 removes the plan.
        target: The resource that may use the plan.
        failed: True if its payment has failed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    account: str = ""
    region: str
    name: str = Field(pattern=r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,63}$")
    instance_type: str
    instances: int = Field(ge=0)
    starts_at: AwareDatetime
    ends_at: AwareDatetime
    target: Literal["training-job", "hyperpod-cluster", "endpoint", "studio-apps"] = "training-job"
    failed: bool = False

    @property
    def owner(self) -> str:
        """The account of the plan."""
        return self.account or account()

    @property
    def arn(self) -> str:
        """The plan's ARN."""
        return f"arn:aws:sagemaker:{self.region}:{self.owner}:training-plan/{self.name}"

    @property
    def status(self) -> str:
        """The state now (https://docs.aws.amazon.com/sagemaker/latest/dg/training-plan-details-using-api-cli-sdk.html)."""
        if self.failed:
            return "Failed"
        now = datetime.now(UTC)
        if now < self.starts_at:
            return "Scheduled"
        return "Active" if now < self.ends_at else "Expired"


class TrainingPlans:
    """The training plans of all accounts and Regions. Thread-safe."""

    def __init__(self) -> None:
        self._plans: dict[str, Plan] = {}
        self._capacities: dict[str, HostCapacity] = {}
        self._lock = threading.Lock()

    def put(self, plan: Plan) -> None:
        """Add, replace or remove a plan; the jobs that use the replaced one no longer count."""
        with self._lock:
            self._plans.pop(plan.arn, None)
            if plan.instances:
                self._plans[plan.arn] = plan
                self._capacities[plan.arn] = HostCapacity(plan.instances)

    def find(self, arn: str) -> Plan | None:
        """Return a plan by its ARN."""
        with self._lock:
            return self._plans.get(arn)

    def of(self, owner: str, region: str) -> list[Plan]:
        """Return the plans of an account in a Region."""
        with self._lock:
            return [plan for plan in self._plans.values() if (plan.owner, plan.region) == (owner, region)]

    def described(self, plan: Plan) -> dict[str, Any]:
        """Return a plan as ListTrainingPlans and DescribeTrainingPlan describe it."""
        instances_in_use = self._capacities[plan.arn].in_use
        hours = int((plan.ends_at - plan.starts_at).total_seconds() // 3600)
        capacity = {
            "ReservedCapacityArn": plan.arn.replace(":training-plan/", ":reserved-capacity/"),
            "InstanceType": plan.instance_type,
            "TotalInstanceCount": plan.instances,
            "Status": plan.status,
            "AvailabilityZone": f"{plan.region}a",
            "DurationHours": hours,
            "StartTime": plan.starts_at,
            "EndTime": plan.ends_at,
        }
        return {
            "TrainingPlanArn": plan.arn,
            "TrainingPlanName": plan.name,
            "Status": plan.status,
            "DurationHours": hours,
            "StartTime": plan.starts_at,
            "EndTime": plan.ends_at,
            "TotalInstanceCount": plan.instances,
            "AvailableInstanceCount": plan.instances - instances_in_use if plan.status == "Active" else 0,
            "InUseInstanceCount": instances_in_use,
            "TargetResources": [plan.target],
            "ReservedCapacitySummaries": [capacity],
        }

    def listed(self, owner: str, region: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reply of ListTrainingPlans.

        Raises:
            AWSValidationException: The token is invalid.
        """
        token = str(request.get("NextToken") or "0")
        if not token.isdigit():
            raise AWSValidationException("Invalid pagination token.")
        statuses = {condition["Value"] for condition in request.get("Filters") or []}
        summaries = [self.described(plan) for plan in self.of(owner, region) if not statuses or plan.status in statuses]
        after, before = request.get("StartTimeAfter"), request.get("StartTimeBefore")
        summaries = [summary for summary in summaries if (not after or summary["StartTime"] > after)]
        summaries = [summary for summary in summaries if (not before or summary["StartTime"] < before)]
        order = request.get("SortBy", "TrainingPlanName")
        summaries.sort(key=lambda summary: summary[order], reverse=request.get("SortOrder") == "Descending")
        start = int(token)
        size = int(request.get("MaxResults") or _LISTED)
        more = {"NextToken": str(start + size)} if start + size < len(summaries) else {}
        return {"TrainingPlanSummaries": summaries[start : start + size], **more}

    def check(self, request: Mapping[str, Any], owner: str, region: str) -> None:
        """Check the training plan of a CreateTrainingJob request.

        The rules are those of
        https://docs.aws.amazon.com/sagemaker/latest/dg/use-training-plan-for-training-jobs-using-api-cli-sdk.html and
        training-plan-utilization-for-training-jobs.html. The texts are ours, because no record of AWS's was found. Jobs
        also count towards the quotas on training instances; AWS does not document whether they do.

        Raises:
            AWSValidationException: The job cannot use the plan.
        """
        resources = request.get("ResourceConfig") or {}
        arn = resources.get("TrainingPlanArn")
        if not arn:
            return
        plan = self.find(arn)
        if plan is None or (plan.owner, plan.region) != (owner, region):
            raise AWSValidationException(f"Training plan {arn} does not exist in this account and Region")
        for refusal in _refusals(plan, request, resources):
            raise AWSValidationException(f"Invalid TrainingPlanArn {arn}. {refusal}")

    @contextmanager
    def held(self, request: Mapping[str, Any], given_up: threading.Event) -> Iterator[bool]:
        """Wait until a job's plan is active and has instances, and hold these while the block runs.

        Yields:
            True if the job may start, at once if it has no plan; False if it was given up, or the plan has ended.
        """
        resources = request.get("ResourceConfig") or {}
        arn = str(resources.get("TrainingPlanArn") or "")
        if not arn:
            yield True
            return
        with self._lock:
            capacity = self._capacities[arn]
        while (plan := self.find(arn)) and plan.status == "Scheduled" and not given_up.wait(0.1):
            continue
        if plan is None or plan.status != "Active":
            yield False
            return
        with capacity.held(int(resources["InstanceCount"]), given_up) as has_instances:
            yield has_instances


def _refusals(plan: Plan, request: Mapping[str, Any], resources: Mapping[str, Any]) -> Iterator[str]:
    if plan.status not in USABLE:
        yield f"Its status is {plan.status}; it must be {' or '.join(USABLE)}"
    if plan.target != "training-job":
        yield f"Its target resource is {plan.target}; it must be training-job"
    if resources.get("InstanceType") != plan.instance_type:
        yield f"Its instance type is {plan.instance_type}; InstanceType must match it"
    if request.get("EnableManagedSpotTraining"):
        yield "EnableManagedSpotTraining is not supported with a training plan"
    if int(resources.get("InstanceCount") or 0) > plan.instances:
        yield f"It has {plan.instances} instances; localcloud refuses larger jobs, which would wait for two days"


def install(cloud: "LocalCloud", plans: TrainingPlans) -> None:
    """Register the page."""
    cloud.pages[PAGE] = lambda request: _page(plans, request)


def _page(plans: TrainingPlans, request: Request) -> Response:
    if request.method != "POST":
        return Response("Use POST.\n", HTTPStatus.METHOD_NOT_ALLOWED)
    try:
        plan = Plan.model_validate_json(request.get_data() or b"{}")
    except ValidationError as error:
        return Response(f"Nothing was added: {error}\n", HTTPStatus.BAD_REQUEST)
    plans.put(plan)
    return Response(json.dumps({"TrainingPlanArn": plan.arn, "Status": plan.status}), mimetype="application/json")
