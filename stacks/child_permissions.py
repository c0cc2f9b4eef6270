"""Permissions of a Batch child: read its line, write its item in the ledger, and run the grid's training jobs."""

from collections.abc import Callable, Collection, Iterable

from aws_cdk import Aws
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from stacks.grants import deny, grant
from stacks.keys import read_with
from stacks.training_job_permissions import (
    WHOSE,
    alike,
    creation_conditions,
    never,
    training_jobs,
    training_plans,
)
from traingrid import names
from traingrid.grid.model import GridSettings
from traingrid.job.channels import MANIFEST_FOLDER, MANIFEST_SUFFIX

_COPY_SOURCE = "s3:x-amz-copy-source"
_ARN = "arn:aws:s3:::"
_ANY_JOB = "Any job that moves takes its checkpoint along; its prefix has the id of its submission"
_ANY_FOLDER = "A manifest line may copy any folder of a data bucket, or the model of any job, to another Region"


def let_read_its_line(role: iam.Role, bucket: s3.Bucket, ledger: dynamodb.ITable) -> None:
    """Allow a role to read submissions, and to read and write its item in the ledger.

    It may also write the jobs of a manifest that was submitted to Batch by hand, but not replace the jobs of any
    submission: the request must have the header If-None-Match
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes-enforce.html).
    """
    grant(
        role,
        ["s3:GetObject", "s3:GetObjectVersion"],
        [f"{bucket.bucket_arn}/{names.SUBMISSION_PREFIX}*", f"{bucket.bucket_arn}/{names.BY_HAND_PREFIX}*"],
        because="Any submission, and any manifest that a user submits in the Batch console",
    )
    folder = f"{bucket.bucket_arn}/{names.SUBMISSION_PREFIX}*"
    grant(
        role,
        ["s3:PutObject"],
        [f"{folder}/jobs.jsonl", f"{folder}/jobs.index"],
        conditions={"Null": {"s3:if-none-match": "false", _COPY_SOURCE: "true"}},
        because="The submission of any Batch job; its id is a hash",
    )
    items = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem"]
    grant(role, items, [ledger.table_arn])


def let_train(role: iam.Role, grid: GridSettings, regions: Collection[str]) -> None:
    """Allow a role to run training jobs of this grid in Regions of the same account, and to read their logs."""
    if not regions:
        return
    jobs = training_jobs(grid, regions)
    for group in alike(grid, regions):
        conditions = creation_conditions(grid, group)
        grant(
            role,
            ["sagemaker:CreateTrainingJob"],
            [*training_jobs(grid, group), *training_plans(grid, group)],
            conditions=conditions,
            because=f"{WHOSE}; SageMaker chooses the ids of reserved capacities",
        )
    for actions, denied_conditions in never(grid):
        deny(role, actions, conditions=denied_conditions)
    grant(
        role,
        ["sagemaker:AddTags"],
        jobs,
        conditions={"StringEquals": {"sagemaker:TaggingAction": "CreateTrainingJob"}},
        because=WHOSE,
    )
    looks = ["sagemaker:DescribeTrainingJob", "sagemaker:ListTags"]
    grant(role, [*looks, "sagemaker:StopTrainingJob"], jobs, because=WHOSE)
    _let_write_manifest_files(role, grid, regions)
    _let_pass_execution_roles(role, grid, regions)
    let_read_training_logs(role, grid, regions)


def _let_write_manifest_files(role: iam.Role, grid: GridSettings, regions: Iterable[str]) -> None:
    """Allow a role to list objects, and to write their channels and the manifest files that assign them to ranks.

    The role cannot read data, and the condition prevents that S3 copies data to such a name. ListBucket on the output
    buckets distinguishes a missing object from a forbidden one.
    """
    account = Aws.ACCOUNT_ID
    outputs = [names.output_bucket(grid.name, account, region) for region in regions]
    data = [bucket for region in regions for bucket in grid.data_buckets(account, region)]
    grant(role, ["s3:ListBucket"], [f"arn:aws:s3:::{bucket}" for bucket in (*data, *outputs)])
    files = [f"arn:aws:s3:::{bucket}/*/{MANIFEST_FOLDER}/*{MANIFEST_SUFFIX}" for bucket in outputs]
    because = "The manifest files of any training job are below its own output; no other object has such a name"
    grant(role, ["s3:GetObject"], files, because=because)
    grant(role, ["s3:PutObject"], files, conditions={"Null": {_COPY_SOURCE: "true"}}, because=because)


def let_copy_data(role: iam.Role, grid: GridSettings) -> None:
    """Allow a role to copy data and models between the Regions of its account, if `moves` is set.

    S3 reads a copy's source with the caller's permissions
    (https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html). The role cannot delete objects, and writes
    only to the grid's own data buckets. It reads only buckets that are the source or the target of an allowed copy.
    """
    targets = {region: sources for region in grid.at_home() if (sources := grid.copy_sources(region))}
    if not targets:
        return
    readable = [_data_bucket(grid, region) for region in targets]
    origins = dict.fromkeys(source for several in targets.values() for source in several)
    for region in origins:
        readable += grid.data_buckets(Aws.ACCOUNT_ID, region)
        read_with(role, grid.regions[region].data_keys, region=region)
    models = _models(grid, dict.fromkeys([*targets, *origins]))
    grant(role, ["s3:GetObject"], [*_objects(dict.fromkeys(readable)), *models], because=_ANY_FOLDER)
    own_buckets = [_data_bucket(grid, region) for region in targets]
    outputs = [names.output_bucket(grid.name, Aws.ACCOUNT_ID, region) for region in targets]
    parts = ["s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"]
    grant(role, parts, _writable(grid, targets), because=_ANY_FOLDER)
    grant(role, ["s3:ListBucketMultipartUploads"], [f"arn:aws:s3:::{bucket}" for bucket in (*own_buckets, *outputs)])
    _let_write_copies(role, grid, targets)


def let_copy_checkpoints(role: iam.Role, grid: GridSettings) -> None:
    """Allow a role to copy checkpoints between the output buckets of the Regions of its account, if `moves` is set.

    It may also delete checkpoints there, because a child removes copies that its job does not need any more. The bucket
    keeps deleted versions for a while. A condition on the ETag requires s3:GetObject, too
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-deletes.html).
    """
    targets = [region for region in grid.at_home() if grid.checkpoint_sources(region)]
    if not targets:
        return
    origins = [source for region in targets for source in grid.checkpoint_sources(region)]
    readable = _checkpoints(grid, dict.fromkeys([*targets, *origins]))
    grant(role, ["s3:GetObject"], readable, because=_ANY_JOB)
    writes = ["s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "s3:DeleteObject"]
    grant(role, writes, _checkpoints(grid, targets), because=_ANY_JOB)
    outputs = [names.output_bucket(grid.name, Aws.ACCOUNT_ID, region) for region in targets]
    grant(role, ["s3:ListBucketMultipartUploads"], [f"{_ARN}{bucket}" for bucket in outputs])
    if not any(grid.regions[region].checkpoint_areas for region in grid.at_home()):
        grant(role, ["s3:PutObject"], _checkpoints(grid, targets), because=_ANY_JOB)
        return
    for sources, regions in _alike(grid, targets, grid.may_hold_checkpoints).items():
        only = _copied_from(_checkpoints(grid, sources))
        grant(role, ["s3:PutObject"], _checkpoints(grid, regions), conditions=only, because=_ANY_JOB)


def _let_write_copies(role: iam.Role, grid: GridSettings, targets: Iterable[str]) -> None:
    """Allow a role to write to the data buckets of Regions, and copies of models, but none that may not be there.

    The condition compares the source of CopyObject and of each UploadPartCopy; the requests that begin and complete an
    upload in parts have none (https://docs.aws.amazon.com/AmazonS3/latest/userguide/amazon-s3-policy-keys.html: a key
    has the value of the header with its name). A source in another form, such as an access point, does not match.
    """
    if not any(grid.regions[region].residency for region in grid.at_home()):
        grant(role, ["s3:PutObject"], _writable(grid, targets), because=_ANY_FOLDER)
        return
    for sources, regions in _alike(grid, targets, grid.may_hold).items():
        buckets = [bucket for source in sources for bucket in grid.data_buckets(Aws.ACCOUNT_ID, source)]
        only = _copied_from([*_objects(buckets), *_models(grid, sources)])
        grant(role, ["s3:PutObject"], _writable(grid, regions), conditions=only, because=_ANY_FOLDER)


def _alike(
    grid: GridSettings, targets: Iterable[str], may_hold: Callable[[str, str], bool]
) -> dict[tuple[str, ...], list[str]]:
    """Return the targets by the Regions from which they may have copies.

    A Region is a source of itself, so that Regions without residency share a statement.
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    for region in targets:
        sources = tuple(source for source in grid.at_home() if may_hold(region, source))
        alike.setdefault(sources, []).append(region)
    return alike


def _copied_from(arns: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """Return the condition that an object, if it is a copy, is one of these."""
    return {"StringLikeIfExists": {_COPY_SOURCE: [arn.removeprefix(_ARN) for arn in arns]}}


def _data_bucket(grid: GridSettings, region: str) -> str:
    return names.data_bucket(grid.name, Aws.ACCOUNT_ID, region)


def _writable(grid: GridSettings, regions: Iterable[str]) -> list[str]:
    """Return the objects that copies create in Regions: any in the data buckets, and models in the output buckets."""
    region_list = list(regions)
    outputs = [names.output_bucket(grid.name, Aws.ACCOUNT_ID, region) for region in region_list]
    copies = [f"{_ARN}{bucket}/{names.INITIAL_MODEL_PREFIX}*/model.tar.gz" for bucket in outputs]
    return [*_objects(_data_bucket(grid, region) for region in region_list), *copies]


def _models(grid: GridSettings, regions: Iterable[str]) -> list[str]:
    """Return the models of all training jobs in Regions, and copies of them."""
    outputs = [names.output_bucket(grid.name, Aws.ACCOUNT_ID, region) for region in regions]
    return [f"{_ARN}{bucket}/*/output/model.tar.gz" for bucket in outputs]


def _checkpoints(grid: GridSettings, regions: Iterable[str]) -> list[str]:
    """Return the checkpoints of all jobs in Regions, except in folders that lines choose."""
    outputs = [names.output_bucket(grid.name, Aws.ACCOUNT_ID, region) for region in regions]
    return [f"{_ARN}{bucket}/*/{names.CHECKPOINTS}/*" for bucket in outputs]


def _objects(buckets: Iterable[str]) -> list[str]:
    return [f"arn:aws:s3:::{bucket}/*" for bucket in buckets]


def _let_pass_execution_roles(role: iam.Role, grid: GridSettings, regions: Iterable[str]) -> None:
    """Allow a role to pass one execution role for each Region, and only to SageMaker."""
    roles = [names.execution_role_arn(grid.name, Aws.ACCOUNT_ID, region) for region in regions]
    to_sagemaker = {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}
    grant(role, ["iam:PassRole"], roles, conditions=to_sagemaker)


def let_read_training_logs(role: iam.Role, grid: GridSettings, regions: Iterable[str]) -> None:
    """Allow a role to read the output of the containers of the grid's training jobs."""
    groups = [f"arn:aws:logs:{region}:{Aws.ACCOUNT_ID}:log-group:/aws/sagemaker/TrainingJobs" for region in regions]
    grant(
        role,
        ["logs:GetLogEvents"],
        [f"{group}:log-stream:{names.training_job_pattern(grid.name)}" for group in groups],
        because="SageMaker names the log streams of this grid's jobs after job and host",
    )
    grant(
        role,
        ["logs:DescribeLogStreams"],
        [f"{group}:*" for group in groups],
        because="The ARN of a log group ends with an asterisk; the action cannot be limited to single streams",
    )
