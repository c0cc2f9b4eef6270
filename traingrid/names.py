"""The names of everything traingrid creates in AWS: pure functions of the grid's name, so that no process looks one up.

`grid` is always the grid's name (the key `name` of grid.yaml). `account` may be a CDK token at synth, so nothing here
inspects it. The longest names decide how long a grid's name may be; see `traingrid.grid.NAME_LIMIT`.
"""

import re
from dataclasses import dataclass

MANIFEST_PREFIX = "manifests/"
"""Where users drop manifests in the manifest bucket; only an object under it starts a submission."""

BY_HAND_PREFIX = "by-hand/"
"""Where users put a manifest in the manifest bucket whose job they submit to Batch themselves. Nothing else may happen
to an object under it: the intake would train every line once more."""

SUBMISSION_PREFIX = "submissions/"
"""Where the intake writes the normalised submissions that Batch children read."""

SOURCE_PREFIX = "sources/"
"""Where `traingrid submit` puts packed scripts in a Region's data bucket, named by their SHA-256."""

REPORT_SUFFIX = ".report.json"
"""What the intake puts behind a manifest's key to write its report next to it. Never a manifest itself."""

TRAINING_REPOSITORY = "training"
"""What grid.yaml calls the ECR repository, the same in every training Region, of the training image."""

TAG_GRID = "traingrid:grid"
TAG_SUBMISSION = "traingrid:submission"
TAG_JOB = "traingrid:job"
TAG_FINGERPRINT = "traingrid:fingerprint"
"""What a training job was asked for, as a hash: AWS may describe it in other words than those of the request."""

QUEUED_PREFIX = "AWSBatch"
_QUEUED_CHARACTERS = 63 - 32

_TRAINING_JOB = re.compile(r"(?P<submission>[0-9a-f]{8})-(?P<index>\d+)-(?P<attempt>\d+)", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class TrainingJobName:
    """What the name of a training job says: which line of which submission it is, and which attempt at it."""

    submission: str
    index: int
    attempt: int


def control_stack(grid: str) -> str:
    """Return the name of the stack in the home Region."""
    return f"{grid}-control"


def region_stack(grid: str, region: str) -> str:
    """Return the name of a training Region's stack."""
    return f"{grid}-{region}"


def manifest_bucket(grid: str, account: str, region: str) -> str:
    """Return the name of the bucket that users drop manifests into; `region` is the home Region."""
    return f"{grid}-manifests-{account}-{region}"


def data_bucket(grid: str, account: str, region: str) -> str:
    """Return the name of the bucket that holds a training Region's data."""
    return f"{grid}-data-{account}-{region}"


def output_bucket(grid: str, account: str, region: str) -> str:
    """Return the name of the bucket that receives the artifacts of a training Region's jobs."""
    return f"{grid}-output-{account}-{region}"


def output_prefix(grid: str, account: str, region: str, submission: str, index: int) -> str:
    """Return the S3 URI, with a slash at its end, below which job `index` of a submission leaves its artifacts."""
    return f"s3://{output_bucket(grid, account, region)}/{submission}/{index}/"


def control_key(grid: str) -> str:
    """Return the alias of the KMS key that the control plane's own things are encrypted with."""
    return f"alias/{grid}-control"


def data_key(grid: str) -> str:
    """Return the alias, the same in every training Region, of the KMS key that data and results are encrypted with."""
    return f"alias/{grid}"


def event_bus(grid: str) -> str:
    """Return the name of the home Region's event bus, which training Regions forward state changes to."""
    return grid


def job_queue(grid: str, *, shared: bool = False) -> str:
    """Return the name of the Batch job queue.

    One that is shared by weights has a name of its own: Batch makes neither kind of the other
    (https://docs.aws.amazon.com/batch/latest/APIReference/API_CreateJobQueue.html), so it is another queue.
    """
    return f"{grid}-shared" if shared else grid


def service_queue(grid: str, *, quota: bool = False) -> str:
    """Return the name, the same in every training Region, of the queue that training jobs wait in.

    Also that of its service environment and scheduling policy, which Batch keeps apart. One with quota shares is never
    made of one without, nor the other way round, and so has another name.
    """
    return f"{grid}-training-quota" if quota else f"{grid}-training"


def queued_training_job(grid: str) -> str:
    """Return how the name begins of every training job that AWS Batch makes of a service job of the grid.

    It is "AWSBatch", the name that we ask for, and an id of 32 digits, as the examples in
    https://docs.aws.amazon.com/batch/latest/userguide/getting-started-sagemaker.html show. That is more than the 63
    characters of a name allow, and nothing says what is left out; so only what fits in any case is promised here.
    """
    return f"{QUEUED_PREFIX}{grid}-"[:_QUEUED_CHARACTERS]


def job_definition(grid: str) -> str:
    """Return the name, without a revision, of the Batch job definition that runs the orchestrator."""
    return f"{grid}-orchestrator"


def repository(grid: str, name: str) -> str:
    """Return the full name of an ECR repository that grid.yaml calls `name`."""
    return f"{grid}/{name}"


def training_repository(grid: str) -> str:
    """Return the name of the ECR repository, the same in every training Region, of the training image."""
    return repository(grid, TRAINING_REPOSITORY)


def orchestrator_repository(grid: str) -> str:
    """Return the name of the ECR repository in the home Region of the orchestrator's image."""
    return repository(grid, "orchestrator")


def repository_uri(account: str, region: str, repository_name: str) -> str:
    """Return the URI, without a tag, that images are pushed to; `repository_name` is the full name."""
    return f"{account}.dkr.ecr.{region}.amazonaws.com/{repository_name}"


def image_uri(account: str, region: str, repository_name: str, tag: str) -> str:
    """Return the URI under which Batch and SageMaker pull an image; `repository_name` is the full name."""
    return f"{repository_uri(account, region, repository_name)}:{tag}"


def orchestrator_image(grid: str, account: str, home: str, tag: str) -> str:
    """Return the URI of the orchestrator's image in the home Region."""
    return image_uri(account, home, orchestrator_repository(grid), tag)


def execution_role(grid: str, region: str) -> str:
    """Return the name of the role that SageMaker assumes in a training Region.

    The only role with a fixed name: the home Region must be allowed to pass exactly these roles, and cannot look up
    what CloudFormation called them elsewhere. IAM is global, so the Region in the name keeps two Regions of one
    account from colliding.
    """
    return f"{grid}-execution-{region}"


def execution_role_arn(grid: str, account: str, region: str) -> str:
    """Return the ARN of `execution_role`."""
    return f"arn:aws:iam::{account}:role/{execution_role(grid, region)}"


def training_job(grid: str, submission: str, index: int, attempt: int) -> str:
    """Return the name of the training job of line `index` (from 0) of a submission, at attempt `attempt`.

    The name is the idempotency token: SageMaker accepts a name once per account and Region, as long as nobody deletes
    the training job (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeleteTrainingJob.html).
    """
    return f"{grid}-{submission}-{index}-{attempt}"


def parse_training_job(grid: str, name: str) -> TrainingJobName | None:
    """Return what `training_job` made a name of, or None for a name that it cannot have made."""
    match = _TRAINING_JOB.fullmatch(name.removeprefix(f"{grid}-")) if name.startswith(f"{grid}-") else None
    if match is None:
        return None
    parsed = TrainingJobName(submission=match["submission"], index=int(match["index"]), attempt=int(match["attempt"]))
    written = training_job(grid, parsed.submission, parsed.index, parsed.attempt)
    return parsed if written == name else None  # "007" is a number, but not one that we wrote
