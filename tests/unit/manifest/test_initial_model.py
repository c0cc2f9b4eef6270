"""init_from: a line that begins with the model of an earlier job, before the ledger is read."""

import json
from dataclasses import replace
from typing import Any

import boto3
import pytest
from botocore.session import get_session
from botocore.validate import validate_parameters

from tests.support.sample_deployment import ACCOUNT, SAMPLE_BUCKETS, sample_deployment
from traingrid.backends.sagemaker.request import fingerprint, training_job_request
from traingrid.grid.deployment import Deployment
from traingrid.job.channels import channels_in_request
from traingrid.job.initial_model import InitialModel, initial_model_uri, needs_model_copy
from traingrid.job.job import Job, job_in_region
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse
from traingrid.manifest.plan import Planned
from traingrid.manifest.resource_checks import ResourceCheck, Resources
from traingrid.submission.files import normalised

HERE, THERE = "us-east-1", "eu-west-1"
KEY = "89abcdef/3/traingrid-89abcdef-3-1/output/model.tar.gz"
MODEL = InitialModel(
    submission="89abcdef", index=3, region=HERE, artifact=f"s3://traingrid-output-{ACCOUNT}-{HERE}/{KEY}"
)


def job_of(deployment: Deployment, **line: Any) -> Job:
    made = {"region": HERE, "s3_uri": f"s3://{SAMPLE_BUCKETS[HERE]}/x", **line}
    (job,) = jobs_of_lines(parse(json.dumps(made).encode(), deployment), deployment, "0123abcd")
    return job


def beginning(deployment: Deployment, **line: Any) -> Job:
    """Return the job of a line whose model was found."""
    return job_of(deployment, init_from="89abcdef/3", **line).model_copy(update={"init_from": MODEL})


def request(job: Job) -> dict[str, Any]:
    return training_job_request("traingrid-0123abcd-0-1", job, "arn:aws:iam::123456789012:role/x-y-z", {})


def algorithm(name: str, version: str) -> Deployment:
    made = sample_deployment()
    images = type(made.grid).model_validate(
        made.grid.model_dump(exclude_unset=True) | {"images": {"resnet": {"algorithm": name, "version": version}}}
    )
    return replace(made, grid=images)


def test_the_model_is_a_channel_as_sagemaker_names_it_for_incremental_training(deployment: Deployment) -> None:
    made = request(beginning(deployment))
    shape = get_session().get_service_model("sagemaker").operation_model("CreateTrainingJob").input_shape
    assert shape is not None
    validate_parameters(made, shape)
    assert made["InputDataConfig"][-1] == {
        "ChannelName": "model",
        "ContentType": "application/x-sagemaker-model",
        "InputMode": "File",
        "DataSource": {
            "S3DataSource": {
                "S3DataType": "S3Prefix",
                "S3Uri": MODEL.artifact,
                "S3DataDistributionType": "FullyReplicated",
            }
        },
    }


def test_a_line_without_the_field_has_no_such_channel(deployment: Deployment) -> None:
    assert "model" not in channels_in_request(job_of(deployment), "name")


def test_another_model_changes_the_fingerprint(deployment: Deployment) -> None:
    job = beginning(deployment)
    other = job.model_copy(
        update={"init_from": MODEL.model_copy(update={"artifact": MODEL.artifact.replace("/3/", "/4/")})}
    )
    prints = {fingerprint(request(each)) for each in (job_of(deployment), job, other)}
    assert len(prints) == 3


def test_the_model_survives_being_stored_with_the_line(deployment: Deployment) -> None:
    body, _ = normalised([beginning(deployment)])
    assert Job.model_validate_json(body).init_from == MODEL


def test_a_job_in_another_region_reads_a_copy_in_the_output_bucket_of_that_region(deployment: Deployment) -> None:
    job = beginning(deployment, replicas={THERE: f"s3://{SAMPLE_BUCKETS[THERE]}/x"})
    moved = job_in_region(job, THERE)
    assert not needs_model_copy(job)
    assert needs_model_copy(moved)
    assert initial_model_uri(moved) == f"s3://traingrid-output-{ACCOUNT}-{THERE}/initial-models/{KEY}"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("89abcdef", "must be the id of a submission and the index of a job, SUBMISSION/INDEX"),
        ("89ABCDEF/1", "must be the id of a submission and the index of a job, SUBMISSION/INDEX"),
        ("89abcdef/-1", "must be the id of a submission and the index of a job, SUBMISSION/INDEX"),
        ("89abcdef/01", "must be the id of a submission and the index of a job, SUBMISSION/INDEX"),
        ("s3://bucket/model.tar.gz", "must be the id of a submission and the index of a job, SUBMISSION/INDEX"),
        (7, "must be text"),
    ],
)
def test_another_form_is_refused(deployment: Deployment, value: object, reason: str) -> None:
    assert reasons(deployment, init_from=value) == [reason]


def test_a_line_with_a_channel_of_that_name_is_refused(deployment: Deployment) -> None:
    inputs = {name: f"s3://{SAMPLE_BUCKETS[HERE]}/{name}/" for name in ("train", "model")}
    found = reasons(deployment, init_from="89abcdef/3", s3_uri=None, inputs=inputs)
    assert found == ["init_from provides the channel model, and the line has a channel of this name"]


def test_an_algorithm_that_cannot_begin_with_a_model_is_refused() -> None:
    found = reasons(algorithm("xgboost", "1.7-1"), init_from="89abcdef/3")
    assert "SageMaker's algorithm xgboost cannot begin with the model of another job" in found


def test_the_channel_counts_towards_the_maximum_of_a_request(deployment: Deployment) -> None:
    inputs = {f"c{number}": f"s3://{SAMPLE_BUCKETS[HERE]}/{number}/" for number in range(20)}
    assert "the job has 21 channels, and SageMaker allows at most 20" in reasons(
        deployment, init_from="89abcdef/3", s3_uri=None, inputs=inputs
    )


def reasons(deployment: Deployment, **line: Any) -> list[str]:
    with pytest.raises(ManifestError) as error:
        job_of(deployment, **line)
    return [found.reason for found in error.value.errors]


def test_the_plan_names_the_copy_of_a_model_of_another_region(deployment: Deployment) -> None:
    line = {"region": THERE, "s3_uri": f"s3://{SAMPLE_BUCKETS[THERE]}/x"}
    job = beginning(deployment, **line)
    assert Planned(job=job, resources=ResourceCheck()).outcome == f"would train after a copy of the model from {HERE}"
    assert Planned(job=beginning(deployment), resources=ResourceCheck()).outcome == "would train"


def test_the_plan_checks_that_the_archive_exists(deployment: Deployment, aws: None) -> None:
    bucket = MODEL.artifact.split("/")[2]
    s3: Any = boto3.client("s3", HERE)
    for name in (bucket, SAMPLE_BUCKETS[HERE]):
        s3.create_bucket(Bucket=name)
    for channel in ("train", "validation"):
        s3.put_object(Bucket=SAMPLE_BUCKETS[HERE], Key=f"x/{channel}/a", Body=b"a")
    job = beginning(deployment).model_copy(update={"image": "", "algorithm": "mine"})
    assert f"no data found under {MODEL.artifact}" in Resources(deployment).check(job).trouble
    s3.put_object(Bucket=bucket, Key=KEY, Body=b"model")
    assert Resources(deployment).check(job).trouble == ""
