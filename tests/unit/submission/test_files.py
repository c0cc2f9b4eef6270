"""Submission: it is normalised so that each child reads little more than its own line."""

import json
import re

import pytest
from botocore.session import get_session
from botocore.validate import validate_parameters
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sample_deployment import ACCOUNT, SAMPLE, sample_deployment
from traingrid.aws.s3_uri import ObjectVersion, S3Uri
from traingrid.backends.sagemaker.request import fingerprint, training_job_request
from traingrid.errors import UsageError
from traingrid.job.job import Job
from traingrid.job.metrics import metric_regex
from traingrid.job.sizes import MAX_ARRAY
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse
from traingrid.submission.files import (
    chunks,
    index_uri,
    jobs_key,
    normalised,
    read_job,
    retry_key,
    submission_id,
    submission_of_key,
)

DEPLOYMENT = sample_deployment()
SUBMISSION = "0123abcd"
JOBS_URI = S3Uri("bucket", jobs_key(SUBMISSION))


class Objects:
    """S3 as a dictionary that counts the bytes read."""

    def __init__(self, content: dict[S3Uri, bytes]) -> None:
        self.content = content
        self.bytes_read = 0

    def read_range(self, uri: S3Uri, start: int, end: int) -> bytes:
        part = self.content[uri][start:end]
        self.bytes_read += len(part)
        return part


def jobs_of(manifest: str) -> list[Job]:
    return jobs_of_lines(parse(manifest.encode(), DEPLOYMENT), DEPLOYMENT, SUBMISSION)


def stored(jobs: list[Job]) -> Objects:
    body, index = normalised(jobs)
    return Objects({JOBS_URI: body, index_uri(JOBS_URI): index})


def test_every_child_reads_its_own_job() -> None:
    jobs = jobs_of(SAMPLE)
    objects = stored(jobs)
    assert [read_job(objects, JOBS_URI, index) for index in range(4)] == jobs


def test_an_index_beyond_the_submission_is_refused() -> None:
    objects = stored(jobs_of(SAMPLE))
    with pytest.raises(IndexError):
        read_job(objects, JOBS_URI, 4)


@pytest.mark.parametrize("uri", ["s3://bucket/a/jobs.jsonl", "s3://bucket/a?versionIds=1", "s3://bucket/a b+c%41#?x"])
def test_a_uri_without_a_version_names_the_current_object(uri: str) -> None:
    version = ObjectVersion.parse(uri)
    assert (str(version), version.version) == (uri, "")


def test_a_version_is_distinguished_from_the_key() -> None:
    version = ObjectVersion.parse("s3://bucket/my file?versionId=Abc_1.2-3")
    assert (version.bucket, version.key, version.version) == ("bucket", "my file", "Abc_1.2-3")
    assert str(version) == "s3://bucket/my file?versionId=Abc_1.2-3"


@pytest.mark.parametrize("position", [0, 50, -2])
def test_a_changed_line_is_refused(position: int) -> None:
    objects = stored(jobs_of(SAMPLE))
    content = bytearray(objects.content[JOBS_URI])
    content[position] ^= 1
    objects.content[JOBS_URI] = bytes(content)
    refused = 0
    for index in range(4):
        try:
            read_job(objects, JOBS_URI, index)
        except UsageError as error:
            assert "differs from the submitted line" in str(error)  # noqa: PT017  # most lines are untouched
            refused += 1
    assert refused == 1


@given(st.integers(min_value=0, max_value=60_000))
def test_arrays_hold_all_jobs_within_batchs_limit(jobs: int) -> None:
    sizes = chunks(jobs)
    assert sum(sizes) == jobs
    assert all(0 < size <= MAX_ARRAY for size in sizes)


def test_a_childs_reads_do_not_grow_with_the_submission() -> None:
    line = "us-east-1,s3://ragab-ml/x\n"
    few, many = stored(jobs_of(line * 8)), stored(jobs_of(line * 2000))
    read_job(few, JOBS_URI, 7)
    read_job(many, JOBS_URI, 7)
    assert few.bytes_read == many.bytes_read < 3000


def test_normalising_twice_gives_the_same_bytes() -> None:
    assert normalised(jobs_of(SAMPLE)) == normalised(jobs_of(SAMPLE))


def test_the_defaults_of_the_grid_are_in_the_job() -> None:
    job = jobs_of(SAMPLE)[1]
    assert job.ranks == 8
    assert job.image == f"{ACCOUNT}.dkr.ecr.us-west-2.amazonaws.com/traingrid/training:1"
    assert job.inputs["train"].uri == "s3://ragab-ml-pdx/imagenet2012/tf-imagenet/resized/train/"
    assert job.output == f"s3://traingrid-output-{ACCOUNT}-us-west-2/{SUBMISSION}/1/"
    assert job.hyperparameters == {"model": "resnet50"}


def test_an_id_depends_on_each_part_of_the_identity() -> None:
    ids = {submission_id("b", "key", "1"), submission_id("b", "key", "2"), submission_id("b", "ke", "y1")}
    assert len(ids) == 3
    assert submission_id("b", "key", "1") == submission_id("b", "key", "1")


def test_only_a_normalised_file_has_a_submission_in_its_key() -> None:
    assert submission_of_key(jobs_key(SUBMISSION)) == SUBMISSION
    assert submission_of_key(jobs_key(SUBMISSION, 2)) == SUBMISSION
    assert submission_of_key(retry_key(SUBMISSION, 1)) == SUBMISSION
    assert submission_of_key(f"submissions/{SUBMISSION}/jobs-0.jsonl") is None
    assert submission_of_key("manifests/x.csv") is None
    assert submission_of_key("submissions/nothex!!/jobs.jsonl") is None


def request_of(job: Job) -> dict[str, object]:
    return training_job_request("traingrid-0123abcd-0-1", job, DEPLOYMENT.execution_role_arn(job.region), {"a": "b"})


def test_a_request_is_one_that_the_service_model_accepts() -> None:
    shape = get_session().get_service_model("sagemaker").operation_model("CreateTrainingJob").input_shape
    assert shape is not None
    validate_parameters(request_of(jobs_of(SAMPLE)[0]), shape)


def test_a_request_asks_for_mpi_with_the_grid_s_options() -> None:
    hyperparameters = request_of(jobs_of(SAMPLE)[0])["HyperParameters"]
    assert isinstance(hyperparameters, dict)
    assert hyperparameters["sagemaker_mpi_enabled"] == "true"
    assert hyperparameters["sagemaker_mpi_num_of_processes_per_host"] == "8"
    assert "-mca btl_vader_single_copy_mechanism none" in hyperparameters["sagemaker_mpi_custom_mpi_options"]


def test_a_fingerprint_survives_describe_and_detects_other_jobs() -> None:
    request = request_of(jobs_of(SAMPLE)[0])
    described = {**request, "TrainingJobStatus": "InProgress", "CreationTime": 0}
    described.pop("Tags")
    assert fingerprint(described) == fingerprint(request)
    strangers: list[dict[str, object]] = [
        {"RoleArn": "arn:x"},
        {"HyperParameters": {}},
        {"OutputDataConfig": {"S3OutputPath": "s3://x/"}},
    ]
    for stranger in strangers:
        assert fingerprint({**described, **stranger}) != fingerprint(request)


def test_a_metric_is_found_by_its_name_only() -> None:
    assert re.findall(metric_regex("loss"), "epoch=3 train_loss=0.5 loss=1.5e-3") == ["1.5e-3"]


def test_a_stored_line_has_only_expressions_of_its_own() -> None:
    own = "accuracy is ([0-9.]+)"
    line = {
        "region": "us-east-1",
        "s3_uri": "s3://ragab-ml/cats",
        "metrics": {"loss": metric_regex("loss"), "accuracy": own},
    }
    jobs = jobs_of_lines(parse(json.dumps(line).encode(), DEPLOYMENT), DEPLOYMENT, SUBMISSION)
    objects = stored(jobs)
    assert json.loads(objects.content[JOBS_URI])["metrics"] == {"loss": "", "accuracy": own}
    assert read_job(objects, JOBS_URI, 0) == jobs[0]
