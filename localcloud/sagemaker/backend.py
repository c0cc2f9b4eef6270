"""SageMaker backend: replaces moto's training jobs, and keeps the rest of moto's SageMaker.

In moto 5.2.5, jobs are Completed at once without running, names can be reused, requests are not checked,
StopTrainingJob is missing, and ListTrainingJobs filters names and times after it has cut the page.
"""

import json
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from moto.core.responses import ActionResult
from moto.sagemaker import urls
from moto.sagemaker.exceptions import AWSValidationException, ResourceInUseException, ResourceNotFound
from moto.sagemaker.models import SageMakerModelBackend, sagemaker_backends
from moto.sagemaker.responses import SageMakerResponse

from localcloud.sagemaker import quotas, request_rules
from localcloud.sagemaker.algorithm_resources import Algorithms
from localcloud.sagemaker.host_capacity import HostCapacity
from localcloud.sagemaker.job import TrainingJob
from localcloud.sagemaker.listing import page
from localcloud.sagemaker.model_registry import ModelRegistry
from localcloud.sagemaker.runner import Runner
from localcloud.sagemaker.runners import Runners
from localcloud.sagemaker.search import search
from localcloud.sagemaker.training_plans import TrainingPlans
from localcloud.wire import service_model

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

MAX_TAGS = 50


class TrainingBackend(SageMakerModelBackend):
    """The SageMaker of one account and Region.

    Attributes:
        capacity: Capacity for the hosts of all Regions on this machine.
        runners: All runners of this localcloud, in every Region.
        plans: The training plans of all accounts and Regions.
    """

    cloud: ClassVar["LocalCloud"]
    capacity: ClassVar[HostCapacity]
    runners: ClassVar[Runners]
    plans: ClassVar[TrainingPlans]

    def __init__(self, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.training_jobs: dict[str, TrainingJob] = {}
        self.algorithms = Algorithms(account_id, region_name)
        self.registry = ModelRegistry(account_id, region_name)
        self._creation_lock = threading.Lock()

    @property
    def _url_module(self) -> Any:
        """Return moto's URL module, because moto derives it from the class's module, which is ours."""
        return urls

    def create(self, request: Mapping[str, Any]) -> TrainingJob:
        """CreateTrainingJob: check the request, reserve the name, and start the job.

        Raises:
            AWSValidationException: If the request is refused.
            ResourceInUseException: If a job with this name exists in this account and Region.
            ResourceLimitExceeded: If a quota is used up.
        """
        validate("CreateTrainingJob", request)
        name = str(request["TrainingJobName"])
        with self._creation_lock:
            self._refuse_used(name)
            stub = self.cloud.faults.stub(self.region_name, name)
            specification = (request.get("AlgorithmSpecification") or {}) if stub else self.algorithms.resolved(request)
            resolved = {**request, "AlgorithmSpecification": specification}
            request_rules.check(resolved, self.account_id, self.region_name, stub=stub is not None)
            self.plans.check(request, self.account_id, self.region_name)
            quotas.check(self.cloud, self.account_id, self.region_name, request, self.training_jobs.values())
            job = TrainingJob(request, self.account_id, self.region_name, specification)
            runner = Runner(self.cloud, job, stub, self.capacity, self.plans)
            self.runners.add(runner)
            self.training_jobs[name] = job
        self.runners.start(runner)
        return job

    def _refuse_used(self, name: str) -> None:
        """Refuse the name of an existing job; names can be reused after DeleteTrainingJob."""
        job = self.training_jobs.get(name)
        if job is not None:
            raise ResourceInUseException(
                "Training job names must be unique within an AWS account and region, and a training job with this "
                f"name already exists ({job.arn})"
            )

    def get(self, name: str) -> TrainingJob:
        """Return a job by name.

        Raises:
            AWSValidationException: If it does not exist; SageMaker uses this error instead of ResourceNotFound.
        """
        job = self.training_jobs.get(name)
        if job is None or not self._is_visible(job):
            raise AWSValidationException("Requested resource not found.")
        return job

    def shown(self) -> list[TrainingJob]:
        """Return all jobs that SageMaker shows now."""
        return [job for job in list(self.training_jobs.values()) if self._is_visible(job)]

    def _is_visible(self, job: TrainingJob) -> bool:
        """Return True if a job is visible; a fault plan can hide newly created jobs for some time."""
        lag = self.cloud.faults.lag(self.region_name)
        return not lag or (datetime.now(UTC) - job.creation_time).total_seconds() >= lag

    def stop(self, name: str) -> None:
        """StopTrainingJob; refuses a job that has ended (text: github.com/awslabs/benchmark-ai/issues/928)."""
        job = self.get(name)
        with job.lock:
            if job.progress.is_final:
                raise AWSValidationException(
                    f"The request was rejected because the training job is in status {job.progress.status}."
                )
            self.runners.of(job.arn).stop()

    def delete(self, name: str) -> None:
        """DeleteTrainingJob: delete a job that has ended; its name can be reused (API reference).

        Raises:
            ResourceInUseException: If it has not ended. The text is ours, because AWS's is not public.
            ResourceNotFound: If it does not exist.
        """
        with self._creation_lock:
            job = self.training_jobs.get(name)
            if job is None:
                raise ResourceNotFound("Requested resource not found.")
            if not job.progress.is_final:
                raise ResourceInUseException(
                    f"The training job {name} is in status {job.progress.status}; only ended jobs can be deleted"
                )
            self.runners.of(job.arn).join()  # otherwise it would delete the folder of the next job with this name
            del self.training_jobs[name]

    def add_tags(self, arn: str, tags: list[dict[str, str]]) -> list[dict[str, str]]:
        """Replace the values of existing keys (moto adds a second entry), and enforce the limit."""
        resource = self._get_resource_from_arn(arn)
        merged = {tag["Key"]: tag["Value"] for tag in (*(resource.tags or []), *tags)}
        if len(merged) > MAX_TAGS:
            raise AWSValidationException(
                f"A resource can have at most {MAX_TAGS} tags, and this one would have {len(merged)}"
            )
        resource.tags = [{"Key": key, "Value": value} for key, value in merged.items()]
        return list(resource.tags)

    def _get_resource_from_arn(self, arn: str) -> Any:
        """Refuse a resource that does not exist; with moto's method, this fails later with an AttributeError."""
        resource = super()._get_resource_from_arn(arn)
        if resource is None:
            raise AWSValidationException("Requested resource not found.")
        return resource


def validate(operation: str, request: Mapping[str, Any]) -> None:
    """Check a request against SageMaker's service model.

    Raises:
        AWSValidationException: If it violates the model.
    """
    problems = service_model.violations("sagemaker", operation, request)
    if problems:
        raise AWSValidationException(service_model.sentence(problems))


class TrainingResponse(SageMakerResponse):
    """HTTP handlers that pass whole requests to the backend and return whole documents."""

    @property
    def _request(self) -> dict[str, Any]:
        return dict(json.loads(self.body or "{}"))

    def create_training_job(self) -> ActionResult:
        """Pass the whole request to the backend; moto passes only some members."""
        return ActionResult({"TrainingJobArn": self.sagemaker_backend.create(self._request).arn})

    def describe_training_job(self) -> ActionResult:
        """Describe a job; moto's message for a missing job differs from AWS's."""
        validate("DescribeTrainingJob", self._request)
        return ActionResult(self.sagemaker_backend.get(self._request["TrainingJobName"]).response_object)

    def stop_training_job(self) -> ActionResult:
        """Stop a job; moto lacks this operation."""
        validate("StopTrainingJob", self._request)
        self.sagemaker_backend.stop(self._request["TrainingJobName"])
        return ActionResult({})

    def delete_training_job(self) -> ActionResult:
        """Delete a job that has ended; moto also deletes running jobs."""
        validate("DeleteTrainingJob", self._request)
        self.sagemaker_backend.delete(self._request["TrainingJobName"])
        return ActionResult({})

    def list_training_jobs(self) -> ActionResult:
        """List jobs; moto filters after it has cut the page, and does not sort."""
        request = {name: _time(name, value) for name, value in self._request.items()}
        validate("ListTrainingJobs", self._request)
        jobs, token = page(self.sagemaker_backend.shown(), request)
        reply: dict[str, Any] = {"TrainingJobSummaries": [job.summary() for job in jobs]}
        if token:
            reply["NextToken"] = token
        return ActionResult(reply)

    def search(self) -> ActionResult:
        """Search training jobs; moto's search fails for these jobs."""
        if self._request.get("Resource") != "TrainingJob":
            return super().search()
        validate("Search", self._request)
        records, token = search(self.sagemaker_backend.shown(), self._request)
        reply: dict[str, Any] = {"Results": [{"TrainingJob": record} for record in records]}
        if token:
            reply["NextToken"] = token
        return ActionResult(reply)

    def create_algorithm(self) -> ActionResult:
        """Create an algorithm resource; moto lacks this operation."""
        validate("CreateAlgorithm", self._request)
        return ActionResult({"AlgorithmArn": self.sagemaker_backend.algorithms.create(self._request)})

    def describe_algorithm(self) -> ActionResult:
        """Describe an algorithm resource by its name or ARN; moto lacks this operation."""
        validate("DescribeAlgorithm", self._request)
        return ActionResult(self.sagemaker_backend.algorithms.describe(self._request["AlgorithmName"]))

    def delete_algorithm(self) -> ActionResult:
        """Delete an algorithm resource; moto lacks this operation."""
        validate("DeleteAlgorithm", self._request)
        self.sagemaker_backend.algorithms.delete(self._request["AlgorithmName"])
        return ActionResult({})

    def create_model_package_group(self) -> ActionResult:
        """Create a model group; moto replaces an existing one."""
        validate("CreateModelPackageGroup", self._request)
        backend = self.sagemaker_backend
        backend.registry.refuse_existing_group(self._request["ModelPackageGroupName"], backend.model_package_groups)
        return super().create_model_package_group()

    def delete_model_package_group(self) -> ActionResult:
        """Delete a model group; moto lacks this operation."""
        validate("DeleteModelPackageGroup", self._request)
        backend, name = self.sagemaker_backend, self._request["ModelPackageGroupName"]
        backend.registry.delete_group(name, backend.model_package_groups, backend.model_packages.values())
        return ActionResult({})

    def create_model_package(self) -> ActionResult:
        """Create a model package once for each token, after checks that moto lacks."""
        validate("CreateModelPackage", self._request)
        results: list[ActionResult] = []

        def create() -> str:
            results.append(super(TrainingResponse, self).create_model_package())
            return str(results[0].result["ModelPackageArn"])

        return ActionResult({"ModelPackageArn": self.sagemaker_backend.registry.once(self._request, create)})

    def describe_model_package(self) -> ActionResult:
        """Describe a model package after a check against the service model."""
        validate("DescribeModelPackage", self._request)
        return super().describe_model_package()

    def describe_model_package_group(self) -> ActionResult:
        """Describe a model group after a check against the service model."""
        validate("DescribeModelPackageGroup", self._request)
        return super().describe_model_package_group()

    def list_training_plans(self) -> ActionResult:
        """List training plans; moto lacks this operation."""
        validate("ListTrainingPlans", self._request)
        request = {name: _time(name, value) for name, value in self._request.items()}
        backend = self.sagemaker_backend
        return ActionResult(backend.plans.listed(backend.account_id, backend.region_name, request))

    def describe_training_plan(self) -> ActionResult:
        """Describe a training plan by its name; moto lacks this operation."""
        validate("DescribeTrainingPlan", self._request)
        backend, name = self.sagemaker_backend, self._request["TrainingPlanName"]
        for plan in backend.plans.of(backend.account_id, backend.region_name):
            if plan.name == name:
                return ActionResult(backend.plans.described(plan))
        raise ResourceNotFound("Requested resource not found.")


def _time(name: str, value: Any) -> Any:
    """Convert times from seconds since 1970 (AWS JSON protocol)."""
    return datetime.fromtimestamp(float(value), UTC) if "Time" in name and isinstance(value, int | float) else value


def replace(cloud: "LocalCloud") -> None:
    """Make moto create and serve our backend."""
    TrainingBackend.cloud = cloud
    TrainingBackend.capacity = HostCapacity(cloud.settings.training_hosts)
    TrainingBackend.runners = Runners()
    TrainingBackend.plans = TrainingPlans()
    cloud.replace(sagemaker_backends, backend=TrainingBackend)
    sagemaker_backends.clear()
    cloud.extend(urls.url_paths, dict.fromkeys(urls.url_paths, TrainingResponse.dispatch))
