"""The names of everything traingrid creates in AWS: pure functions of the grid's name, so that no process looks one up.

`grid` is always the grid's name (the key `name` of grid.yaml). `account` may be a CDK token at synth, so nothing here
inspects it. The longest names decide how long a grid's name may be; see `traingrid.grid.NAME_LIMIT`.
"""

import re
from dataclasses import dataclass
from typing import Literal

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

BUILT_TAG = "built"
"""How the tags of images begin that a deployment has built; a target, where there are some, and a hash follow."""

BUILD_EVENTS = "traingrid.builds"
"""Source of the event with which the script of an image build reports that it ends."""

REGIONS_QUESTION, JOBS_QUESTION = "Custom::TrainingRegions", "Custom::RunningJobs"
"""Types of the two resources by which CloudFormation asks whether jobs have yet to end: in a Region that an update
removes, and in a grid that is destroyed."""

BOOTSTRAP = "/cdk-bootstrap/hnb659fds/version"
"""The parameter in which `cdk bootstrap` says its version, hnb659fds being the qualifier that the CDK takes by default
(https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-env.html)."""

TAG_GRID = "traingrid:grid"
TAG_SUBMISSION = "traingrid:submission"
TAG_JOB = "traingrid:job"
TAG_IMAGE = "traingrid:image"
"""Which image a job definition runs, by its tag."""
TAG_FINGERPRINT = "traingrid:fingerprint"
"""What a training job was asked for, as a hash: AWS may describe it in other words than those of the request."""

Part = Literal["launch", "record", "sweep", "use"]
"""What somebody of the home Region's account does in another: a child launches, the recorder of events looks how jobs
ended, the reconciler sweeps, and a person at the command line uses data, results and logs."""

_HOME_ROLES: dict[Part, str] = {"launch": "child", "record": "recorder", "sweep": "reconciler"}
"""What the roles of the control plane are called; a person has one of their own."""
QUEUED_PREFIXES = ("AWSBatch", "awsbatch")
"""How AWS Batch begins the names of its training jobs, and how an ARN may spell that (`queued_training_jobs`)."""
_QUEUED_CHARACTERS = 63 - 32

RESERVED_ENDING = re.compile(
    r"-(control|images|builds|guard|registry|training|training-quota|shared|[0-9a-f]{8})$", re.ASCII
)
"""How no grid's name may end: what these functions put behind the name of another grid, for things that are called by
their whole names (stacks, queues, keys), or what comes first in the names of its training jobs."""

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


def images_stack(grid: str) -> str:
    """Return the name of the stack of image repositories in the home Region."""
    return f"{grid}-images"


def builds_stack(grid: str) -> str:
    """Return the name of the stack of image builds in the home Region."""
    return f"{grid}-builds"


def build_log(grid: str) -> str:
    """Return the name of the log group of image builds in the home Region."""
    return f"/{grid}/builds"


def registry_stack(grid: str, region: str) -> str:
    """Return the name of the stack of image repositories in a training Region beside the home Region."""
    return f"{grid}-registry-{region}"


def guard_stack(grid: str) -> str:
    """Return the name of the stack in the home Region that is destroyed first, unless jobs have yet to end."""
    return f"{grid}-guard"


def guard_function(grid: str) -> str:
    """Return the name of the function that answers for it; another stack's, so it must be known beforehand."""
    return f"{grid}-guard-regions"


def manifest_bucket(grid: str, account: str, region: str) -> str:
    """Return the name of the bucket that users drop manifests into; `region` is the home Region."""
    return f"{grid}-manifests-{account}-{region}"


def ledger(grid: str) -> str:
    """Return the name of the table of submissions and jobs in the home Region."""
    return f"{grid}-ledger"


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


def images_key(grid: str) -> str:
    """Return the alias of the home Region's KMS key for the logs and lost events of image builds."""
    return f"alias/{grid}-images"


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


def queued_training_jobs(grid: str) -> list[str]:
    """Return the prefixes of the training jobs that AWS Batch creates from the grid's service jobs.

    A name is "AWSBatch", the requested name and an id of 32 digits, as the examples in
    https://docs.aws.amazon.com/batch/latest/userguide/getting-started-sagemaker.html show. That is longer than the 63
    characters of a name, and the documentation does not specify which part is cut, so the prefix has only what fits in
    any case. The second spelling is the lower case that SageMaker's ARNs have had for names with upper case
    (https://github.com/boto/boto3/issues/4606); IAM compares ARNs with regard to case.
    """
    return [f"{prefix}{grid}-"[:_QUEUED_CHARACTERS] for prefix in QUEUED_PREFIXES]


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
    return f"{registry_uri(account, region)}/{repository_name}"


def registry_uri(account: str, region: str) -> str:
    """Return the address of an account's registry in a Region."""
    return f"{account}.dkr.ecr.{region}.amazonaws.com"


def image_uri(account: str, region: str, repository_name: str, tag: str) -> str:
    """Return the URI under which Batch and SageMaker pull an image; `repository_name` is the full name."""
    return f"{repository_uri(account, region, repository_name)}:{tag}"


def image_of_digest(account: str, region: str, repository_name: str, digest: str) -> str:
    """Return the URI of exactly one image, whatever tags come to be; `digest` begins with "sha256:"."""
    return f"{repository_uri(account, region, repository_name)}@{digest}"


def execution_role(grid: str, region: str) -> str:
    """Return the name of the role that SageMaker assumes in a training Region.

    It has a fixed name, as all roles that are named in another Region or account: the home Region must be allowed to
    pass exactly these roles, and cannot look up what CloudFormation called them elsewhere. IAM is global, so the Region
    in the name keeps two Regions of one account from colliding.
    """
    return f"{grid}-execution-{region}"


def execution_role_arn(grid: str, account: str, region: str) -> str:
    """Return the ARN of `execution_role`."""
    return role_arn(account, execution_role(grid, region))


def home_role(grid: str, part: Part) -> str:
    """Return the name of the role that a part of the control plane has.

    Other accounts trust it. It is the same without other accounts: a role whose name changes is another role, and
    running arrays would keep a job definition whose role CloudFormation deletes.
    """
    return f"{grid}-{_HOME_ROLES[part]}"


def acting_role(grid: str, part: Part, region: str) -> str:
    """Return the name of the role that a part takes on to act in a training Region of another account."""
    return f"{grid}-{part}-{region}"


def forwarding_role(grid: str, region: str) -> str:
    """Return the name of the role with which a training Region sends events home."""
    return f"{grid}-events-{region}"


def forwarding_rules(grid: str) -> dict[Literal["training", "queued"], str]:
    """Return the names of the rules that send state changes home: of training jobs, and of jobs in service queues.

    The role's trust policy names them, and CloudFormation shortens the names that it chooses itself.
    """
    return {"training": f"{grid}-forward", "queued": f"{grid}-forward-queued"}


def replication_role(grid: str) -> str:
    """Return the name of the role that waits until images are replicated; registries of other accounts let it look."""
    return f"{grid}-replication"


def role_arn(account: str, role: str) -> str:
    """Return the ARN of a role, given by its name."""
    return f"arn:aws:iam::{account}:role/{role}"


def training_job(grid: str, submission: str, index: int, attempt: int) -> str:
    """Return the name of the training job of line `index` (from 0) of a submission, at attempt `attempt`.

    The name is the idempotency token: SageMaker accepts a name once per account and Region, as long as nobody deletes
    the training job (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeleteTrainingJob.html).
    """
    return f"{grid}-{submission}-{index}-{attempt}"


def training_job_pattern(grid: str) -> str:
    """Return what all names of a grid's training jobs are like, as IAM writes it.

    It has as many characters as a submission's id: `traingrid-*` would be those of a grid called traingrid-eu, too.
    It still is of a grid whose name goes on with eight characters; IAM knows no narrower pattern.
    """
    return f"{grid}-????????-*"


def parse_training_job(grid: str, name: str) -> TrainingJobName | None:
    """Return what `training_job` made a name of, or None for a name that it cannot have made."""
    match = _TRAINING_JOB.fullmatch(name.removeprefix(f"{grid}-")) if name.startswith(f"{grid}-") else None
    if match is None:
        return None
    parsed = TrainingJobName(submission=match["submission"], index=int(match["index"]), attempt=int(match["attempt"]))
    written = training_job(grid, parsed.submission, parsed.index, parsed.attempt)
    return parsed if written == name else None  # "007" is a number, but not one that we wrote
