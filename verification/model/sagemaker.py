"""In-memory SageMaker training jobs: names are unique per Region, and the caller advances the jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from verification.model.refusals import refusal

FINAL = ("Completed", "Failed", "Stopped")


@dataclass
class TrainingJob:
    """A training job.

    Attributes:
        request: Parameters of CreateTrainingJob.
        created_at: Time of its creation.
        visible_at: Time from which reads return it.
        phase: SecondaryStatus.
        reason: FailureReason.
        ended_at: Time at which it ended.
        more: Hyperparameters that the service adds to its description.
        engine: The service that runs it.
    """

    request: Mapping[str, Any]
    region: str
    created_at: float
    visible_at: float
    state: str = "InProgress"
    phase: str = "Starting"
    reason: str = ""
    ended_at: float = 0.0
    more: Mapping[str, str] = field(default_factory=dict)
    engine: str = "sagemaker"

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.request["TrainingJobName"])

    @property
    def arn(self) -> str:
        """Its ARN."""
        return f"arn:aws:{self.engine}:{self.region}:123456789012:training-job/{self.name}"

    @property
    def active(self) -> bool:
        """True while it incurs cost."""
        return self.state not in FINAL

    def describe(self) -> dict[str, Any]:
        """Return the reply of DescribeTrainingJob."""
        reply = {name: value for name, value in self.request.items() if name != "Tags"} | self.summary()
        reply["SecondaryStatus"] = self.phase
        reply["HyperParameters"] = {**reply["HyperParameters"], **self.more}
        if self.reason:
            reply["FailureReason"] = self.reason
        if self.state == "Completed":
            output = self.request["OutputDataConfig"]["S3OutputPath"]
            reply["ModelArtifacts"] = {"S3ModelArtifacts": f"{output}{self.name}/output/model.tar.gz"}
        if self.ended_at:
            seconds = int(self.ended_at - self.created_at)
            reply |= {"TrainingTimeInSeconds": seconds, "BillableTimeInSeconds": seconds}
        return reply

    def summary(self) -> dict[str, Any]:
        """Return its entry in the reply of ListTrainingJobs."""
        entry = {
            "TrainingJobName": self.name,
            "TrainingJobArn": self.arn,
            "TrainingJobStatus": self.state,
            "CreationTime": datetime.fromtimestamp(self.created_at, UTC),
        }
        return entry | ({"TrainingEndTime": datetime.fromtimestamp(self.ended_at, UTC)} if self.ended_at else {})


@dataclass
class SageMakerRegion:
    """SageMaker in one Region, or a cluster that runs training jobs in the same way.

    Attributes:
        on_create: Called with every accepted training job.
        jobs: All training jobs by name.
        lag: Seconds until reads return a new job.
        quota_is_used_up: True to refuse creates.
        defaults: Hyperparameters that it adds to those of a request.
    """

    region: str
    now: Callable[[], float]
    on_create: Callable[[TrainingJob], None]
    engine: str = "sagemaker"
    jobs: dict[str, TrainingJob] = field(default_factory=dict)
    lag: float = 0.0
    quota_is_used_up: bool = False
    defaults: Mapping[str, str] = field(default_factory=dict)

    def create_training_job(self, **request: Any) -> dict[str, Any]:
        """Accept a training job, unless its name is taken."""
        name = request["TrainingJobName"]
        if name in self.jobs:
            raise refusal("ResourceInUse", f"a training job with this name already exists ({self.jobs[name].arn})")
        if self.quota_is_used_up:
            raise refusal("ResourceLimitExceeded", "the account-level limit is 2 Instances")
        now = self.now()
        job = self.jobs[name] = TrainingJob(
            request, self.region, now, now + self.lag, more=self.defaults, engine=self.engine
        )
        self.on_create(job)
        return {"TrainingJobArn": job.arn}

    def describe_training_job(self, **request: Any) -> dict[str, Any]:
        """Describe a visible training job."""
        return self._known(request["TrainingJobName"]).describe()

    def stop_training_job(self, **request: Any) -> dict[str, Any]:
        """Begin to stop a training job; refuse if it has ended."""
        job = self._known(request["TrainingJobName"])
        if not job.active:
            raise refusal("ValidationException", f"the training job is in status {job.state}")
        job.state = job.phase = "Stopping"
        return {}

    def delete_training_job(self, **request: Any) -> dict[str, Any]:
        """Delete an ended training job, which frees its name."""
        if self._known(request["TrainingJobName"]).active:
            raise refusal("ResourceInUse", "the training job has not ended")
        del self.jobs[request["TrainingJobName"]]
        return {}

    def list_training_jobs(self, **request: Any) -> Iterator[dict[str, Any]]:
        """List the visible training jobs in one page."""
        state, after = request.get("StatusEquals"), request.get("CreationTimeAfter")
        summaries = [
            summary
            for job in self.jobs.values()
            if self._shows(job) and request["NameContains"] in job.name and state in (None, job.state)
            for summary in [job.summary()]
            if after is None or summary["CreationTime"] > after
        ]
        yield {"TrainingJobSummaries": summaries}

    def list_tags(self, **request: Any) -> Iterator[dict[str, Any]]:
        """List a training job's tags."""
        yield {"Tags": list(self._known(request["ResourceArn"].rpartition("/")[2]).request["Tags"])}

    def move(self, job: TrainingJob, reason: str = "") -> None:
        """Advance a job to training or to its end, or fail it with a reason. A stopping job stops."""
        if job.state == "Stopping":
            job.state = job.phase = "Stopped"
        elif reason:
            job.state, job.phase, job.reason = "Failed", "Failed", reason
        elif job.phase == "Starting":
            job.phase = "Training"
        else:
            job.state = job.phase = "Completed"
        if not job.active:
            job.ended_at = self.now()

    def _known(self, name: str) -> TrainingJob:
        job = self.jobs.get(name)
        if job is None or not self._shows(job):
            raise refusal("ValidationException", "Requested resource not found.")
        return job

    def _shows(self, job: TrainingJob) -> bool:
        return self.now() >= job.visible_at
