"""A training in a pod: `prepare`, the training image's own `train`, and `results`, as processes with a local S3."""

import io
import json
import signal
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.localcloud.compute import LIMIT_SECONDS, wait_until
from tests.integration.pod.conftest import NAME, ROOT, Pod
from verification.checkout.images import TRAINING

DIGITS = ROOT / "build/digits/campaign-1"
HYPERPARAMETERS = {
    "model": "resnet8",
    "image_size": "16",
    "classes": "10",
    "first_label": "0",
    "augmentation": "none",
    "epochs": "1",
    "warmup_epochs": "0",
    "batch_size": "32",
    "sagemaker_mpi_num_of_processes_per_host": "1",
}


@pytest.fixture(scope="module")
def bucket(client: Callable[[str], Any]) -> str:
    s3 = client("s3")
    s3.create_bucket(Bucket="pod-data")
    for file in DIGITS.rglob("*.tfrecord"):
        s3.upload_file(str(file), "pod-data", f"digits/{file.relative_to(DIGITS).as_posix()}")
    return "pod-data"


def channel(name: str, uri: str) -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": uri, "S3DataDistributionType": "FullyReplicated"}
    return {"ChannelName": name, "InputMode": "File", "DataSource": {"S3DataSource": source}}


def request(bucket: str, **more: Any) -> dict[str, Any]:
    return {
        "TrainingJobName": NAME,
        "HyperParameters": HYPERPARAMETERS,
        "InputDataConfig": [channel(name, f"s3://{bucket}/digits/{name}/") for name in ("train", "validation")],
        "OutputDataConfig": {"S3OutputPath": f"s3://{bucket}/out/"},
        "CheckpointConfig": {"S3Uri": f"s3://{bucket}/checkpoints/"},
        "ResourceConfig": {"InstanceType": "ml.c5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 10},
        **more,
    }


def keys(s3: Any, bucket: str, prefix: str) -> set[str]:
    return {entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", [])}


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_the_training_image_trains_and_its_results_are_in_s3(
    pod: Callable[..., Pod], client: Callable[[str], Any], bucket: str
) -> None:
    s3, one = client("s3"), pod(request(bucket))
    assert (one.prepare(), one.message("prepare")) == (0, "")
    assert "Channel train: 4 objects" in one.log("prepare")
    assert files(one.base / "input/data/train") == files(DIGITS / "train")
    results = one.results()
    trained = one.run(*TRAINING.command, **TRAINING.environment, TRAINING_JOB_NAME=NAME)
    assert trained.returncode == 0, trained.stdout + trained.stderr
    results.send_signal(signal.SIGTERM)
    results.send_signal(signal.SIGTERM)
    assert results.wait(timeout=120) == 0, one.log("results")
    artifact = f"s3://{bucket}/out/{NAME}/output/model.tar.gz"
    assert json.loads(one.message("results")) == {"artifact": artifact, "failure": "", "error": ""}
    body = s3.get_object(Bucket=bucket, Key=f"out/{NAME}/output/model.tar.gz")["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(body), mode="r:gz") as archive:
        assert {member.name for member in archive if member.isfile()} == files(one.base / "model")
    saved = files(one.base / "checkpoints")
    assert saved
    assert keys(s3, bucket, "checkpoints/") == {f"checkpoints/{path}" for path in saved}


def test_a_failed_training_has_its_reason_in_the_termination_message(pod: Callable[..., Pod], bucket: str) -> None:
    wrong = request(bucket, HyperParameters={**HYPERPARAMETERS, "epochs": "none"}, CheckpointConfig=None)
    one = pod(wrong)
    assert one.prepare() == 0
    results = one.results()
    assert one.run(*TRAINING.command, **TRAINING.environment).returncode != 0
    results.send_signal(signal.SIGTERM)
    assert results.wait(timeout=120) == 0
    message = json.loads(one.message("results"))
    assert "epochs" in message["failure"]
    assert (message["artifact"], message["error"]) == ("", "")


def test_a_role_that_may_not_read_is_named(pod: Callable[..., Pod], bucket: str) -> None:
    only_list = {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "*"}
    one = pod(request(bucket), only_list)
    assert one.prepare() == 1
    message = one.message("prepare")
    assert message.startswith(f"ClientError: Data download failed:Unable to download s3://{bucket}/digits/train/: ")
    assert "role/training" in message
    assert "s3:GetObject" in message


def test_results_end_at_once_if_the_training_never_started(pod: Callable[..., Pod], bucket: str) -> None:
    results = (one := pod(request(bucket))).results()
    results.send_signal(signal.SIGTERM)
    assert results.wait(LIMIT_SECONDS) == 0
    assert json.loads(one.message("results"))["artifact"] == ""


def test_a_killed_sidecar_continues(pod: Callable[..., Pod], client: Callable[[str], Any], bucket: str) -> None:
    s3 = client("s3")
    one = pod(request(bucket, CheckpointConfig={"S3Uri": f"s3://{bucket}/killed/"}))
    (one.base / "checkpoints").mkdir(parents=True)
    (one.base / "checkpoints/one").write_text("1")
    first = one.results()
    first.kill()
    first.wait()
    (one.base / "model").mkdir()
    (one.base / "model/weights").write_text("w")
    second = one.results()
    second.send_signal(signal.SIGTERM)
    assert second.wait(timeout=120) == 0
    wait_until(lambda: keys(s3, bucket, "killed/") == {"killed/one"})
    assert f"out/{NAME}/output/model.tar.gz" in keys(s3, bucket, "out/")
