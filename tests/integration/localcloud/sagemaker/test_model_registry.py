"""The model registry: groups and versions with AWS's checks, and the command that registers a model."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner

from localcloud.credentials.environments import user_environment
from localcloud.server.local_cloud import LocalCloud
from tests.support.sample_deployment import ACCOUNT, sample_deployment
from tests.support.sample_job import sample_job
from traingrid.api import model_registry
from traingrid.api.control_plane import ControlPlane
from traingrid.aws.clients import client, renew
from traingrid.cli.main import cli
from traingrid.errors import UsageError
from traingrid.job.initial_model import InitialModel
from traingrid.job.job import Job, JobReplica
from traingrid.job.state import JobState
from traingrid.metrics.history import MetricHistory
from traingrid.metrics.points import MetricPoint
from traingrid.submission.status import JobStatus, SubmissionStatus

REGION, OTHER, SUBMISSION = "eu-west-1", "us-east-1", "0123abcd"
BUCKET = f"traingrid-output-{ACCOUNT}-{REGION}"
KEY = f"{SUBMISSION}/0/traingrid-{SUBMISSION}-0-1/output/model.tar.gz"
MODEL = f"s3://{BUCKET}/{KEY}"
IMAGE = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/traingrid/training:v1"


@pytest.fixture(scope="module", autouse=True)
def model(cloud: LocalCloud) -> Iterator[None]:
    """A model in the output bucket of a Region; meanwhile this process has a user's environment."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in user_environment(cloud.endpoint_url).items():
            patch.setenv(name, value)
        renew()
        s3: Any = client("s3", REGION)
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        s3.put_object(Bucket=BUCKET, Key=KEY, Body=b"model")
        yield
    renew()


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """The name of a group that no other test uses."""
    return str(request.node.name).partition("[")[0].replace("_", "-")[-60:].strip("-")


def packages(group: str) -> list[dict[str, Any]]:
    found = client("sagemaker", REGION).list_model_packages(ModelPackageGroupName=group)
    listed: list[dict[str, Any]] = found["ModelPackageSummaryList"]
    return listed


def status(**changes: Any) -> JobStatus:
    facts: dict[str, Any] = {"state": JobState.COMPLETED, "artifact": MODEL, "metrics": {"validation_top1": 0.9}}
    facts["training_job"] = f"traingrid-{SUBMISSION}-0-1"
    return JobStatus(**{"index": 0, "region": REGION, "name": "digits", **facts, **changes})


@pytest.fixture
def plane(monkeypatch: pytest.MonkeyPatch) -> ControlPlane:
    """A control plane with one completed job, whose model is in the Region's output bucket."""
    facts: dict[str, Any] = {"index": 0, "region": REGION, "attempt": 1, "metric": "validation_top1", "step": None}
    points = [
        MetricPoint(**facts, value=value, epoch=epoch, time=datetime(2026, 11, 1, epoch, tzinfo=UTC))
        for epoch, value in enumerate((0.5, 0.95, 0.9))
    ]
    having(monkeypatch, status(), sample_job(REGION).model_copy(update={"image": IMAGE}))
    monkeypatch.setattr(MetricHistory, "read", lambda _self, _indexes: points)
    unused: Any = None
    made = ControlPlane(deployment=sample_deployment(), ledger=unused, batch=unused, storage=unused)
    monkeypatch.setattr(ControlPlane, "of", lambda _file: made)
    return made


def having(monkeypatch: pytest.MonkeyPatch, job_status: JobStatus, job: Job | None = None) -> None:
    found = SubmissionStatus(submission=SUBMISSION, manifest="", batch_job="b", batch_state="", jobs=[job_status])
    monkeypatch.setattr(ControlPlane, "status", lambda _self, _submission: found)
    if job is not None:
        monkeypatch.setattr(ControlPlane, "last_submitted_jobs", lambda _self, _submission: {0: job})


def test_a_model_becomes_a_version_with_its_metadata(plane: ControlPlane, group: str) -> None:
    made = model_registry.register(plane, SUBMISSION, 0, group)
    assert (made.version, made.approval, made.result) == (1, "PendingManualApproval", "registered")
    described = client("sagemaker", REGION).describe_model_package(ModelPackageName=made.arn)
    assert described["InferenceSpecification"]["Containers"][0]["Image"] == IMAGE
    assert described["InferenceSpecification"]["Containers"][0]["ModelDataUrl"] == MODEL
    assert described["MetadataProperties"]["GeneratedBy"] == f"traingrid-{SUBMISSION}-0-1"
    assert described["CustomerMetadataProperties"] == {
        "traingrid:grid": "traingrid",
        "traingrid:submission": SUBMISSION,
        "traingrid:job": "0",
        "traingrid:training_job": f"traingrid-{SUBMISSION}-0-1",
        "traingrid:image": IMAGE,
        "best:validation_top1": "0.95",
        "metric:validation_top1": "0.9",
    }


def test_a_second_call_changes_nothing(plane: ControlPlane, group: str) -> None:
    first = model_registry.register(plane, SUBMISSION, 0, group)
    second = model_registry.register(plane, SUBMISSION, 0, group)
    assert (second.arn, second.result) == (first.arn, "kept")
    assert len(packages(group)) == 1


def test_two_calls_at_once_create_one_version(plane: ControlPlane, group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = model_registry.register(plane, SUBMISSION, 0, group)
    monkeypatch.setattr(
        model_registry._Registry, "find_version", lambda *_: None
    )  # it was listed before the first call
    assert model_registry.register(plane, SUBMISSION, 0, group).arn == first.arn
    assert len(packages(group)) == 1


def test_the_model_of_a_later_attempt_is_another_version(
    plane: ControlPlane, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_registry.register(plane, SUBMISSION, 0, group)
    again = KEY.replace("-0-1/", "-0-2/")
    client("s3", REGION).put_object(Bucket=BUCKET, Key=again, Body=b"model")
    having(monkeypatch, status(artifact=f"s3://{BUCKET}/{again}"))
    assert model_registry.register(plane, SUBMISSION, 0, group).version == 2


def test_an_existing_group_is_used(plane: ControlPlane, group: str) -> None:
    client("sagemaker", REGION).create_model_package_group(ModelPackageGroupName=group)
    assert model_registry.register(plane, SUBMISSION, 0, group).version == 1


def test_the_code_and_the_initial_model_are_recorded(
    plane: ControlPlane, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "s3://bucket/sources/9f86d081884c7d65.tar.gz"
    model = InitialModel(submission="89abcdef", index=3, region=REGION, artifact=MODEL)
    job = sample_job(REGION).model_copy(update={"source": source, "init_from": model})
    having(monkeypatch, status(), job)
    metadata = model_registry.register(plane, SUBMISSION, 0, group, IMAGE).metadata
    assert metadata["traingrid:source"] == "9f86d081884c7d65.tar.gz"
    assert metadata["traingrid:init_from"] == "89abcdef/3"


def test_an_algorithm_resource_is_named_instead_of_an_image(
    plane: ControlPlane, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    having(monkeypatch, status(), sample_job(REGION).model_copy(update={"image": "", "algorithm": "mine"}))
    made = model_registry.register(plane, SUBMISSION, 0, group)
    described = client("sagemaker", REGION).describe_model_package(ModelPackageName=made.arn)
    (named,) = described["SourceAlgorithmSpecification"]["SourceAlgorithms"]
    assert (named["AlgorithmName"], named["ModelDataUrl"], made.image) == ("mine", MODEL, "")
    assert model_registry.register(plane, SUBMISSION, 0, group).result == "kept"


def test_a_job_that_moved_names_the_image_of_the_region_in_which_it_trained(
    plane: ControlPlane, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = IMAGE.replace(REGION, OTHER)
    here = f"{IMAGE.partition(':')[0]}@sha256:{'a' * 64}"
    replica = JobReplica(inputs={}, output=f"s3://{BUCKET}/x/", image=here)
    changes: dict[str, Any] = {"image": there, "replicas": {REGION: replica}}
    having(monkeypatch, status(), sample_job(OTHER).model_copy(update=changes))
    made = model_registry.register(plane, SUBMISSION, 0, group)
    assert (made.image, made.metadata["traingrid:image"]) == (here, here)


@pytest.mark.parametrize(
    ("image", "why"),
    [
        (IMAGE.replace(REGION, OTHER), f"is in {OTHER}, but its model is in {REGION}"),
        ("docker.io/library/python:3.11", "is not the URI of an image in Amazon ECR"),
        ("digits", "is not the URI of an image in Amazon ECR"),
    ],
)
def test_an_image_with_which_the_model_cannot_be_deployed_is_refused(
    plane: ControlPlane, group: str, image: str, why: str
) -> None:
    with pytest.raises(UsageError, match=why) as error:
        model_registry.register(plane, SUBMISSION, 0, group, image)
    assert f"--image: ACCOUNT.dkr.ecr.{REGION}.amazonaws.com/" in error.value.next_step
    listed = client("sagemaker", REGION).list_model_package_groups(NameContains=group)
    assert listed["ModelPackageGroupSummaryList"] == []


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.IN_PROGRESS, JobState.STOPPED])
def test_a_job_that_is_not_completed_has_no_model_to_register(
    plane: ControlPlane, group: str, monkeypatch: pytest.MonkeyPatch, state: JobState
) -> None:
    having(monkeypatch, status(state=state))
    with pytest.raises(UsageError, match=f"Job 0 of submission {SUBMISSION} is {state} and has no model"):
        model_registry.register(plane, SUBMISSION, 0, group)


def test_an_index_outside_of_the_submission_is_refused(plane: ControlPlane, group: str) -> None:
    with pytest.raises(UsageError, match="has no job with index 1"):
        model_registry.register(plane, SUBMISSION, 1, group)


def test_an_invalid_name_of_a_group_is_refused(plane: ControlPlane) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a model group"):
        model_registry.register(plane, SUBMISSION, 0, "my group")


def test_the_command_prints_the_version_and_the_next_step(plane: ControlPlane, group: str) -> None:
    ended = CliRunner().invoke(cli, ["register", SUBMISSION, "0", "--group", group], catch_exceptions=False)
    first, arn, step = ended.output.splitlines()
    assert first == f"version 1 of {group} in {REGION}, PendingManualApproval"
    assert arn.startswith(f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:model-package/")
    assert f"aws sagemaker update-model-package --region {REGION} --model-package-arn {arn}" in step
    arguments = ["register", SUBMISSION, "0", "--group", group, "--output", "json"]
    (row,) = json.loads(CliRunner().invoke(cli, arguments, catch_exceptions=False).output)
    assert (row["arn"], row["result"], row["metadata"]["traingrid:job"]) == (arn, "kept", "0")


def refused(call: str, **request: Any) -> str:
    with pytest.raises(ClientError) as error:
        getattr(client("sagemaker", REGION), call)(**request)
    assert error.value.response["Error"]["Code"] == "ValidationException"
    return str(error.value)


def container(uri: str = MODEL) -> dict[str, Any]:
    return {"InferenceSpecification": {"Containers": [{"Image": IMAGE, "ModelDataUrl": uri}]}}


def made_group(name: str) -> str:
    """Return the name of a group, which exists then."""
    sagemaker = client("sagemaker", REGION)
    if not sagemaker.list_model_package_groups(NameContains=name)["ModelPackageGroupSummaryList"]:
        sagemaker.create_model_package_group(ModelPackageGroupName=name)
    return name


def test_a_second_group_of_a_name_is_refused(group: str) -> None:
    client("sagemaker", REGION).create_model_package_group(ModelPackageGroupName=group)
    assert "already exists" in refused("create_model_package_group", ModelPackageGroupName=group)


def test_requests_are_checked_against_the_service_model(group: str) -> None:
    assert "Member must satisfy" in refused("create_model_package_group", ModelPackageGroupName="a_b")
    client("sagemaker", REGION).create_model_package_group(ModelPackageGroupName=group)
    long = {"traingrid:grid": "x" * 257}
    request = {"ModelPackageGroupName": group, "CustomerMetadataProperties": long, **container()}
    assert "less than or equal to 256" in refused("create_model_package", **request)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        (f"s3://{BUCKET}/none/model.tar.gz", "Could not find model data"),
        (f"s3://{BUCKET}/none/model", "must have the suffix .tar.gz"),
    ],
)
def test_a_version_needs_an_archive_that_exists(group: str, uri: str, expected: str) -> None:
    request = {"ModelPackageGroupName": made_group(group), **container(uri)}
    assert expected in refused("create_model_package", **request)


def test_a_model_of_another_region_is_refused(group: str) -> None:
    client("sagemaker", OTHER).create_model_package_group(ModelPackageGroupName=group)
    with pytest.raises(ClientError, match="must be in the Region of the model package"):
        client("sagemaker", OTHER).create_model_package(ModelPackageGroupName=group, **container())


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (IMAGE.replace(REGION, OTHER), "must be in the Region of the model package"),
        ("python:3.11", "is not a path in Amazon ECR"),
    ],
)
def test_the_image_of_a_version_is_in_ecr_in_its_region(group: str, image: str, expected: str) -> None:
    inference = {"Containers": [{"Image": image, "ModelDataUrl": MODEL}]}
    request = {"ModelPackageGroupName": made_group(group), "InferenceSpecification": inference}
    assert expected in refused("create_model_package", **request)


@pytest.mark.parametrize(
    ("uri", "kind", "expected"),
    [
        (f"s3://{BUCKET}/none/", "S3Prefix", "Could not find model data"),
        (f"s3://{BUCKET}/{SUBMISSION}", "S3Prefix", "must end with a slash"),
        (f"s3://{BUCKET}/{SUBMISSION}/", "S3Object", "Could not find model data"),
        (f"s3://{BUCKET}/{SUBMISSION}/", "S3Prefix", ""),
        (MODEL, "S3Object", ""),
    ],
)
def test_a_source_of_model_data_exists(group: str, uri: str, kind: str, expected: str) -> None:
    data = {"S3Uri": uri, "S3DataType": kind, "CompressionType": "None"}
    containers = [{"Image": IMAGE, "ModelDataSource": {"S3DataSource": data}}]
    request = {"ModelPackageGroupName": made_group(group), "InferenceSpecification": {"Containers": containers}}
    if expected:
        assert expected in refused("create_model_package", **request)
    else:
        assert client("sagemaker", REGION).create_model_package(**request)["ModelPackageArn"]


def test_a_version_belongs_to_an_existing_group_and_has_no_name(group: str) -> None:
    assert "does not exist" in refused("create_model_package", ModelPackageGroupName=group, **container())
    names = {"ModelPackageGroupName": made_group(group), "ModelPackageName": "digits"}
    assert "Both ModelPackageName and ModelPackageGroupName" in refused("create_model_package", **names, **container())


def test_a_package_without_a_group_needs_instance_types(group: str) -> None:
    assert "SupportedTransformInstanceTypes is required for an unversioned" in refused(
        "create_model_package", ModelPackageName=group, **container()
    )
    request = container()
    request["InferenceSpecification"]["SupportedTransformInstanceTypes"] = ["ml.m5.large"]
    request["InferenceSpecification"]["SupportedRealtimeInferenceInstanceTypes"] = ["ml.m5.large"]
    arn = client("sagemaker", REGION).create_model_package(ModelPackageName=group, **request)["ModelPackageArn"]
    assert arn.endswith(f":model-package/{group}")


def test_a_version_has_no_tags_of_its_own(group: str) -> None:
    client("sagemaker", REGION).create_model_package_group(ModelPackageGroupName=group)
    tags = [{"Key": "team", "Value": "perception"}]
    request = {"ModelPackageGroupName": group, "Tags": tags, **container()}
    assert "Tags cannot be specified" in refused("create_model_package", **request)


def test_only_a_group_without_versions_is_deleted(group: str) -> None:
    sagemaker = client("sagemaker", REGION)
    sagemaker.create_model_package_group(ModelPackageGroupName=group)
    sagemaker.delete_model_package_group(ModelPackageGroupName=group)
    assert "does not exist" in refused("delete_model_package_group", ModelPackageGroupName=group)
    sagemaker.create_model_package_group(ModelPackageGroupName=group)
    sagemaker.create_model_package(ModelPackageGroupName=group, **container())
    assert "still has model packages" in refused("delete_model_package_group", ModelPackageGroupName=group)
