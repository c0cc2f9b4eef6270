import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from traingrid.pod.host import Host

NAME = "job-0-1"


@pytest.fixture
def s3(aws: None) -> Any:
    client: Any = boto3.client("s3")
    client.create_bucket(Bucket="data")
    client.create_bucket(Bucket="out")
    return client


@pytest.fixture
def put(s3: Any) -> Callable[..., None]:
    def write(key: str, content: str = "", bucket: str = "data") -> None:
        s3.put_object(Bucket=bucket, Key=key, Body=content.encode())

    return write


@pytest.fixture
def content(s3: Any) -> Callable[[], dict[str, str]]:
    """Return the objects of the output bucket."""

    def read() -> dict[str, str]:
        listed = s3.list_objects_v2(Bucket="out").get("Contents", [])
        keys = [entry["Key"] for entry in listed if not entry["Key"].endswith(".tar.gz")]
        return {key: s3.get_object(Bucket="out", Key=key)["Body"].read().decode() for key in keys}

    return read


def channel(name: str = "train", uri: str = "s3://data/set/", mode: str = "File", **source: Any) -> dict[str, Any]:
    place = {"S3DataType": "S3Prefix", "S3Uri": uri, "S3DataDistributionType": "FullyReplicated", **source}
    return {"ChannelName": name, "InputMode": mode, "DataSource": {"S3DataSource": place}}


def request(*channels: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a request as traingrid/backends/sagemaker/request.py builds it, with changes."""
    return {
        "TrainingJobName": NAME,
        "HyperParameters": {"epochs": "1"},
        "InputDataConfig": list(channels),
        "OutputDataConfig": {"S3OutputPath": "s3://out/results/"},
        "ResourceConfig": {"InstanceType": "ml.c5.xlarge", "InstanceCount": 2, "VolumeSizeInGB": 1},
        "RoleArn": "arn:aws:iam::123456789012:role/training",
        **more,
    }


@pytest.fixture
def host(tmp_path: Path) -> Callable[..., Host]:
    def make(described: dict[str, Any] | None = None, number: int = 0, hosts: int = 2) -> Host:
        (tmp_path / "request.json").write_text(json.dumps(described or request()))
        return Host.from_environment(
            {
                "TRAINGRID_POD_FILES": str(tmp_path),
                "TRAINGRID_HOSTS": ",".join(f"{NAME}-{one}.{NAME}" for one in range(hosts)),
                "HOSTNAME": f"{NAME}-{number}",
                "SAGEMAKER_BASE_DIR": str(tmp_path / f"ml-{number}"),
                "AWS_REGION": "us-east-1",
            }
        )

    return make


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """Restore the process's umask, which `prepare` changes."""
    before = os.umask(0o022)
    yield
    os.umask(before)
