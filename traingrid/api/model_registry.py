"""Model registry: registers the model of a job in the SageMaker Model Registry of the job's Region.

A version of a model group needs the image of an inference container and the URI of the model, in the same Region
(https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ModelPackageContainerDefinition.html); instance types are
optional (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_InferenceSpecification.html). Nothing is hosted.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from botocore.exceptions import ClientError

from traingrid import names
from traingrid.aws.clients import client
from traingrid.errors import UsageError
from traingrid.job.job import job_in_region
from traingrid.job.state import JobState
from traingrid.manifest.limits import limit_problem, most
from traingrid.metrics.comparison import compared_metric
from traingrid.metrics.curves import group_by_job, last_curves
from traingrid.metrics.history import MetricHistory
from traingrid.metrics.ranking import is_lower_better
from traingrid.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traingrid.api.control_plane import ControlPlane
    from traingrid.job.job import Job
    from traingrid.submission.status import JobStatus

_APPROVAL = "PendingManualApproval"
_ECR_IMAGE = re.compile(r"\d{12}\.dkr[.-]ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.[^/\s]+/[^:@\s]+(?:[:@]\S+)?")
"""The URI of an image in Amazon ECR (https://docs.aws.amazon.com/AmazonECR/latest/userguide/Registries.html), with a
tag or a digest, as a container definition of the service model supports."""
_METADATA = re.compile(r"[\w\s.:/=+\-@]+")
"""The characters of CustomerMetadataKey and CustomerMetadataValue in the service model."""
_EXISTS = ("already exist", "Cannot create already existing")
"""Parts of the error of a second creation (`_create_resource` in src/sagemaker/session.py of
https://github.com/aws/sagemaker-python-sdk/tree/v2.232.0)."""


@dataclass(frozen=True, kw_only=True)
class RegisteredModel:
    """A version of a model group.

    Attributes:
        submission: The submission of the job that trained the model.
        region: The Region of the job, of the model, and of the registry.
        arn: The ARN of the version.
        approval: The approval status: PendingManualApproval, Approved or Rejected.
        model: The S3 URI of the model.
        image: The image of the inference container; empty for a model of an algorithm resource.
        metadata: The metadata of the version.
        result: "registered", or "kept" if an earlier call has registered it.
    """

    submission: str
    index: int
    region: str
    group: str
    version: int
    arn: str
    approval: str
    model: str
    image: str
    metadata: Mapping[str, str]
    result: Literal["registered", "kept"]


def register(plane: ControlPlane, submission: str, index: int, group: str, image: str = "") -> RegisteredModel:
    """Register the model of a completed job as a new version of a model group, once.

    Args:
        group: The name of the model group in the job's Region, which is created if it does not exist.
        image: The URI of the image of the inference container; by default the image that trained the model.

    Raises:
        UsageError: The job does not exist or has no model, its Region is in another account, the name of the group is
            invalid, no image is known, or the image is not in ECR in that Region.
        ClientError: SageMaker refused a call.
    """
    if problem := limit_problem("EntityName", group):
        text = f"{shown(group)} cannot be the name of a model group: it {problem}."
        raise UsageError(text, "Write letters, digits and hyphens, for example --group digits.")
    status = _completed_job(plane, submission, index)
    job = plane.last_submitted_jobs(submission).get(index)
    if job and status.region in job.regions:
        job = job_in_region(job, status.region)  # it may have moved to the next Region of its data
    specification = _model_specification(job, status, image)
    registry = _Registry(plane=plane, submission=submission, status=status, group=group)
    return registry.find_version(specification) or registry.create_version(specification, job)


def _completed_job(plane: ControlPlane, submission: str, index: int) -> JobStatus:
    status = plane.job(submission, index)
    if status.state != JobState.COMPLETED or not status.artifact:
        text = f"Job {index} of submission {submission} is {status.state} and has no model to register."
        raise UsageError(text, f"Wait until it is completed: traingrid status {submission}.")
    if status.region in plane.deployment.grid.other_accounts():
        text = f"{status.region} is in another account, in which traingrid has no permissions for the model registry."
        raise UsageError(text, f"Register {status.artifact} with credentials of that account.")
    return status


def _model_specification(job: Job | None, status: JobStatus, image: str) -> dict[str, Any]:
    """Return the members of CreateModelPackage that name the model's archive and its inference image.

    An algorithm resource defines its inference image
    (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_SourceAlgorithmSpecification.html).
    """
    if job and job.algorithm and not image:
        algorithm = {"AlgorithmName": job.algorithm, "ModelDataUrl": status.artifact}
        return {"SourceAlgorithmSpecification": {"SourceAlgorithms": [algorithm]}}
    inference_image = image or (job.image if job else "")
    if not inference_image:
        text = "The line of the job cannot be read, so the image that trained its model is not known."
        raise UsageError(text, "Name the image of the inference container with --image.")
    _check_image(inference_image, status.region)
    container = {"Image": inference_image, "ModelDataUrl": status.artifact}
    return {"InferenceSpecification": {"Containers": [container]}}


def _check_image(image: str, region: str) -> None:
    """Raise UsageError unless an image is in ECR in the model's Region, as a model package requires.

    Sources: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ModelPackageContainerDefinition.html and
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html, Image.
    """
    match = _ECR_IMAGE.fullmatch(image)
    if match and match["region"] == region:
        return
    reason = f"in {match['region']}, but its model is in {region}" if match else "not the URI of an image in Amazon ECR"
    text = f"The image of the inference container, {shown(image)}, is {reason}."
    example = f"ACCOUNT.dkr.ecr.{region}.amazonaws.com/REPOSITORY:TAG or REPOSITORY@sha256:DIGEST"
    raise UsageError(text, f"Nothing was registered. Name an image in ECR in {region} with --image: {example}.")


@dataclass(frozen=True, kw_only=True)
class _Registry:
    """The versions of one model group, as one job's model uses them."""

    plane: ControlPlane
    submission: str
    status: JobStatus
    group: str

    @property
    def _sagemaker(self) -> Any:
        return client("sagemaker", self.status.region)

    @property
    def _description(self) -> str:
        """The text of a version by which it is found again: listings have it, but no metadata."""
        return f"Job {self.submission}/{self.status.index} of the grid {self.plane.deployment.grid.name}"

    def find_version(self, specification: Mapping[str, Any]) -> RegisteredModel | None:
        """Return the version that an earlier call has created, or None."""
        pages = self._sagemaker.get_paginator("list_model_packages").paginate(ModelPackageGroupName=self.group)
        try:
            summaries = [package for page in pages for package in page["ModelPackageSummaryList"]]
        except ClientError as error:
            if _is_missing(error):
                return None
            raise
        for summary in summaries:
            if summary.get("ModelPackageDescription") == self._description:
                description = self._sagemaker.describe_model_package(ModelPackageName=summary["ModelPackageArn"])
                if _model_of(description) == self.status.artifact:
                    return self._registered_model(description, specification, "kept")
        return None

    def create_version(self, specification: Mapping[str, Any], job: Job | None) -> RegisteredModel:
        """Create the group unless it exists, and a version of it."""
        self._create_group()
        reply = self._sagemaker.create_model_package(
            ModelPackageGroupName=self.group,
            ModelPackageDescription=self._description,
            ModelApprovalStatus=_APPROVAL,
            MetadataProperties={"GeneratedBy": self.status.training_job},
            CustomerMetadataProperties=dict(self._metadata(job)),
            ClientToken=self._token(),
            **specification,
        )
        description = self._sagemaker.describe_model_package(ModelPackageName=reply["ModelPackageArn"])
        return self._registered_model(description, specification, "registered")

    def _create_group(self) -> None:
        tags = [{"Key": names.TAG_GRID, "Value": self.plane.deployment.grid.name}]
        try:
            self._sagemaker.describe_model_package_group(ModelPackageGroupName=self.group)
        except ClientError as error:
            if not _is_missing(error):
                raise
        else:
            return
        try:
            self._sagemaker.create_model_package_group(ModelPackageGroupName=self.group, Tags=tags)
        except ClientError as error:  # another command was faster
            if not any(part in str(error) for part in _EXISTS):
                raise

    def _token(self) -> str:
        """Return the same token for the same model and group: a repeated call creates no second version."""
        identity = f"{self.group} {self.status.artifact}"
        return hashlib.sha256(identity.encode()).hexdigest()[: most("ClientToken")]

    def _metadata(self, job: Job | None) -> Iterator[tuple[str, str]]:
        """Yield the metadata of a new version that the service model allows, the most important first."""
        values = {
            names.TAG_GRID: self.plane.deployment.grid.name,
            names.TAG_SUBMISSION: self.submission,
            names.TAG_JOB: str(self.status.index),
            "traingrid:training_job": self.status.training_job,
            "traingrid:image": job.image if job else "",
            "traingrid:source": job.source.rpartition("/")[2] if job else "",
            "traingrid:init_from": str(job.init_from or "") if job else "",
            **self._best(),
            **{f"metric:{name}": f"{value:g}" for name, value in sorted(self.status.metrics.items())},
        }
        allowed = (
            (name, value)
            for name, value in values.items()
            if value and _is_allowed(name, "CustomerMetadataKey") and _is_allowed(value, "CustomerMetadataValue")
        )
        yield from list(allowed)[: most("CustomerMetadataMap")]

    def _best(self) -> dict[str, str]:
        """Return the best value of the metric by which `traingrid compare` orders the job; the last one is a metric."""
        metric = compared_metric(None, [self.status])
        if not metric:
            return {}
        plane = self.plane
        history = MetricHistory(plane.deployment, plane.ledger, plane.storage, self.submission)
        points = group_by_job(history.read([self.status.index])).get(self.status.index, [])
        values = [point.value for point in last_curves(points).get(metric, ())] or [self.status.metrics[metric]]
        best = min(values) if is_lower_better(metric) else max(values)
        return {f"best:{metric}": f"{best:g}"}

    def _registered_model(
        self, description: Mapping[str, Any], specification: Mapping[str, Any], result: Literal["registered", "kept"]
    ) -> RegisteredModel:
        """Return a version as `describe_model_package` describes it; its containers may be only in the request."""
        name = "InferenceSpecification"
        containers = (description.get(name) or specification.get(name) or {}).get("Containers", [{}])
        return RegisteredModel(
            submission=self.submission,
            index=self.status.index,
            region=self.status.region,
            group=self.group,
            version=int(description["ModelPackageVersion"]),
            arn=description["ModelPackageArn"],
            approval=description.get("ModelApprovalStatus", _APPROVAL),
            model=self.status.artifact,
            image=containers[0].get("Image", ""),
            metadata=description.get("CustomerMetadataProperties") or {},
            result=result,
        )


def _is_allowed(text: str, shape: str) -> bool:
    """Return True if a text is within the limits of a shape of metadata."""
    return len(text) <= most(shape) and _METADATA.fullmatch(text) is not None


def _is_missing(error: ClientError) -> bool:
    """Return True if a model group does not exist; any other error of the same code repeats in the next call."""
    details = error.response["Error"]
    return details["Code"] in ("ValidationException", "ResourceNotFound") and "exist" in details.get("Message", "")


def _model_of(description: Mapping[str, Any]) -> str:
    """Return the S3 URI of the model of a version."""
    inference = description.get("InferenceSpecification") or {}
    source = description.get("SourceAlgorithmSpecification") or {}
    for part in [*inference.get("Containers", []), *source.get("SourceAlgorithms", [])]:
        if part.get("ModelDataUrl"):
            return str(part["ModelDataUrl"])
    return ""
