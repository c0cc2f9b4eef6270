"""File systems: channels of a manifest line on EFS and FSx for Lustre, and the requests for them."""

import json
import re
from typing import Any, get_args

import pytest
from botocore.loaders import Loader

from tests.unit.manifest.test_channel_checks import request_of
from tests.unit.manifest.test_forms import errors_of, jobs_of
from traingrid.backends.sagemaker.request import fingerprint
from traingrid.grid.file_systems import FileSystemType
from traingrid.job.job import Job
from traingrid.manifest.mounted_channel import _ID
from traingrid.submission.files import normalised

EFS, LUSTRE, DUBLIN = "fs-0123456789abcdef0", "fs-0fedcba987654321", "fs-01234567"
VPC = {"subnets": ["subnet-0123456789abcdef0"], "security_groups": ["sg-0123456789abcdef0"]}
REGIONS: dict[str, Any] = {
    "us-east-1": {**VPC, "file_systems": {EFS: "EFS", LUSTRE: "FSxLustre"}, "data_buckets": ["ragab-ml"]},
    "us-west-2": {"data_buckets": ["ragab-ml-pdx"]},
    "eu-west-1": {**VPC, "file_systems": {DUBLIN: "EFS"}},
}
TRAIN = {"file_system": EFS, "type": "EFS", "path": "/imagenet/train"}


def line(train: dict[str, Any], **fields: Any) -> str:
    return json.dumps({"region": "us-east-1", "inputs": {"train": train}} | fields)


def job_of(train: dict[str, Any], **fields: Any) -> Job:
    (job,) = jobs_of(line(train, **fields), regions=REGIONS)
    return job


def refusal(train: dict[str, Any], **fields: Any) -> str:
    (error,) = errors_of(line(train, **fields), regions=REGIONS)
    return f"{error.field}: {error.reason}. {error.next_step}"


def sources_of(job: Job) -> dict[str, Any]:
    return {channel["ChannelName"]: channel for channel in request_of(job)["InputDataConfig"]}


def test_ids_and_types_have_the_forms_of_sagemakers_model() -> None:
    shapes = Loader().load_service_model("sagemaker", "service-2")["shapes"]
    assert shapes["FileSystemType"]["enum"] == list(get_args(FileSystemType))
    assert shapes["FileSystemId"]["pattern"] == "(fs-[0-9a-f]{8,})"
    for digits in range(20):
        text = "fs-" + "0" * digits
        allowed = shapes["FileSystemId"]["min"] <= len(text) <= shapes["FileSystemId"]["max"]
        assert bool(_ID.fullmatch(text)) is allowed, digits
        assert not allowed or re.fullmatch(shapes["FileSystemId"]["pattern"], text)


def test_a_folder_is_mounted_read_only_and_as_files() -> None:
    lustre = {"file_system": LUSTRE, "type": "FSxLustre", "path": "/fsx/validation/", "content_type": "a/b"}
    job = job_of(TRAIN, inputs={"train": TRAIN, "validation": lustre, "words": "s3://ragab-ml/words/"})
    assert sources_of(job) == {
        "train": {
            "ChannelName": "train",
            "InputMode": "File",
            "DataSource": {
                "FileSystemDataSource": {
                    "FileSystemId": EFS,
                    "FileSystemType": "EFS",
                    "DirectoryPath": "/imagenet/train",
                    "FileSystemAccessMode": "ro",
                }
            },
        },
        "validation": {
            "ChannelName": "validation",
            "InputMode": "File",
            "ContentType": "a/b",
            "DataSource": {
                "FileSystemDataSource": {
                    "FileSystemId": LUSTRE,
                    "FileSystemType": "FSxLustre",
                    "DirectoryPath": "/fsx/validation",
                    "FileSystemAccessMode": "ro",
                }
            },
        },
        "words": {
            "ChannelName": "words",
            "InputMode": "File",
            "DataSource": {
                "S3DataSource": {
                    "S3DataType": "S3Prefix",
                    "S3Uri": "s3://ragab-ml/words/",
                    "S3DataDistributionType": "FullyReplicated",
                }
            },
        },
    }


def test_the_type_is_that_of_the_grid_if_a_line_omits_it() -> None:
    lustre = {"file_system": LUSTRE, "path": "/fsx/train"}
    assert job_of(lustre).inputs["train"].type == "FSxLustre"
    assert job_of({"file_system": EFS, "path": "/"}).inputs["train"].path == "/"


@pytest.mark.parametrize("where", ["the line", "the grid"])
def test_pipe_mode_as_a_default_applies_to_the_channels_in_s3_only(where: str) -> None:
    inputs = {"train": TRAIN, "words": "s3://ragab-ml/words/"}
    default = {"image": "resnet", "instance_type": "ml.g5.48xlarge", "input_mode": "Pipe"}
    fields = {"input_mode": "Pipe"} if where == "the line" else {}
    changes: dict[str, Any] = {"job": default} if where == "the grid" else {}
    (job,) = jobs_of(line(TRAIN, inputs=inputs, **fields), regions=REGIONS, **changes)
    assert {name: channel.input_mode for name, channel in job.inputs.items()} == {"train": "File", "words": "Pipe"}


def test_a_line_is_named_for_its_folder_and_shows_where_it_is() -> None:
    job = job_of(TRAIN)
    assert (job.name, job.inputs["train"].location) == ("train", f"{EFS}:/imagenet/train")


def test_a_submitted_job_is_read_back_unchanged() -> None:
    job = job_of(TRAIN)
    assert Job.model_validate_json(normalised([job])[0]) == job


def test_a_training_job_with_another_file_system_or_folder_is_another_one() -> None:
    prints = {
        fingerprint(request_of(job_of(train)))
        for train in (TRAIN, {**TRAIN, "path": "/imagenet/other"}, {"file_system": LUSTRE, "path": "/imagenet/train"})
    }
    assert len(prints) == 3


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"file_system": "fs-1"}, "'fs-1' is not the id of a file system: fs- and 8 to 18 hexadecimal digits. Write"),
        ({"file_system": 7}, "'7' is not the id of a file system"),
        ({"type": "NFS"}, "'NFS' is not a type of file system that SageMaker mounts. Write EFS or FSxLustre"),
        ({"type": "FSxLustre"}, f"grid.yaml lists {EFS} with the type EFS, not FSxLustre. Write EFS"),
        ({"path": "imagenet"}, "the path 'imagenet' is not absolute. Write for example /imagenet/train"),
        ({"path": "/a/../b"}, "the path '/a/../b' must not contain //, . or .."),
        ({"path": "/a//b"}, "the path '/a//b' must not contain //, . or .."),
        ({"path": "/a\nb"}, "the path must be a single line"),
        ({"path": "/" + "a" * 4096}, "the path must have at most 4,096 characters, SageMaker's limit; got 4,097"),
        ({"input_mode": "Pipe"}, "a file system is mounted, so it has no input mode 'Pipe', which is for data in S3"),
        ({"input_mode": "FastFile"}, "a file system is mounted, so it has no input mode 'FastFile'"),
        ({"distribution": "ShardedByS3Key"}, "distribution is only valid for data in S3, not for a file system"),
        ({"shuffle_seed": 1}, "shuffle_seed is only valid for data in S3"),
        ({"manifest": True}, "manifest is only valid for data in S3"),
        ({"attributes": ["label"]}, "attributes is only valid for data in S3"),
        ({"record_wrapper": "RecordIO"}, "record_wrapper is only valid for data in S3"),
        ({"uri": "s3://ragab-ml/a/"}, "uri and file_system cannot be combined. Remove one of them"),
        ({"subnet": "subnet-01234567"}, "unknown key 'subnet'"),
        (
            {"file_system": "fs-0000000000000000a"},
            f"this grid does not allow this file system in us-east-1. It allows {EFS}",
        ),
        (
            {"file_system": DUBLIN},
            f"the file system {DUBLIN} is in eu-west-1, but the line's Region is us-east-1; SageMaker mounts only",
        ),
        ({"file_system": LUSTRE, "type": "FSxLustre", "path": "/"}, "the path of an FSx for Lustre file system begins"),
    ],
)
def test_a_channel_that_cannot_be_mounted_is_refused_with_one_sentence(change: dict[str, Any], reason: str) -> None:
    assert f"inputs.train: {reason}" in refusal({**TRAIN, **change})


def test_the_next_step_for_a_file_system_of_another_region_is_that_region() -> None:
    assert refusal({**TRAIN, "file_system": DUBLIN}).endswith("file systems of the same Region. Write eu-west-1.")


def test_a_region_without_a_vpc_mounts_no_file_system() -> None:
    reason = refusal({"file_system": "fs-00000001", "path": "/a"}, region="us-west-2")
    assert (
        "us-west-2 has no VPC, through which training jobs mount a file system. Set subnets, security_groups" in reason
    )


def test_a_channel_without_a_folder_is_refused() -> None:
    assert "file_system requires path, the folder to mount" in refusal({"file_system": EFS})


@pytest.mark.parametrize("key", ["type", "path"])
def test_the_keys_of_a_file_system_are_refused_for_a_uri(key: str) -> None:
    assert f"{key} is only valid with file_system" in refusal({"uri": "s3://ragab-ml/a/", key: TRAIN[key]})


def test_a_line_on_file_systems_only_has_no_pipe_mode() -> None:
    reason = refusal(TRAIN, input_mode="Pipe")
    assert "input_mode: the mode Pipe is for data in S3, and all channels of the line are on file systems" in reason


@pytest.mark.parametrize("place", ["s3://ragab-ml-pdx/a/", {"train": "s3://ragab-ml-pdx/a/"}, {"train": TRAIN}])
def test_a_line_on_a_file_system_has_no_replicas(place: object) -> None:
    reason = refusal(TRAIN, replicas={"us-west-2": place})
    assert "replicas.us-west-2: the channel train is on a file system, which is in one Region only" in reason
