"""Creation: creates training jobs of SageMaker once each, directly or through another service, and attaches to them."""

from dataclasses import replace
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

from traingrid import names
from traingrid.aws.outage import is_expired, is_outage
from traingrid.aws.s3 import Storage
from traingrid.backends.base import LaunchError
from traingrid.backends.sagemaker.request import confined, fingerprint, training_job_request
from traingrid.errors import UsageError
from traingrid.grid.deployment import Deployment
from traingrid.job.channels import channels_split_by_rank
from traingrid.job.failures import DATA, PERMISSION, PERMISSION_DELAY, SERVICE_ERROR, Failure, failure_of_refusal
from traingrid.job.job import Job
from traingrid.job.observed import Describer, TrainingJobDescription
from traingrid.job.ownership import conflict
from traingrid.job.rank_manifests import write_rank_manifests

DELAYS = 5
"""The number of refusals of CreateTrainingJob for a permission that a child retries, within 31 to 62 seconds."""
# After these errors, CreateTrainingJob may have created the training job nevertheless.
_MAYBE_TAKEN = ("ResourceInUse", "InternalFailure", "InternalServerError", "ServiceUnavailable", "InternalError")


class CreatingService(Describer, Protocol):
    """A service that accepts training jobs of SageMaker: SageMaker itself, or AWS Batch for a queue.

    Attributes:
        service: Its name, for messages.
        operation: The name of the operation that creates a training job.
    """

    service: str
    operation: str

    def send(self, request: dict[str, Any], job: Job) -> None:
        """Send a CreateTrainingJob request once."""

    def existing_despite(self, name: str, refusal: LaunchError, error: ClientError) -> TrainingJobDescription:
        """Return the training job that exists although its request was refused; raise `refusal` without one."""


class Creation:
    """Creates the training jobs of one Region.

    Args:
        deployment: The deployment, with the execution role of the jobs.
        region: A training Region of the grid.
        service: The service that creates and describes them.
    """

    def __init__(self, deployment: Deployment, region: str, service: CreatingService) -> None:
        self._deployment, self._region, self._service = deployment, region, service
        self._denials = 0
        self._storage: Storage | None = None

    def start(self, name: str, job: Job, tags: dict[str, str]) -> TrainingJobDescription | None:
        """See `Backend.start`."""
        request = self.request(name, job, tags)
        try:
            training_job = self._service.describe(name)
            if training_job is None:
                self._write_manifests(name, job)
                training_job = self._create(name, request, job)
            return training_job and self._require_own(training_job, name, fingerprint(request), tags)
        except (BotoCoreError, ClientError) as error:
            raise self._outage(name, error) from error

    def attach(self, name: str, job: Job, tags: dict[str, str]) -> TrainingJobDescription | None:
        """See `Backend.attach`."""
        try:
            training_job = self._service.describe(name)
            return training_job and self._require_own(training_job, name, self.fingerprint(name, job), tags)
        except (BotoCoreError, ClientError) as error:
            raise self._outage(name, error) from error

    def fingerprint(self, name: str, job: Job) -> str:
        """See `Backend.fingerprint`."""
        return fingerprint(self.request(name, job, {}))

    def request(self, name: str, job: Job, tags: dict[str, str]) -> dict[str, Any]:
        """Return the CreateTrainingJob request of a job in the Region."""
        request = training_job_request(name, job, self._deployment.execution_role_arn(self._region), tags)
        grid = self._deployment.grid
        key = grid.output_key(self._deployment.account_of(self._region), self._region)
        return confined(request, grid.training, grid.regions[self._region], key)

    def _require_own(
        self, training_job: TrainingJobDescription, name: str, expected: str, tags: dict[str, str]
    ) -> TrainingJobDescription:
        """Return an existing training job if its fingerprint is `expected`; otherwise raise."""
        if training_job.fingerprint == expected:
            return training_job
        actual_tags = self._service.tags(training_job)
        if actual_tags is None:
            text = f"SageMaker in {self._region} does not return the tags of training job {name} yet."
            raise LaunchError(SERVICE_ERROR, text, unresolved=True)
        if actual_tags.get(names.TAG_FINGERPRINT) == expected and tags.items() <= actual_tags.items():
            return replace(training_job, fingerprint=expected, identified_by_tag=True)
        raise LaunchError(*conflict(self._deployment.grid.name, actual_tags, training_job, expected))

    def _write_manifests(self, name: str, job: Job) -> None:
        """Write the ManifestFiles that the request refers to: one for each rank's stream."""
        if not channels_split_by_rank(job.inputs, job.streams):
            return
        self._storage = self._storage or Storage(self._region, role=self._deployment.acting_role_in(self._region))
        try:
            write_rank_manifests(self._storage, job, name)
        except UsageError as error:
            raise LaunchError(DATA, str(error)) from error
        except ClientError as error:
            if is_outage(error):
                raise  # a later call repeats all of this
            code = error.response["Error"]["Code"]
            message = error.response["Error"].get("Message", "")
            failure = PERMISSION if failure_of_refusal(code) is PERMISSION else DATA
            text = f"The ManifestFiles of {name} cannot be written: S3 in {self._region}: {code}: {message}."
            raise LaunchError(failure, text) from error

    def _create(self, name: str, request: dict[str, Any], job: Job) -> TrainingJobDescription | None:
        """Send the request once; if its outcome is unknown, look for the training job."""
        try:
            self._service.send(request, job)
        except HTTPClientError as error:
            return self._existing_training_job(
                name, f"did not answer {self._service.operation} for {name}: {error}", error
            )
        except ClientError as error:
            code = error.response["Error"]["Code"]
            message = error.response["Error"].get("Message", "")
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            if is_expired(error):
                raise  # the service did not process the request; it is sent again with new credentials
            if code in _MAYBE_TAKEN or status >= 500:
                return self._existing_training_job(name, f"cannot start {name} now: {code}: {message}", error)
            text = f"{self._endpoint} rejected the training job {name}: {code}: {message.rstrip('.')}."
            return self._service.existing_despite(name, LaunchError(self._class_of(code, message), text), error)
        return None

    def _existing_training_job(self, name: str, trouble: str, error: Exception) -> TrainingJobDescription:
        training_job = self._service.describe(name)
        if training_job is None:  # a job that was just created is not visible everywhere at once
            raise LaunchError(SERVICE_ERROR, f"{self._endpoint} {trouble}.", unresolved=True) from error
        return training_job

    def _class_of(self, code: str, message: str) -> Failure:
        """Return the failure class of a refusal, which for the first ones that name a permission may only be a delay.

        A child cannot know when the grid was deployed: templates contain no time, and reading a role's age would need
        a permission in IAM.
        """
        failure = failure_of_refusal(code, message)
        if failure is not PERMISSION or self._denials >= DELAYS:
            return failure
        self._denials += 1
        return PERMISSION_DELAY

    def _outage(self, name: str, error: BotoCoreError | ClientError) -> Exception:
        """Return the error to raise if it is unknown whether the training job exists.

        The caller decides when to retry, so that it reads cancels between retries, however long the outage lasts.
        Errors of expired credentials are returned unchanged, for the caller that can renew them.
        """
        if is_expired(error) or not is_outage(error):
            return error
        failure = (
            failure_of_refusal(error.response["Error"]["Code"]) if isinstance(error, ClientError) else SERVICE_ERROR
        )
        text = f"AWS in {self._region} cannot return the state of {name} or its data now: {error}."
        return LaunchError(failure, text, unresolved=True)

    @property
    def _endpoint(self) -> str:
        return f"{self._service.service} in {self._region}"
