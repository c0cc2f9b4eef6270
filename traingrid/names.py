"""Names: computes the name of every AWS resource of a grid from the grid's name, so that no lookup is necessary.

`grid` is always the grid's name (the key `name` of grid.yaml). `account` may be a CDK token at synth, so these
functions do not inspect it. The longest names limit the length of a grid's name; see `traingrid.grid.model.NAME_LIMIT`.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Literal

GRID_FILE_VARIABLE = "TRAINGRID_GRID_FILE"
"""The environment variable with the path of the grid's file, for `traingrid`, `cdk` and `make`; by default grid.yaml.
TRAINGRID_GRID of children and functions has the grid itself."""

MANIFEST_PREFIX = "manifests/"
"""The prefix in the manifest bucket for manifests; only an object under this prefix starts a submission."""

BY_HAND_PREFIX = "by-hand/"
"""The prefix in the manifest bucket for manifests that users submit to Batch themselves. The intake must not process
these objects, because it would train every line a second time."""

SUBMISSION_PREFIX = "submissions/"
"""The prefix of the normalised submissions, which the intake writes and Batch children read."""

SWEEP_PREFIX = "sweeps/"
"""The prefix in the manifest bucket of the journals of sweeps, and below `MANIFEST_PREFIX` of their manifests: a folder
with the name of each sweep."""

ROUNDS_PREFIX = "rounds/"
"""The same for rounds, whose folder also has the manifests of their merges (docs/rounds.md)."""

IMAGE_PROGRAM = "sagemaker_image_program"
"""The hyperparameter that chooses a program of the training image (training_container/contract/launch_options.py)."""
TRAINER_PROGRAM, MERGE_PROGRAM, MERGE_METHOD = "trainer", "merge", "merge_method"
"""The default program, the one that merges models, and the hyperparameter with its method (merge/options.py there)."""
MERGE_PREFIX = "merges/"
"""The prefix in a Region's data bucket of the copies of models to merge, and below `MANIFEST_PREFIX` of the manifests
of merges."""

SOURCE_PREFIX = "sources/"
"""The prefix in a Region's data bucket for the source archives that `traingrid submit` uploads, named by SHA-256."""

REPORT_SUFFIX = ".report.json"
"""The suffix that the intake appends to a manifest's key to name its report. A key with it is never a manifest."""

DATASETS = "datasets"
"""The partition key in the ledger of all datasets. It never collides with a submission id, which is hexadecimal."""

LEDGER_STATES = "states"
"""The index of the ledger with the states of jobs (`traingrid/ledger/job_states.py`)."""
LEDGER_SUBMISSIONS = "submissions"
"""The index of the ledger with the items of submissions, in the order of their claims (`Ledger.submissions`)."""

OPEN_SUBMISSIONS = "open"
"""The partition key in the ledger of the index of submissions with open work; no submission id, as `DATASETS`."""
MOVES = "moves"
"""The partition key in the ledger of all copies of data between Regions; no submission id, as `DATASETS`."""

CATALOG_FOLLOWER = "traingrid_follower"
"""The role in the catalog's database of the function that follows the ledger (`traingrid/catalog/roles.py`)."""

COPY_PREFIX = "copies/"
"""The prefix in a Region's data bucket of the copies that plans choose; dataset and version follow."""

MERGE_START, MERGE_VELOCITY = "start.tar.gz", "velocity.tar.gz"
"""The names of the copies of the common start of a round and of the velocity of its outer step, beside those of models
(training_container/merge/velocity.py)."""

MODEL_ARCHIVE = "model.tar.gz"
"""The name of a model's archive in the output of its training job
(https://docs.aws.amazon.com/sagemaker/latest/dg/cdf-training.html)."""
OUTPUT_ARCHIVE = "output.tar.gz"
"""The name beside it of the archive with the other files of a training job
(https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-output.html)."""
INITIAL_MODEL_PREFIX = "initial-models/"
"""The prefix in a Region's output bucket of copies of models from other Regions, with which jobs begin."""

CHECKPOINTS = "checkpoints"
"""The folder of a job's checkpoints, below its own prefix in an output bucket."""
DATASET_MARKER = "dataset.json"
"""The name of the object in a data bucket that ends the upload of a dataset version and registers it."""
_HADOOP_FOLDER = "_$folder$"
"""The end of the name of Hadoop's empty object for a folder."""
RECORD_INDEX = "_records.json"
"""The name of the index of a folder's TFRecord files (docs/input.md).

It describes the data of its folder and is none of it: see `is_record_index`."""

DATASET_REPORT_PREFIX = "datasets/"
"""The prefix in the manifest bucket of the reports on markers. Functions only read the data buckets."""

MAX_MARKER_NAME = 1024 - len(f"{DATASET_REPORT_PREFIX}{REPORT_SUFFIX}")
"""Maximum length in bytes of a marker's bucket and key that fit into the key of its report."""

GENERATED_PREFIX = f"{MANIFEST_PREFIX}on_dataset/"
"""The prefix of the manifests that rules of `on_dataset` generate."""

TRAINING_REPOSITORY = "training"
"""The name in grid.yaml of the training image's ECR repository, the same in every training Region."""

BUILT_TAG = "built"
"""The prefix of the tags of images that a deployment built; the target, if any, and a hash follow."""

BUILD_EVENTS = "traingrid.builds"
"""The source of the event by which an image build's script reports its end."""

REGIONS_QUESTION, JOBS_QUESTION = "Custom::TrainingRegions", "Custom::RunningJobs"
"""The types of the two custom resources by which CloudFormation checks for unfinished jobs: in a Region that an update
removes, and in a grid that is being destroyed."""

BOOTSTRAP = "/cdk-bootstrap/hnb659fds/version"
"""The parameter in which `cdk bootstrap` stores its version; hnb659fds is the CDK's default qualifier
(https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-env.html)."""

POD_IDENTITY_AGENT = "eks-pod-identity-agent"
"""The add-on that gives pods the credentials of their role
(https://docs.aws.amazon.com/eks/latest/userguide/pod-id-agent-setup.html)."""

TAG_GRID = "traingrid:grid"
TAG_SUBMISSION = "traingrid:submission"
TAG_JOB = "traingrid:job"
TAG_IMAGE = "traingrid:image"
"""The tag of the image that a job definition runs."""
TAG_FINGERPRINT = "traingrid:fingerprint"
"""A hash of the training job's request; a description by AWS may differ in form from the request."""

Part = Literal["launch", "record", "sweep", "register", "use"]
"""The parts of traingrid that act in other accounts than the home Region's: a child launches, the event recorder reads
how jobs ended, the reconciler sweeps, the registrar reads datasets, and a user of the command line uses data, results
and logs."""

_HOME_ROLES: dict[Part, str] = {
    "launch": "child",
    "record": "recorder",
    "sweep": "reconciler",
    "register": "registrar",
}
"""The names of the control plane's roles; a user has a different role."""
QUEUED_PREFIXES = ("AWSBatch", "awsbatch")
"""The prefix of AWS Batch's names of training jobs, and its spelling in an ARN (`queued_training_job_prefixes`)."""
_MAX_QUEUED_LENGTH = 63 - 32  # of a name without Batch's id

RESERVED_ENDING = re.compile(
    r"-(control|images|builds|guard|registry|training|training-quota|shared|[0-9a-f]{8})$", re.ASCII
)
"""Reserved suffixes of a grid's name. They prevent collisions: these functions append them to a grid's name to name
its stacks, queues and keys, and a training job's name starts with the grid's name and eight hexadecimal digits."""

_TRAINING_JOB = re.compile(r"(?P<submission>[0-9a-f]{8})-(?P<index>\d+)-(?P<attempt>\d+)", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class TrainingJobName:
    """The parts of a training job's name: the submission, the index of the line, and the attempt."""

    submission: str
    index: int
    attempt: int


def is_record_index(key: str) -> bool:
    """Return True for an index of records, by its key or path.

    An index is neither copied between Regions nor compared there, it does not count as an object of a dataset, and no
    folder has data because of it: users write it at any time, to each copy by itself. Readers of channels ignore it
    like all hidden objects.
    """
    return key.rpartition("/")[2] == RECORD_INDEX


def is_hidden(path: str) -> bool:
    """Return True for an object that is no data, by its path in the folder of a channel.

    Hadoop and Spark write temporary files and metadata in folders and files that begin with an underscore or a dot:
    `_SUCCESS`, `_temporary/` of a task that was killed, `_delta_log/` of Delta Lake, `.hoodie/` of Hudi. A folder
    such as `_day=3` is a value of a partition and has data (HadoopFSUtils.shouldFilterOutPathName in
    https://github.com/apache/spark). training_container/trainer/data/shards.py has the same rule.
    """
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in path.split("/"))


def is_data(path: str) -> bool:
    """Return True for an object that training may read, by its path in the folder of a channel or of a dataset.

    Folder markers, those of Hadoop included, hidden objects and the marker of a dataset are no data.
    """
    is_marker = path in ("", DATASET_MARKER) or path.endswith(("/", _HADOOP_FOLDER))
    return not is_marker and not is_hidden(path)


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
    """Return the name of the stack of image repositories in a training Region other than the home Region."""
    return f"{grid}-registry-{region}"


def guard_stack(grid: str) -> str:
    """Return the name of the stack in the home Region that is destroyed first; unfinished jobs prevent that."""
    return f"{grid}-guard"


def guard_function(grid: str) -> str:
    """Return the name of the guard's function; it is fixed because another stack creates the function."""
    return f"{grid}-guard-regions"


def manifest_bucket(grid: str, account: str, region: str) -> str:
    """Return the name of the bucket for manifests; `region` is the home Region."""
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
    """Return the S3 URI, with a trailing slash, under which job `index` of a submission stores its artifacts."""
    return f"s3://{output_bucket(grid, account, region)}/{submission}/{index}/"


def checkpoint_prefix(output: str) -> str:
    """Return the S3 URI, with a trailing slash, of a job's checkpoints, unless its line sets another one.

    Args:
        output: The `output_prefix` of the job, also if its line has another output.
    """
    return f"{output}{CHECKPOINTS}/"


def metric_parts(output: str, training_job_name: str) -> str:
    """Return the S3 URI, with a trailing slash, of the parts of a training job's metric history.

    The name distinguishes attempts, and jobs whose lines have the same `output`.

    Args:
        output: The job's output prefix, with a trailing slash.
        training_job_name: The name that `training_job` returns.
    """
    return f"{output}metrics/{training_job_name}/"


def dataset_report(bucket: str, key: str) -> str:
    """Return the key in the manifest bucket of the report on a marker, given by its bucket and key.

    A key has at most 1,024 bytes (https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html), so that of a
    long marker's key is a hash.
    """
    name = f"{bucket}/{key}"
    if len(name.encode()) > MAX_MARKER_NAME:
        name = hashlib.sha256(name.encode()).hexdigest()
    return f"{DATASET_REPORT_PREFIX}{name}{REPORT_SUFFIX}"


def generated_manifest(rule: str, dataset: str, version: str) -> str:
    """Return the key of the manifest that a rule of `on_dataset` generates for a dataset version.

    It depends on nothing else, and the manifest is written only if the key does not exist. So each rule starts at most
    one submission for a version, although every new object under `manifests/` is a submission.
    """
    return f"{GENERATED_PREFIX}{rule}/{dataset}/{version}.jsonl"


def control_key(grid: str) -> str:
    """Return the alias of the KMS key that encrypts the control plane's data."""
    return f"alias/{grid}-control"


def data_key(grid: str) -> str:
    """Return the alias, the same in every training Region, of the KMS key that encrypts data and results."""
    return f"alias/{grid}"


def images_key(grid: str) -> str:
    """Return the alias of the home Region's KMS key for the logs and undelivered events of image builds."""
    return f"alias/{grid}-images"


def event_bus(grid: str) -> str:
    """Return the name of the home Region's event bus, to which training Regions forward state changes."""
    return grid


def job_queue(grid: str, *, shared: bool = False) -> str:
    """Return the name of the Batch job queue.

    A queue that is shared by weights has a different name, because Batch cannot convert one kind of queue to the other
    (https://docs.aws.amazon.com/batch/latest/APIReference/API_CreateJobQueue.html).
    """
    return f"{grid}-shared" if shared else grid


def service_queue(grid: str, *, quota: bool = False) -> str:
    """Return the name, the same in every training Region, of the service queue for training jobs.

    Its service environment and scheduling policy have the same name. A queue with quota shares has a different name,
    because Batch cannot convert one kind of queue to the other.
    """
    return f"{grid}-training-quota" if quota else f"{grid}-training"


def queued_training_job_prefixes(grid: str) -> list[str]:
    """Return the prefixes of the training jobs that AWS Batch creates from the grid's service jobs.

    A name is "AWSBatch", the requested name and an id of 32 digits, as the examples in
    https://docs.aws.amazon.com/batch/latest/userguide/getting-started-sagemaker.html show. That is longer than the 63
    characters of a name, and the documentation does not specify which part is truncated, so the prefix has only the
    part that always fits. The second spelling is the lower case that SageMaker's ARNs have had for names with upper
    case (https://github.com/boto/boto3/issues/4606); IAM compares ARNs case-sensitively.
    """
    return [f"{prefix}{grid}-"[:_MAX_QUEUED_LENGTH] for prefix in QUEUED_PREFIXES]


def job_definition(grid: str) -> str:
    """Return the name, without a revision, of the Batch job definition that runs the orchestrator."""
    return f"{grid}-orchestrator"


def repository(grid: str, name: str) -> str:
    """Return the full name of the ECR repository with the given name in grid.yaml."""
    return f"{grid}/{name}"


def training_repository(grid: str) -> str:
    """Return the name of the ECR repository, the same in every training Region, of the training image."""
    return repository(grid, TRAINING_REPOSITORY)


def orchestrator_repository(grid: str) -> str:
    """Return the name of the ECR repository in the home Region of the orchestrator's image."""
    return repository(grid, "orchestrator")


def repository_uri(account: str, region: str, repository_name: str) -> str:
    """Return the URI, without a tag, to which images are pushed; `repository_name` is the full name."""
    return f"{registry_uri(account, region)}/{repository_name}"


def registry_uri(account: str, region: str) -> str:
    """Return the address of an account's registry in a Region."""
    return f"{account}.dkr.ecr.{region}.amazonaws.com"


def image_uri(account: str, region: str, repository_name: str, tag: str) -> str:
    """Return the URI from which Batch and SageMaker pull an image; `repository_name` is the full name."""
    return f"{repository_uri(account, region, repository_name)}:{tag}"


def image_of_digest(account: str, region: str, repository_name: str, digest: str) -> str:
    """Return the URI of one image, independently of its tags; `digest` begins with "sha256:"."""
    return f"{repository_uri(account, region, repository_name)}@{digest}"


def execution_role(grid: str, region: str) -> str:
    """Return the name of the role that SageMaker assumes in a training Region.

    Its name is fixed, like that of every role that policies of another Region or account name: the home Region must be
    allowed to pass exactly these roles, and cannot look up names that CloudFormation generated elsewhere. IAM is
    global, so the name contains the Region to keep two Regions of one account from colliding.
    """
    return f"{grid}-execution-{region}"


def execution_role_arn(grid: str, account: str, region: str) -> str:
    """Return the ARN of `execution_role`."""
    return role_arn(account, execution_role(grid, region))


def home_role(grid: str, part: Part) -> str:
    """Return the name of the role of a part of the control plane.

    Other accounts trust this role. A grid without other accounts uses the same name: renaming a role replaces it, and
    running arrays would keep a job definition whose role CloudFormation deleted.
    """
    return f"{grid}-{_HOME_ROLES[part]}"


def follower_role(grid: str) -> str:
    """Return the name of the role of the function that keeps the catalog up to date, which the database's role names.

    It acts in the home Region only, so it is not one of `home_role`.
    """
    return f"{grid}-follower"


def guard_role(grid: str) -> str:
    """Return the name of the region guard's role, which access entries of EKS clusters name.

    It assumes no role in other accounts, so it is not one of `home_role`.
    """
    return f"{grid}-guard"


def acting_role(grid: str, part: Part, region: str) -> str:
    """Return the name of the role that a part assumes to act in a training Region of another account."""
    return f"{grid}-{part}-{region}"


def forwarding_role(grid: str, region: str) -> str:
    """Return the name of the role with which a training Region sends events to the home Region."""
    return f"{grid}-events-{region}"


def forwarding_rules(grid: str) -> dict[Literal["training", "queued", "datasets"], str]:
    """Return the names of the rules that forward state changes of training jobs and of queued jobs, and new datasets.

    The names are fixed because the role's trust policy names the rules, and CloudFormation truncates generated names.
    """
    return {
        "training": f"{grid}-forward",
        "queued": f"{grid}-forward-queued",
        "datasets": f"{grid}-forward-datasets",
    }


def replication_role(grid: str) -> str:
    """Return the name of the role that waits for image replication; registries of other accounts grant it access."""
    return f"{grid}-replication"


def role_arn(account: str, role: str) -> str:
    """Return the ARN of a role, given by its name."""
    return f"arn:aws:iam::{account}:role/{role}"


def region_of_arn(arn: str) -> str:
    """Return the Region of an ARN."""
    return arn.split(":")[3]


def account_of_arn(arn: str) -> str:
    """Return the account of an ARN."""
    return arn.split(":")[4]


def name_of_arn(arn: str) -> str:
    """Return the name at the end of an ARN, after its last slash."""
    return arn.rpartition("/")[2]


def kubernetes_group(grid: str, part: Part) -> str:
    """Return the group that a part's role has in the API of a Kubernetes cluster, to which RoleBindings refer."""
    return f"traingrid:{grid}:{part}"


def training_job(grid: str, submission: str, index: int, attempt: int) -> str:
    """Return the name of the training job of line `index` (from 0) of a submission, at attempt `attempt`.

    The name is the idempotency token: SageMaker accepts a name once per account and Region, unless the training job is
    deleted (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeleteTrainingJob.html).
    """
    return f"{grid}-{submission}-{index}-{attempt}"


def training_job_pattern(grid: str) -> str:
    """Return the IAM pattern that matches the names of a grid's training jobs.

    It has as many wildcards as a submission's id has characters: `traingrid-*` would also match the training jobs of a
    grid named traingrid-eu. It still matches those of a grid whose name adds eight characters; IAM has no narrower
    pattern.
    """
    return f"{grid}-????????-*"


def parse_training_job(grid: str, name: str) -> TrainingJobName | None:
    """Return the parts of a name that `training_job` returned, or None for any other name."""
    match = _TRAINING_JOB.fullmatch(name.removeprefix(f"{grid}-")) if name.startswith(f"{grid}-") else None
    if match is None:
        return None
    parsed = TrainingJobName(submission=match["submission"], index=int(match["index"]), attempt=int(match["attempt"]))
    formatted = training_job(grid, parsed.submission, parsed.index, parsed.attempt)
    return parsed if formatted == name else None  # "007" is a number, but `training_job` never writes it
