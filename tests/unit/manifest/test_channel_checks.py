"""Channels: input modes and streams of manifest lines, and the requested channels."""

import json
from typing import Any

import pytest
from botocore.session import get_session
from botocore.validate import validate_parameters

from tests.unit.manifest.test_forms import SUBMISSION, error_of, errors_of, job_of, jobs_of
from traingrid.backends.sagemaker.request import fingerprint, training_job_request
from traingrid.grid.model import GridSettings
from traingrid.job.job import Channel, Job, job_in_region
from traingrid.submission.files import normalised

NAME = f"traingrid-{SUBMISSION}-0-1"
OUTPUT = f"s3://traingrid-output-123456789012-us-east-1/{SUBMISSION}/0/"


def request_of(job: Job) -> dict[str, Any]:
    request = training_job_request(NAME, job, "arn:aws:iam::123456789012:role/x-y-z", {})
    shape = get_session().get_service_model("sagemaker").operation_model("CreateTrainingJob").input_shape
    assert shape
    validate_parameters(request, shape)
    return request


def sources_of(job: Job) -> dict[str, dict[str, Any]]:
    """Return the mode, seed and source of each requested channel."""
    return {
        channel["ChannelName"]: {
            "mode": channel["InputMode"],
            "seed": channel.get("ShuffleConfig", {}).get("Seed"),
            **channel["DataSource"]["S3DataSource"],
        }
        for channel in request_of(job)["InputDataConfig"]
    }


def test_the_three_forms_set_the_input_mode_in_one_field() -> None:
    header = "region,s3_uri,input_mode,streams,shuffle_seed\nus-east-1,s3://ragab-ml/x,Pipe,rank,7\n"
    (of_csv,) = jobs_of(header)
    of_json = job_of(input_mode="Pipe", streams="rank", shuffle_seed=7)
    assert of_csv.model_copy(update={"line": 1}) == of_json
    (of_grid,) = jobs_of("us-east-1,s3://ragab-ml/x\n", job=a_job(input_mode="Pipe", streams="rank", shuffle_seed=7))
    assert (of_grid.inputs, of_grid.streams) == (of_json.inputs, "rank")


def a_job(**changes: Any) -> dict[str, Any]:
    return {"image": "resnet", "instance_type": "ml.p3.16xlarge", "processes_per_host": 8, **changes}


@pytest.mark.parametrize("mode", ["File", "FastFile"])
def test_file_channels_change_only_their_mode(mode: str) -> None:
    sources = sources_of(job_of(input_mode=mode, instance_count=2))
    assert {name: source["mode"] for name, source in sources.items()} == {"train": mode, "validation": mode}
    assert {source["S3DataDistributionType"] for source in sources.values()} == {"FullyReplicated"}
    assert {source["seed"] for source in sources.values()} == {None}


def test_a_channel_overrides_the_line_and_the_line_the_grid() -> None:
    inputs = {
        "train": {"uri": "s3://ragab-ml/a/", "shuffle_seed": 1, "distribution": "FullyReplicated"},
        "validation": {"uri": "s3://ragab-ml/b/", "input_mode": "File"},
        "extra": "s3://ragab-ml/c/",
    }
    line = {"region": "us-east-1", "inputs": inputs, "input_mode": "Pipe", "instance_count": 2, "shuffle_seed": 5}
    (job,) = jobs_of(json.dumps(line), job=a_job(input_mode="FastFile", shuffle_seed=9))
    sources = sources_of(job)
    assert {name: (source["mode"], source["seed"]) for name, source in sources.items()} == {
        "train": ("Pipe", 1),
        "validation": ("File", None),
        "extra": ("Pipe", 5),
    }
    assert {name: source["S3DataDistributionType"] for name, source in sources.items()} == {
        "train": "FullyReplicated",
        "validation": "FullyReplicated",
        "extra": "ShardedByS3Key",
    }


@pytest.mark.parametrize(("hosts", "distribution"), [(1, "FullyReplicated"), (3, "ShardedByS3Key")])
def test_several_hosts_share_the_objects_of_their_streams(hosts: int, distribution: str) -> None:
    sources = sources_of(job_of(input_mode="Pipe", instance_count=hosts))
    assert {source["S3DataDistributionType"] for source in sources.values()} == {distribution}
    assert list(sources) == ["train", "validation"]


def test_one_stream_per_rank_has_a_separate_channel_and_manifest_file() -> None:
    sources = sources_of(
        job_of(input_mode="Pipe", streams="rank", instance_count=2, processes_per_host=2, shuffle_seed=3)
    )
    names = [f"{channel}_{rank}" for channel in ("train", "validation") for rank in range(4)]
    assert list(sources) == names
    for name in names:
        assert sources[name] == {
            "mode": "Pipe",
            "seed": 3,
            "S3DataType": "ManifestFile",
            "S3Uri": f"{OUTPUT}{NAME}/input/{name}.manifest",
            "S3DataDistributionType": "FullyReplicated",
        }


def test_a_file_channel_is_not_sharded_by_rank() -> None:
    inputs = {"train": "s3://ragab-ml/a/", "words": {"uri": "s3://ragab-ml/w/", "input_mode": "File"}}
    job = job_of(inputs=inputs, input_mode="Pipe", streams="rank", processes_per_host=2)
    assert list(sources_of(job)) == ["train_0", "train_1", "words"]


def test_in_another_region_the_manifest_files_are_in_that_regions_bucket() -> None:
    replicas = {"eu-west-1": "s3://ragab-ml-dub/x"}
    job = job_of(input_mode="Pipe", streams="rank", processes_per_host=2, replicas=replicas)
    moved = job_in_region(job, "eu-west-1")
    assert moved.inputs["train"] == Channel(uri="s3://ragab-ml-dub/x/train/", input_mode="Pipe")
    sources = sources_of(moved)
    assert sources["train_1"]["S3Uri"].startswith("s3://traingrid-output-123456789012-eu-west-1/")


def test_a_replica_inherits_the_mode_of_its_channel() -> None:
    inputs = {"train": {"uri": "s3://ragab-ml/a/", "input_mode": "File"}}
    job = job_of(inputs=inputs, input_mode="Pipe", replicas={"eu-west-1": "s3://ragab-ml-dub/a/"})
    assert job.replicas["eu-west-1"].inputs["train"].input_mode == "File"


def test_too_many_channels_are_refused_with_their_number_and_a_fix() -> None:
    error = error_of(input_mode="Pipe", streams="rank", instance_count=2)
    assert error.field == "streams"
    assert "16 ranks of train and validation requires 32 channels, and SageMaker allows at most 20" in error.reason
    assert "streams host" in error.next_step
    assert job_of(input_mode="Pipe", streams="host", instance_count=80).ranks == 640
    assert len(sources_of(job_of(input_mode="Pipe", streams="rank", processes_per_host=10))) == 20


def test_too_many_channels_by_the_grids_defaults_are_refused() -> None:
    grid = a_job(input_mode="Pipe", streams="rank", processes_per_host=11)
    (error,) = errors_of("us-east-1,s3://ragab-ml/x\n", job=grid)
    assert "requires 22 channels" in error.reason


@pytest.mark.parametrize(
    ("settings", "field", "reason"),
    [
        ({"input_mode": "pipe"}, "input_mode", "not a valid value"),
        ({"input_mode": "Pipe", "streams": "both"}, "streams", "not a valid value"),
        ({"input_mode": "Pipe", "shuffle_seed": -1}, "shuffle_seed", "out of range"),
        ({"streams": "rank"}, "streams", "no channel of the line uses it"),
        ({"input_mode": "File", "shuffle_seed": 3}, "shuffle_seed", "no channel of the line uses it"),
    ],
)
def test_invalid_stream_settings_are_refused(settings: dict[str, Any], field: str, reason: str) -> None:
    error = error_of(**settings)
    assert error.field == field
    assert reason in error.reason


@pytest.mark.parametrize(
    ("channel", "reason"),
    [
        ({"uri": "s3://ragab-ml/list.json", "manifest": True}, "is a ManifestFile"),
        ({"uri": "s3://ragab-ml/a/", "distribution": "ShardedByS3Key"}, "is sharded by host"),
    ],
)
def test_a_channel_that_cannot_be_sharded_by_rank_is_refused(channel: dict[str, Any], reason: str) -> None:
    error = error_of(inputs={"train": channel}, input_mode="Pipe", streams="rank")
    assert reason in error.reason
    assert "streams host" in error.next_step


AUGMENTED = {"uri": "s3://ragab-ml/labels.jsonl", "attributes": ["source-ref", "label"], "record_wrapper": "RecordIO"}


def test_an_augmented_manifest_is_requested_with_its_attributes_in_order() -> None:
    job = job_of(
        inputs={"train": AUGMENTED},
        input_mode="Pipe",
        shuffle_seed=7,
        source="s3://ragab-ml/code.tar.gz",
        entry_point="train.py",
    )
    (channel,) = training_job_request("x", job, "arn", {})["InputDataConfig"]
    source = channel["DataSource"]["S3DataSource"]
    assert (source["S3DataType"], source["AttributeNames"]) == ("AugmentedManifestFile", ["source-ref", "label"])
    assert (channel["RecordWrapperType"], channel["ShuffleConfig"]) == ("RecordIO", {"Seed": 7})


@pytest.mark.parametrize(
    ("changes", "settings", "reason"),
    [
        ({"record_wrapper": "None"}, {"input_mode": "FastFile"}, "SageMaker supports attributes only in Pipe mode"),
        ({"attributes": []}, {"input_mode": "Pipe"}, "attributes must be a list of names"),
        ({"attributes": "label"}, {"input_mode": "Pipe"}, "attributes must be a list of names"),
        ({"attributes": ["a"] * 17}, {"input_mode": "Pipe"}, "SageMaker allows at most 16 attributes"),
        ({"attributes": [""]}, {"input_mode": "Pipe"}, "must not be empty"),
        ({"record_wrapper": "TFRecord"}, {"input_mode": "Pipe"}, "SageMaker does not support"),
        ({"uri": "s3://ragab-ml/labels/"}, {"input_mode": "Pipe"}, "its URI is a folder"),
        ({"manifest": True}, {"input_mode": "Pipe"}, "has manifest and attributes"),
        ({}, {"input_mode": "Pipe", "streams": "rank"}, "train is an augmented manifest, but traingrid writes"),
    ],
)
def test_an_invalid_augmented_manifest_is_refused(
    changes: dict[str, Any], settings: dict[str, Any], reason: str
) -> None:
    script = {"source": "s3://ragab-ml/code.tar.gz", "entry_point": "train.py"} if "source" not in settings else {}
    line = {name: value for name, value in settings.items() if value is not None} | script
    assert reason in error_of(inputs={"train": AUGMENTED | changes}, **line).reason


@pytest.mark.parametrize(
    "channel",
    [
        AUGMENTED,
        AUGMENTED | {"attributes": ["image-ref", "class"], "content_type": "application/x-recordio"},
        {"uri": "s3://ragab-ml/records/", "content_type": "application/x-recordio"},
    ],
)
def test_the_trainer_reads_recordio_in_pipe_mode(channel: dict[str, Any]) -> None:
    job = job_of(inputs={"train": channel}, input_mode="Pipe")
    assert training_job_request("x", job, "arn", {})["InputDataConfig"][0]["InputMode"] == "Pipe"


@pytest.mark.parametrize(
    ("channel", "settings", "reason"),
    [
        (
            AUGMENTED | {"attributes": ["source-ref"]},
            {"input_mode": "Pipe"},
            "an image (a name with -ref) and its label",
        ),
        (AUGMENTED | {"attributes": ["label", "source-ref"]}, {"input_mode": "Pipe"}, "an image (a name with -ref)"),
        (AUGMENTED | {"attributes": ["a-ref", "b-ref"]}, {"input_mode": "Pipe"}, "an image (a name with -ref)"),
        (AUGMENTED | {"record_wrapper": "None"}, {"input_mode": "Pipe"}, "with record_wrapper RecordIO and two"),
        (
            {"uri": "s3://ragab-ml/images/", "record_wrapper": "RecordIO"},
            {"input_mode": "Pipe"},
            "wraps each object of the channel train, which then has no label",
        ),
        (
            {"uri": "s3://ragab-ml/records/", "content_type": "application/x-recordio"},
            {},
            "reads RecordIO only in Pipe mode, and the channel train is in File",
        ),
    ],
)
def test_a_channel_that_the_trainer_cannot_read_is_refused(
    channel: dict[str, Any], settings: dict[str, Any], reason: str
) -> None:
    assert reason in error_of(inputs={"train": channel}, **settings).reason


def test_a_record_wrapper_in_file_mode_is_refused() -> None:
    channel = {"uri": "s3://ragab-ml/a/", "record_wrapper": "RecordIO"}
    error = error_of(inputs={"train": channel}, source="s3://ragab-ml/code.tar.gz", entry_point="train.py")
    assert (
        "SageMaker supports record_wrapper RecordIO only in Pipe mode, and the channel train is in File" in error.reason
    )


def test_duplicate_or_too_long_names_of_rank_channels_are_refused() -> None:
    twice = {"train": "s3://ragab-ml/a/", "train_1": {"uri": "s3://ragab-ml/b/", "input_mode": "File"}}
    error = error_of(inputs=twice, input_mode="Pipe", streams="rank")
    assert "train_1 occurs twice" in error.reason
    error = error_of(inputs={"x" * 63: "s3://ragab-ml/a/"}, input_mode="Pipe", streams="rank")
    assert "too long a name" in error.reason


def test_an_algorithm_does_not_support_one_stream_per_rank() -> None:
    error = error_of(algorithm="forest", input_mode="Pipe", streams="rank")
    assert "does not support one stream per rank" in error.reason
    line = json.dumps({"region": "us-east-1", "s3_uri": "s3://ragab-ml/x", "algorithm": "forest"})
    (job,) = jobs_of(line, job=a_job(input_mode="Pipe", streams="rank"))
    assert list(sources_of(job)) == ["train", "validation"]


def test_a_previous_versions_submission_requests_the_same_training_job() -> None:
    written = json.dumps(
        {
            "index": 0,
            "line": 1,
            "name": "x",
            "region": "us-east-1",
            "inputs": {"train": {"uri": "s3://ragab-ml/x/train/", "input_mode": "Pipe"}},
            "image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/traingrid/training:1",
            "instance_type": "ml.p3.16xlarge",
            "instance_count": 2,
            "volume_gb": 100,
            "max_runtime_seconds": 3600,
            "processes_per_host": 8,
            "mpi_options": "",
            "output": OUTPUT,
        }
    )
    job = Job.model_validate_json(written)
    assert json.loads(normalised([job])[0]) == json.loads(written)
    request = request_of(job)
    assert "Environment" not in request
    # The job that the previous version created from the same line.
    assert fingerprint(request) == "3430fdf74b2291c313139ff0241124c451869604a83d83cb6e69f75227630273"
    (channel,) = request["InputDataConfig"]
    assert channel["DataSource"]["S3DataSource"]["S3DataDistributionType"] == "FullyReplicated"


def test_the_grids_own_image_receives_its_tensorboard_path() -> None:
    job = job_of(environment={"SEED": 7}, replicas={"eu-west-1": "s3://ragab-ml-dub/x"})
    environment = request_of(job)["Environment"]
    assert environment.items() >= {"SEED": "7", "TRAINGRID_TENSORBOARD": f"{OUTPUT}tensorboard/"}.items()
    there = request_of(job_in_region(job, "eu-west-1"))["Environment"]["TRAINGRID_TENSORBOARD"]
    assert there == f"s3://traingrid-output-123456789012-eu-west-1/{SUBMISSION}/0/tensorboard/"


def test_other_images_and_algorithms_receive_no_tensorboard_path() -> None:
    other = job_of(image="763104351884.dkr.ecr.{region}.amazonaws.com/tensorflow-training:2.14-gpu")
    assert "Environment" not in request_of(other)
    assert "Environment" not in request_of(job_of(algorithm="forest"))


def test_a_line_with_the_grids_own_image_may_set_one_variable_fewer() -> None:
    variables = {f"V{number}": "1" for number in range(100)}
    assert "there are 101" in error_of(environment=variables).reason
    assert len(job_of(environment=dict(list(variables.items())[:99])).environment) == 99


def test_the_grid_accepts_the_input_modes() -> None:
    with pytest.raises(ValueError, match="'File', 'FastFile' or 'Pipe'"):
        GridSettings.model_validate(
            {"name": "g", "home": "us-east-1", "regions": {"us-east-1": {}}, "images": {"resnet": {"uri": "x/y:1"}}}
            | {"job": a_job(input_mode="Tube")}
        )
