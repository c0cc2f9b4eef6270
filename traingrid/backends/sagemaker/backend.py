"""SageMaker backend: creates, describes and stops training jobs, and reads their logs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

from traingrid import names
from traingrid.aws.clients import Maker, client, once
from traingrid.aws.log_events import LogEvent, LogPosition, last_events, pages, stream_names
from traingrid.aws.outage import is_expired, is_outage
from traingrid.aws.s3 import Storage
from traingrid.backends.base import LaunchError, LogUnreadableError
from traingrid.backends.sagemaker.request import confined, fingerprint, training_job_request
from traingrid.job.channels import by_rank
from traingrid.job.failures import DATA, PERMISSION, PERMISSION_DELAY, SERVICE_ERROR, Failure, of_refusal
from traingrid.job.observed import Seen
from traingrid.job.ownership import UNKNOWN_CODES, conflict, tags_at
from traingrid.job.rank_manifests import TooFewObjectsError, write_rank_manifests
from traingrid.job.state import JobState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.backends.base import StopReason
    from traingrid.grid.deployment import Deployment
    from traingrid.job.job import Job

LOG_GROUP = "/aws/sagemaker/TrainingJobs"
"""The log group of all training jobs."""
_LARGE_PAGE = 1000
"""After a page with this many events the next page is read at once. A page has up to 10,000 events or 1 MB
(GetLogEvents)."""
DELAYS = 5
"""The number of refusals of CreateTrainingJob for a permission that a child retries, within 31 to 62 seconds."""
# After these errors, CreateTrainingJob may have created the training job nevertheless.
_MAYBE_TAKEN = ("ResourceInUse", "InternalFailure", "InternalServerError", "ServiceUnavailable", "InternalError")


class SageMaker:
    """Training jobs of one Region.

    Args:
        deployment: The deployment, with the execution role of the jobs.
        region: A training Region of the grid.
        make: Makes the client that describes and stops training jobs.
        make_logs: Makes the client that reads logs.
    """

    _service, _asked = "SageMaker", "CreateTrainingJob"

    def __init__(self, deployment: Deployment, region: str, make: Maker = client, make_logs: Maker = client) -> None:
        self._make_logs = make_logs
        self._deployment = deployment
        self._region = region
        self._role = deployment.acting_in(region)
        self._sagemaker: Any = make("sagemaker", region, self._role)
        self._creating: Any = None
        self._denials = 0
        self._storage: Storage | None = None
        self._logs: Any = None

    def start(self, name: str, job: Job, tags: dict[str, str]) -> Seen | None:
        """See `Backend.start`."""
        request = self._request(name, job, tags)
        try:
            training_job = self.describe(name)
            if training_job is None:
                self._write_manifests(name, job)
                training_job = self._create(name, request, job)
            return training_job and self._own(name, training_job, fingerprint(request), tags)
        except (BotoCoreError, ClientError) as error:
            raise self._outage(name, error) from error

    def attach(self, name: str, job: Job, tags: dict[str, str]) -> Seen | None:
        """See `Backend.attach`."""
        try:
            training_job = self.describe(name)
            return training_job and self._own(name, training_job, self.fingerprint(name, job), tags)
        except (BotoCoreError, ClientError) as error:
            raise self._outage(name, error) from error

    def _own(self, name: str, training_job: Seen, expected: str, tags: dict[str, str]) -> Seen:
        """Return the existing training job with this name if its fingerprint is `expected`; otherwise raise."""
        if training_job.fingerprint == expected:
            return training_job
        actual_tags = self.tags(training_job)
        if actual_tags is None:
            text = f"SageMaker in {self._region} does not return the tags of training job {name} yet."
            raise LaunchError(SERVICE_ERROR, text, unresolved=True)
        if actual_tags.get(names.TAG_FINGERPRINT) == expected and tags.items() <= actual_tags.items():
            return replace(training_job, fingerprint=expected, identified_by_tag=True)
        raise LaunchError(*conflict(self._deployment.grid.name, actual_tags, training_job, expected))

    def tags(self, training_job: Seen) -> dict[str, str] | None:
        """See `Backend.tags`."""
        return tags_at(self._sagemaker, training_job.arn)

    def _write_manifests(self, name: str, job: Job) -> None:
        """Write the ManifestFiles that the request refers to: one for each rank's stream."""
        if not by_rank(job.inputs, job.streams):
            return
        self._storage = self._storage or Storage(self._region, role=self._role)
        try:
            write_rank_manifests(self._storage, job, name)
        except TooFewObjectsError as error:
            raise LaunchError(DATA, str(error)) from error
        except ClientError as error:
            if is_outage(error):
                raise  # a later call repeats all of this
            code, message = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
            failure = PERMISSION if of_refusal(code) is PERMISSION else DATA
            text = f"The ManifestFiles of {name} cannot be written: S3 in {self._region}: {code}: {message}."
            raise LaunchError(failure, text) from error

    def _create(self, name: str, request: dict[str, Any], job: Job) -> Seen | None:
        """Send the request once; if its outcome is unknown, look for the training job."""
        try:
            self._send(request, job)
        except HTTPClientError as error:
            return self._found(name, f"did not answer {self._asked} for {name}: {error}", error)
        except ClientError as error:
            code, message = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            if is_expired(error):
                raise  # the service did not process the request; it is sent again with new credentials
            if code in _MAYBE_TAKEN or status >= 500:
                return self._found(name, f"cannot start {name} now: {code}: {message}", error)
            text = f"{self._service} in {self._region} rejected the training job {name}: {code}: {message.rstrip('.')}."
            return self._refused(name, LaunchError(self._class_of(code, message), text), error)
        return None

    def _class_of(self, code: str, message: str) -> Failure:
        """Return the failure class of a refusal, which for the first ones that name a permission may only be a delay.

        A child cannot know when the grid was deployed: templates contain no time, and reading a role's age would need
        a permission in IAM.
        """
        failure = of_refusal(code, message)
        if failure is not PERMISSION or self._denials >= DELAYS:
            return failure
        self._denials += 1
        return PERMISSION_DELAY

    def _send(self, request: dict[str, Any], _job: Job) -> None:
        self._creating = self._creating or once("sagemaker", self._region, self._role)
        self._creating.create_training_job(**request)

    def _refused(self, _name: str, refusal: LaunchError, error: ClientError) -> Seen:
        """Raise the error of a rejected request; a subclass may return the job that exists instead."""
        raise refusal from error

    def _found(self, name: str, trouble: str, error: Exception) -> Seen:
        training_job = self.describe(name)
        if training_job is None:  # a job that was just created is not visible everywhere at once
            text = f"{self._service} in {self._region} {trouble}."
            raise LaunchError(SERVICE_ERROR, text, unresolved=True) from error
        return training_job

    def _outage(self, name: str, error: BotoCoreError | ClientError) -> Exception:
        """Return the error to raise if it is unknown whether the training job exists.

        The caller decides when to retry, so that it reads cancels between retries, however long the outage lasts.
        Errors of expired credentials are returned unchanged, for the caller that can renew them.
        """
        if is_expired(error) or not is_outage(error):
            return error
        failure = of_refusal(error.response["Error"]["Code"]) if isinstance(error, ClientError) else SERVICE_ERROR
        text = f"AWS in {self._region} cannot return the state of {name} or its data now: {error}."
        return LaunchError(failure, text, unresolved=True)

    def has_news(self, _name: str, /) -> bool:
        """See `Backend.has_news`."""
        return False

    def stop(self, name: str, _reason: StopReason = "cancel", /) -> None:
        """See `Backend.stop`. SageMaker does not store the reason."""
        try:
            self._sagemaker.stop_training_job(TrainingJobName=name)
        except ClientError as error:
            if error.response["Error"]["Code"] not in UNKNOWN_CODES:  # SageMaker uses them for ended jobs too
                raise

    def fingerprint(self, name: str, job: Job) -> str:
        """See `Backend.fingerprint`."""
        return fingerprint(self._request(name, job, {}))

    def _request(self, name: str, job: Job, tags: dict[str, str]) -> dict[str, Any]:
        request = training_job_request(name, job, self._deployment.execution_role_arn(self._region), tags)
        grid = self._deployment.grid
        key = grid.output_key(self._deployment.account_of(self._region), self._region)
        return confined(request, grid.training, grid.regions[self._region], key)

    def describe(self, name: str) -> Seen | None:
        """See `Backend.describe`."""
        reply = description_of(self._sagemaker, name)
        if reply is None:
            return None
        return Seen(
            state=JobState(reply["TrainingJobStatus"]),
            phase=reply["SecondaryStatus"],
            arn=reply["TrainingJobArn"],
            reason=reply.get("FailureReason", ""),
            artifact=reply.get("ModelArtifacts", {}).get("S3ModelArtifacts", ""),
            metrics={metric["MetricName"]: float(metric["Value"]) for metric in reply.get("FinalMetricDataList", [])},
            created_at=reply["CreationTime"].timestamp() if "CreationTime" in reply else None,
            started_at=reply["TrainingStartTime"].timestamp() if "TrainingStartTime" in reply else None,
            training_seconds=reply.get("TrainingTimeInSeconds", 0),
            billable_seconds=reply.get("BillableTimeInSeconds", 0),
            fingerprint=fingerprint(reply),
        )

    def log_lines(
        self, name: str, position: LogPosition, *, whole: bool = True, discover: bool = True
    ) -> Iterator[tuple[str, str]]:
        """See `Backend.log_lines`. Hosts have SageMaker's names: algo-1, algo-2, ..."""
        try:
            for training_job in self.log_names(name):
                streams = sorted(stream for stream in position if stream.startswith(f"{training_job}/"))
                for stream in self.log_streams(training_job) if discover else streams:
                    for message in self._new_messages(stream, position, whole=whole):
                        yield host_of(stream), message
        except (BotoCoreError, ClientError) as error:
            message = f"The log of {name} in {self._region} cannot be read now: {error}."
            raise LogUnreadableError(message, "The training job continues.", passes=is_outage(error)) from error

    def log_names(self, name: str) -> list[str]:
        """Return the names of the training jobs whose logs are the log of `name`."""
        return [name]

    def log_streams(self, training_job: str) -> list[str]:
        """Return the names of the log streams of a training job, one for each start of each host.

        There is no log group before the first training job of a Region logs.
        """
        return stream_names(self.logs, LOG_GROUP, f"{training_job}/")

    def log_host(self, stream: str) -> str:
        """See `ReadableLogs.log_host`."""
        return host_of(stream)

    def log_pages(self, stream: str, position: LogPosition, limit: int, since: int = 0) -> Iterator[list[LogEvent]]:
        """See `ReadableLogs.log_pages`."""
        window = {"startTime": since} if since else {}
        return pages(self.logs, LOG_GROUP, stream, position, limit=limit, **window)

    def last_log_events(self, stream: str, count: int, position: LogPosition, since: int = 0) -> list[LogEvent]:
        """See `ReadableLogs.last_log_events`."""
        window = {"startTime": since} if since else {}
        return last_events(self.logs, LOG_GROUP, stream, count, position, **window)

    @property
    def logs(self) -> Any:
        """The client of CloudWatch Logs."""
        self._logs = self._logs or self._make_logs("logs", self._region, self._role)
        return self._logs

    def _new_messages(self, stream: str, position: LogPosition, *, whole: bool) -> Iterator[str]:
        for events in pages(self.logs, LOG_GROUP, stream, position):
            yield from (event.message for event in events)
            if not whole and len(events) < _LARGE_PAGE:
                return  # another call would only return the end of the stream


def description_of(sagemaker: Any, name: str) -> dict[str, Any] | None:
    """Return DescribeTrainingJob's reply, or None if SageMaker does not know the name (yet or any longer).

    Args:
        sagemaker: The boto3 client of the training job's Region.
        name: The training job's name.
    """
    try:
        return dict(sagemaker.describe_training_job(TrainingJobName=name))
    except ClientError as error:
        if error.response["Error"]["Code"] in UNKNOWN_CODES:
            return None
        raise


def host_of(stream: str) -> str:
    """Return SageMaker's name of the host that wrote a log stream, for example "algo-1"."""
    return stream.partition("/")[2].rpartition("-")[0]
