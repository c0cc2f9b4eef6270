"""Manifest forms: the three forms have the same fields, jobs and errors."""

import json
import re
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.session import get_session
from botocore.validate import validate_parameters

from tests.support.sample_deployment import ACCOUNT, sample_deployment
from traingrid.backends.sagemaker.request import fingerprint, training_job_request
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings
from traingrid.job.job import Channel, Job, job_in_region
from traingrid.manifest.errors import LineError, ManifestError
from traingrid.manifest.limits import most
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse

SUBMISSION = "0123abcd"
DLC = "763104351884.dkr.ecr.{region}.amazonaws.com"
OUTPUT = f"s3://traingrid-output-{ACCOUNT}-us-east-1"


def deployment(**changes: Any) -> Deployment:
    sample = sample_deployment()
    allowed: dict[str, Any] = {
        "instance_types": ["ml.g5.48xlarge", "ml.m5.large"],
        "image_registries": [f"{DLC}/tensorflow-training"],
        "algorithms": ["forest", "arn:aws:sagemaker:{region}:123456789012:algorithm/trees"],
    }
    grid = sample.grid.model_dump(mode="json", exclude_defaults=True) | allowed | changes
    return replace(sample, grid=GridSettings.model_validate(grid))


def jobs_of(content: str, **changes: Any) -> list[Job]:
    there = deployment(**changes)
    return jobs_of_lines(parse(content.encode(), there), there, SUBMISSION)


def job_of(**values: Any) -> Job:
    """Return the job of one line in JSON Lines, with defaults for region and s3_uri."""
    line = {"region": "us-east-1"} | ({} if "inputs" in values else {"s3_uri": "s3://ragab-ml/x"}) | values
    (job,) = jobs_of(json.dumps(line))
    return job


def errors_of(content: str, **changes: Any) -> list[LineError]:
    with pytest.raises(ManifestError) as caught:
        jobs_of(content, **changes)
    return caught.value.errors


def error_of(**values: Any) -> LineError:
    line = {"region": "us-east-1"} | ({} if "inputs" in values else {"s3_uri": "s3://ragab-ml/x"}) | values
    (error,) = errors_of(json.dumps(line))
    return error


FULL: dict[str, Any] = {
    "name": "monday",
    "region": "us-east-1",
    "inputs": {"train": "s3://ragab-ml/a/train/", "validation": "s3://ragab-ml/a/validation/"},
    "image": f"{DLC}/tensorflow-training:2.14-gpu",
    "source": "s3://ragab-ml/code/sourcedir.tar.gz",
    "entry_point": "train.py",
    "hyperparameters": {"epochs": 3, "rate": 0.5, "augment": True, "model": "resnet101"},
    "instance_type": "ml.g5.48xlarge",
    "instance_count": 2,
    "volume_gb": 200,
    "processes_per_host": 8,
    "mpi_options": "-x NCCL_DEBUG=INFO",
    "spot": True,
    "max_runtime": "12h",
    "max_wait": "2d",
    "checkpoints": True,
    "output": f"{OUTPUT}/team/",
    "metrics": "train_loss validation_top1",
    "environment": {"SEED": 7},
    "tags": {"team": "perception"},
    "priority": 5,
    "retries": 4,
}
CSV = """\
name,region,input.train,input.validation,image,source,entry_point,hp.epochs,hp.rate,hp.augment,hp.model,instance_type,\
instance_count,volume_gb,processes_per_host,mpi_options,spot,max_runtime,max_wait,checkpoints,output,metrics,env.SEED,\
tag.team,priority,retries
"""


def test_csv_with_a_header_and_json_lines_give_the_same_jobs() -> None:
    cells: list[str] = []
    for value in FULL.values():
        parts = value.values() if isinstance(value, dict) else [value]
        cells += [str(part).lower() if isinstance(part, bool) else str(part) for part in parts]
    (of_csv,) = jobs_of(CSV + ",".join(cells) + "\n")
    (of_json,) = jobs_of(json.dumps(FULL))
    assert of_csv.model_copy(update={"line": 1}) == of_json


def test_every_field_is_in_the_job() -> None:
    (job,) = jobs_of(json.dumps(FULL))
    assert job.inputs == {name: Channel(uri=uri) for name, uri in FULL["inputs"].items()}
    assert job.image == "763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-training:2.14-gpu"
    assert job.hyperparameters == {"epochs": "3", "rate": "0.5", "augment": "true", "model": "resnet101"}
    assert (job.max_runtime_seconds, job.max_wait_seconds, job.spot) == (43200, 172800, True)
    assert job.output == f"{OUTPUT}/team/"
    assert job.checkpoints == f"{OUTPUT}/{SUBMISSION}/0/checkpoints/"
    assert list(job.metrics) == ["train_loss", "validation_top1"]
    assert (job.environment, job.tags) == ({"SEED": "7"}, {"team": "perception"})
    assert (job.ranks, job.volume_gb, job.priority, job.retries) == (16, 200, 5, 4)


def test_the_request_of_every_field_is_one_that_the_service_model_accepts() -> None:
    (job,) = jobs_of(json.dumps(FULL))
    request = training_job_request("traingrid-0123abcd-0-1", job, "arn:aws:iam::123456789012:role/x-y-z", {})
    shape = get_session().get_service_model("sagemaker").operation_model("CreateTrainingJob").input_shape
    assert shape is not None
    validate_parameters(request, shape)
    assert request["StoppingCondition"] == {"MaxRuntimeInSeconds": 43200, "MaxWaitTimeInSeconds": 172800}
    assert request["EnableManagedSpotTraining"] is True
    assert request["CheckpointConfig"] == {"S3Uri": job.checkpoints}
    assert request["RetryStrategy"] == {"MaximumRetryAttempts": 4}
    assert request["HyperParameters"]["sagemaker_program"] == "train.py"
    assert request["HyperParameters"]["sagemaker_submit_directory"] == FULL["source"]


def test_a_channel_may_set_how_it_is_read() -> None:
    channel = {
        "uri": "s3://ragab-ml/list.json",
        "input_mode": "Pipe",
        "distribution": "ShardedByS3Key",
        "shuffle_seed": 7,
        "manifest": True,
    }
    job = job_of(inputs={"train": channel})
    assert job.inputs["train"] == Channel.model_validate(channel)
    request = training_job_request("x", job, "arn", {})["InputDataConfig"][0]
    assert (request["InputMode"], request["ShuffleConfig"]) == ("Pipe", {"Seed": 7})
    assert request["DataSource"]["S3DataSource"]["S3DataType"] == "ManifestFile"


def test_omitted_fields_have_the_grids_defaults() -> None:
    plain, header, lines = (
        jobs_of("us-east-1,s3://ragab-ml/x\n"),
        jobs_of("region,s3_uri,spot,hp.epochs\nus-east-1,s3://ragab-ml/x,,\n"),
        jobs_of('{"region": "us-east-1", "s3_uri": "s3://ragab-ml/x"}\n'),
    )
    assert plain == lines == [job.model_copy(update={"line": 1}) for job in header]
    assert plain[0].retries == 2


def test_jobs_of_a_higher_priority_have_smaller_indexes() -> None:
    lines = [{"region": "us-east-1", "s3_uri": f"s3://ragab-ml/{n}", "priority": n % 2} for n in range(4)]
    jobs = jobs_of("\n".join(map(json.dumps, lines)))
    assert [(job.index, job.line) for job in jobs] == [(0, 2), (1, 4), (2, 1), (3, 3)]


REPLICAS = {"us-west-2": "s3://ragab-ml-pdx/x", "eu-west-1": "s3://ragab-ml-dub/y"}


def test_a_job_is_derived_for_a_region_that_holds_a_replica() -> None:
    job = job_of(replicas=REPLICAS, output=f"{OUTPUT}/team", spot=True)
    assert job.regions == ("us-east-1", "us-west-2", "eu-west-1")
    there = job_in_region(job, "eu-west-1")
    assert there.region == "eu-west-1"
    assert there.inputs["train"].uri == "s3://ragab-ml-dub/y/train/"
    assert there.image == f"{ACCOUNT}.dkr.ecr.eu-west-1.amazonaws.com/traingrid/training:1"
    assert there.output == f"s3://traingrid-output-{ACCOUNT}-eu-west-1/team/"
    assert there.checkpoints == f"s3://traingrid-output-{ACCOUNT}-eu-west-1/{SUBMISSION}/0/checkpoints/"
    assert there.hyperparameters == job.hyperparameters
    assert set(there.regions) == set(job.regions)


def test_a_derived_job_leads_back_to_the_first() -> None:
    job = job_of(replicas=REPLICAS)
    assert job_in_region(job_in_region(job, "eu-west-1"), "us-east-1") == job
    assert job_in_region(job, "us-east-1") is job
    assert Job.model_validate_json(job.model_dump_json(exclude_defaults=True)) == job
    with pytest.raises(KeyError):
        job_in_region(job, "eu-central-1")


def test_replicas_have_the_same_channels_as_their_line() -> None:
    inputs = {"train": {"uri": "s3://ragab-ml/t", "input_mode": "FastFile"}, "extra": "s3://ragab-ml/e"}
    replica = {"train": "s3://ragab-ml-pdx/t", "extra": "s3://ragab-ml-pdx/e/"}
    there = job_in_region(job_of(inputs=inputs, replicas={"us-west-2": replica}), "us-west-2")
    assert there.inputs["train"] == Channel(uri="s3://ragab-ml-pdx/t", input_mode="FastFile")
    assert there.inputs["extra"] == Channel(uri="s3://ragab-ml-pdx/e/")
    assert "same channels" in error_of(inputs=inputs, replicas={"us-west-2": "s3://ragab-ml-pdx/t"}).reason


def test_replicas_may_be_columns() -> None:
    (job,) = jobs_of("region,s3_uri,replica.us-west-2\nus-east-1,s3://ragab-ml/x,s3://ragab-ml-pdx/x\n")
    assert job_in_region(job, "us-west-2").inputs["train"].uri == "s3://ragab-ml-pdx/x/train/"


def test_an_algorithm_replaces_an_image() -> None:
    job = job_of(
        algorithm="arn:aws:sagemaker:{region}:123456789012:algorithm/trees",
        hyperparameters={"depth": 3},
        replicas={"us-west-2": "s3://ragab-ml-pdx/x"},
    )
    request = training_job_request("x", job_in_region(job, "us-west-2"), "arn", {})
    named = "arn:aws:sagemaker:us-west-2:123456789012:algorithm/trees"
    assert request["AlgorithmSpecification"] == {"AlgorithmName": named, "TrainingInputMode": "File"}
    assert request["HyperParameters"] == {"depth": "3"}
    assert fingerprint(request) != fingerprint(training_job_request("x", job, "arn", {}))


def test_all_errors_are_reported_with_field_value_and_next_step() -> None:
    errors = errors_of(
        "region,s3_uri,hp.epochs,hpp.rate,instance_count\n"
        "us-east-1,s3://ragab-ml/x,3,1,two\n"
        "us-esat-1,s3://ragab-ml/x,3,1,0\n"
    )
    assert [(error.line, error.field, error.value) for error in errors] == [
        (1, "field", "'hpp.rate'"),
        (2, "instance_count", "'two'"),
        (3, "region", "'us-esat-1'"),
        (3, "instance_count", "'0'"),
    ]
    assert "Did you mean hp.?" in errors[0].next_step
    assert all(error.reason and error.next_step for error in errors)


@pytest.mark.parametrize(
    "name", ["role", "role_arn", "RoleArn", "execution_role", "subnets", "security_group_ids", "kms_key", "account"]
)
def test_settings_of_the_deployment_are_refused_as_fields(name: str) -> None:
    (of_json,) = errors_of(json.dumps({"region": "us-east-1", "s3_uri": "s3://ragab-ml/x", name: "x"}))
    (of_csv,) = errors_of(f"region,s3_uri,{name}\nus-east-1,s3://ragab-ml/x,x\n")
    assert of_json.reason == of_csv.reason == "the deployment sets this, and a manifest cannot override it"


@pytest.mark.parametrize(
    ("values", "field", "reason"),
    [
        ({"instance_type": "ml.p4d.24xlarge"}, "instance_type", "does not allow this instance type"),
        ({"image": "resnett"}, "image", "not an image of this grid"),
        ({"image": "docker.io/library/python:3"}, "image", "does not allow the image's registry"),
        ({"image": f"{DLC}/pytorch-training:2"}, "image", "does not allow the image's registry"),
        ({"image": f"{DLC}/tensorflow-training-evil/x:1"}, "image", "does not allow the image's registry"),
        ({"image": f"{DLC}/tensorflow-training:2".format(region="eu-west-1")}, "image", "the image is in eu-west-1"),
        ({"algorithm": "other"}, "algorithm", "does not allow this algorithm"),
        ({"output": "s3://ragab-ml/x"}, "output", "may write only to the bucket"),
        ({"checkpoints": "s3://ragab-ml/x"}, "checkpoints", "may write only to the bucket"),
        ({"source": "s3://ragab-ml-pdx/a.tar.gz", "entry_point": "a.py"}, "source", "is in us-west-2"),
        ({"s3_uri": "s3://ragab-ml/%2e%2e/other"}, "s3_uri", "an encoded dot or slash"),
        ({"s3_uri": "s3://ragab-ml/k?versionId=abc"}, "s3_uri", "?versionId= is a part of its key"),
        ({"s3_uri": "s3://ragab-ml/a/*"}, "s3_uri", "* is a part of the key"),
        ({"s3_uri": "s3://ragab-ml/a/part-*"}, "s3_uri", "* is a part of the key"),
        ({"inputs": {"train": "s3://ragab-ml/a/*.csv/*"}}, "inputs.train", "* is a part of the key"),
        ({"replicas": {"us-west-2": "s3://ragab-ml-pdx/a/*"}}, "replicas.us-west-2", "* is a part of the key"),
        ({"replicas": {"us-west-2": "s3://ragab-ml/x"}}, "replicas.us-west-2", "is in us-east-1"),
        ({"replicas": {"mars": "s3://ragab-ml/x"}}, "replicas.mars", "not a training Region"),
    ],
)
def test_values_outside_the_allow_lists_are_refused(values: dict[str, Any], field: str, reason: str) -> None:
    error = error_of(**values)
    assert error.field == field
    assert reason in error.reason


@pytest.mark.parametrize(
    ("values", "field", "reason"),
    [
        ({"output": f"{OUTPUT}/{'x' * 941}"}, "output", "at most 940 bytes, because S3 limits the keys of results"),
        ({"output": f"{OUTPUT}/{'ü' * 471}"}, "output", "got 942"),
        ({"checkpoints": f"{OUTPUT}/{'x' * 941}"}, "checkpoints", "at most 940 bytes"),
        ({"output": f"{OUTPUT}/{'x' * 460}"}, "output", "more than 500 characters, too many for a variable"),
    ],
)
def test_output_uris_are_limited_by_their_whole_length(values: dict[str, Any], field: str, reason: str) -> None:
    error = error_of(**values)
    assert error.field == field
    assert reason in error.reason


def test_the_longest_output_uri_is_within_all_limits_of_a_request() -> None:
    foreign = f"{DLC}/tensorflow-training:2".format(region="us-east-1")
    for job in (job_of(output=f"{OUTPUT}/{'x' * 940}", image=foreign), job_of(output=f"{OUTPUT}/{'x' * 440}")):
        request = training_job_request("n" * 63, job, "arn:aws:iam::123456789012:role/r", {})
        assert len(request["OutputDataConfig"]["S3OutputPath"]) <= most("S3Uri")
        assert all(len(value) <= most("TrainingEnvironmentValue") for value in request.get("Environment", {}).values())
        key = request["OutputDataConfig"]["S3OutputPath"].split("/", 3)[3] + f"{'n' * 63}/output/model.tar.gz"
        assert len(key) <= 1024


def test_an_unknown_region_is_the_only_error_of_a_line_with_the_uri_of_an_image() -> None:
    error = error_of(region="mars", image=f"{DLC}/tensorflow-training:2".format(region="us-east-1"))
    assert (error.field, error.reason) == ("region", "not a training Region of this grid")


def test_images_in_the_grids_own_registry_need_no_allow_list() -> None:
    uri = f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/traingrid/training@sha256:{'0' * 64}"
    assert job_of(image=uri).image == uri


TWO = "region,s3_uri,instance_count\nus-east-1,s3://ragab-ml/x,3\nus-east-1,s3://ragab-ml/x,4\n"


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"jobs": 1}, "at most 1 jobs"),
        ({"instances": 6}, "7 instances in total, and a submission may use at most 6"),
        ({"accelerators": 55}, "56 accelerators in total, and a submission may use at most 55"),
    ],
)
def test_a_submission_beyond_a_limit_of_the_grid_is_refused_whole(limits: dict[str, int], reason: str) -> None:
    (error,) = errors_of(TWO, limits=limits)
    assert reason in error.reason
    assert len(jobs_of(TWO, limits={name: most + 1 for name, most in limits.items()})) == 2


def test_a_secret_is_refused_and_not_repeated() -> None:
    error = error_of(hyperparameters={"api_key": "hunter2hunter2"})
    assert "secret" in error.reason
    assert "hunter2" not in str(error)


def _examples() -> list[str]:
    docs = Path(__file__).parents[3] / "docs"
    text = "".join((docs / page).read_text() for page in ("manifest.md", "input.md", "manifest-fields.md"))
    blocks = re.findall(r"(?:^    .+\n)+", text, re.MULTILINE)
    return [textwrap.dedent(block) for block in blocks]


@pytest.mark.parametrize(
    "example", _examples(), ids=["plain", "header", "JSON Lines", "augmented", "RecordIO", "training plan", "backends"]
)
def test_the_manifests_of_the_documentation_are_good(example: str) -> None:
    regions = {
        "us-east-1": {"data_buckets": ["my-campaigns"], "training_plans": ["november"]},
        "us-west-2": {"data_buckets": ["my-campaigns-pdx"]},
        "eu-west-1": {"data_buckets": ["my-campaigns-dub"], "eks": {"cluster": "research"}},
    }
    assert jobs_of(example, regions=regions, instance_types=["ml.p5.48xlarge"])
