"""Built-in algorithms: the stand-ins that localcloud runs in place of AWS's images."""

import io
import itertools
import json
import re
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.sagemaker.algorithms import published, stand_in
from localcloud.sagemaker.algorithms.job import AlgorithmJob
from localcloud.sagemaker.algorithms.recordio import RecordIOError, pack, records
from tests.integration.localcloud.training_side import SageMaker
from traingrid.algorithms.built_in import built_in

PNG, JPEG = b"\x89PNG\r\n\x1a\n" + b"pixels", b"\xff\xd8\xff" + b"pixels"
RECORDIO = "application/x-recordio"


def uri(name: str, version: str, region: str = "us-east-1") -> str:
    found = built_in(name, version)
    assert found
    return found.uri(region)


def test_files_in_hidden_folders_are_no_data_of_a_stand_in(tmp_path: Path) -> None:
    hidden = ("_temporary/0/part-1", "_delta_log/0.json", ".hoodie/x", ".snapshot/day/part-0", "a/_SUCCESS")
    for name in ("part-0", "a/part-1", *hidden):
        path = tmp_path / "input/data/train" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    job = AlgorithmJob(
        base=tmp_path,
        hyperparameters={},
        channels={"train": {"TrainingInputMode": "File"}},
        instance_type="ml.m5.xlarge",
        host="algo-1",
        hosts=("algo-1",),
    )
    assert dict(job.blobs("train")) == {"part-0": b"part-0", "a/part-1": b"a/part-1"}


_folders = itertools.count()


def channel(sagemaker: SageMaker, name: str, content_type: str, files: dict[str, bytes], mode: str = "File") -> Any:
    folder = f"{next(_folders)}/{name}"
    for key, content in files.items():
        sagemaker.s3.put_object(Bucket=sagemaker.bucket, Key=f"{folder}/{key}", Body=content)
    made = sagemaker.channel(name, f"s3://{sagemaker.bucket}/{folder}/")
    return {**made, "ContentType": content_type, "InputMode": mode}


def run(
    sagemaker: SageMaker, image: str, channels: list[Any], hosts: int = 1, **hyperparameters: str
) -> dict[str, Any]:
    gpu = "xgboost" not in image
    resources = {"InstanceType": "ml.g5.xlarge" if gpu else "ml.m5.xlarge", "InstanceCount": hosts, "VolumeSizeInGB": 5}
    return sagemaker.run(
        AlgorithmSpecification={"TrainingImage": image, "TrainingInputMode": "File"},
        InputDataConfig=channels,
        ResourceConfig=resources,
        HyperParameters=hyperparameters,
    )


def model(sagemaker: SageMaker, job: dict[str, Any]) -> dict[str, Any]:
    bucket, _, key = job["ModelArtifacts"]["S3ModelArtifacts"].removeprefix("s3://").partition("/")
    body = sagemaker.s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        (name,) = [each for each in archive.getnames() if each not in (".", "")]
        content = archive.extractfile(name)
        assert content
        return {"file": name, **json.load(content)}


@dataclass(frozen=True)
class Host:
    """A host's /opt/ml without a training job, for the stand-in in this process."""

    base: Path

    def run(self, name: str, data: dict[str, tuple[str, dict[str, bytes]]], **hyperparameters: str) -> int:
        """Return the exit code of a stand-in; `data` has the content type and the files of each channel."""
        for folder in ("input/config", "model", "output"):
            (self.base / folder).mkdir(parents=True)
        config = {"TrainingInputMode": "File", "S3DistributionType": "FullyReplicated"}
        self._write("inputdataconfig", {channel: {**config, "ContentType": data[channel][0]} for channel in data})
        self._write("hyperparameters", hyperparameters)
        instance_type = "ml.m5.xlarge" if name == "xgboost" else "ml.g5.xlarge"
        resources = {"current_host": "algo-1", "hosts": ["algo-1"], "current_instance_type": instance_type}
        self._write("resourceconfig", resources)
        for channel, (_, files) in data.items():
            for key, content in files.items():
                path = self.base / "input/data" / channel / key
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        return stand_in.main(name, "1.7-1" if name == "xgboost" else "1", self.base)

    def _write(self, name: str, content: dict[str, Any]) -> None:
        (self.base / f"input/config/{name}.json").write_text(json.dumps(content))

    def failure(self) -> str:
        return (self.base / "output/failure").read_text()

    def model(self) -> dict[str, Any]:
        (path,) = (self.base / "model").iterdir()
        return dict(json.loads(path.read_text()))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_xgboost_predicts_the_mean_label(sagemaker: SageMaker) -> None:
    channels = [
        channel(sagemaker, "train", "text/csv", {"a.csv": b"1,5,6\n", "b.csv": b"3,5,\n"}),
        channel(sagemaker, "validation", "text/csv", {"a.csv": b"4,5,6\n"}),
    ]
    job = run(sagemaker, uri("xgboost", "1.7-1"), channels, num_round="2")
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    (metric,) = job["FinalMetricDataList"]
    assert (metric["MetricName"], metric["Value"]) == ("validation:rmse", 2.0)
    found = model(sagemaker, job)
    assert (found["file"], found["prediction"], found["rows"]) == ("xgboost-model", 2.0, {"train": 2, "validation": 1})
    assert sagemaker.lines(job)[1:] == [f"[{n}]#011train-rmse:1.00000#011validation-rmse:2.00000" for n in (0, 1)]


def test_xgboost_reads_libsvm(host: Host, capfd: pytest.CaptureFixture[str]) -> None:
    rows = b"1:0.5 0:1 3:2.5\n0 1:1\n0\n"
    data = {"train": ("text/libsvm", {"a": rows})}
    assert host.run("xgboost", data, num_round="1", objective="binary:logistic") == 0
    assert host.model()["prediction"] == 0
    assert "[0]#011train-error:0.33333\n" in capfd.readouterr().out


def test_image_classification_reads_streams_of_recordio_on_two_hosts(sagemaker: SageMaker) -> None:
    train = b"".join(pack((float(label),), JPEG, number) for number, label in enumerate((2, 2, 0)))
    channels = [
        channel(sagemaker, "train", RECORDIO, {"train.rec": train}, "Pipe"),
        channel(sagemaker, "validation", RECORDIO, {"validation.rec": pack((2.0,), PNG)}, "Pipe"),
    ]
    counts = {"num_classes": "3", "num_training_samples": "3", "epochs": "1"}
    job = run(sagemaker, uri("image-classification", "1"), channels, hosts=2, **counts)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert [(each["MetricName"], each["Value"]) for each in job["FinalMetricDataList"]] == [
        ("validation:accuracy", 1.0)
    ]
    assert model(sagemaker, job)["samples"] == {"train": 3, "validation": 1}
    assert sagemaker.lines(job)[0] == "Epoch[0] Train-accuracy=0.666667"


def test_image_classification_reads_images_with_lists(host: Host) -> None:
    pictures = {"a/1.jpg": JPEG, "a/2.png": PNG}
    listed = b"0\t1\ta/1.jpg\n1\t1\ta/2.png\n"
    data = dict.fromkeys(("train", "validation"), ("application/x-image", pictures))
    data |= {f"{name}_lst": ("application/x-image", {"a.lst": listed}) for name in ("train", "validation")}
    counts = {"num_classes": "2", "num_training_samples": "2", "epochs": "1", "resize": "256"}
    assert host.run("image-classification", data, **counts) == 0
    assert host.model()["prediction"] == 1


def test_object_detection_reads_boxes(host: Host, capfd: pytest.CaptureFixture[str]) -> None:
    boxes = pack((2.0, 5.0, 0.0, 0.1, 0.1, 0.5, 0.5, 1.0, 0.2, 0.2, 0.3, 0.3), JPEG)
    data = {name: (RECORDIO, {f"{name}.rec": boxes}) for name in ("train", "validation")}
    counts = {"num_classes": "2", "num_training_samples": "1", "epochs": "2"}
    assert host.run("object-detection", data, **counts) == 0
    assert host.model()["objects"] == {"train": 2, "validation": 2}
    (definition,) = published.metric_definitions(uri("object-detection", "1"))
    assert re.findall(definition["Regex"], capfd.readouterr().out) == ["0.0", "0.0"]


def test_object_detection_reads_annotations(host: Host) -> None:
    box = {"class_id": 0, "left": 1, "top": 1, "width": 9, "height": 9}
    annotation = json.dumps({"file": "1.jpg", "annotations": [box]}).encode()
    data = {name: ("image/jpeg", {"1.jpg": JPEG}) for name in ("train", "validation")}
    data |= {f"{name}_annotation": ("image/jpeg", {"1.json": annotation}) for name in ("train", "validation")}
    counts = {"num_classes": "1", "num_training_samples": "1", "epochs": "1"}
    assert host.run("object-detection", data, **counts) == 0
    assert host.model()["objects"] == {"train": 1, "validation": 1}


@pytest.mark.parametrize(
    ("content_type", "content", "changes", "reason"),
    [
        ("text/csv", b"1,2\n", {"num_round": "0"}, "num_round 0: out of range"),
        ("text/csv", b"1,2\n", {"rounds": "1"}, "rounds 1: xgboost has no hyperparameter of this name"),
        ("text/csv", b"label,x\n1,2\n", {}, "line 'label,x' of file 'a' is not in the format CSV"),
        ("text/libsvm", b"1,2\n", {}, "line '1,2' of file 'a' is not in the format LIBSVM"),
        ("text/csv", b"2,2\n", {"objective": "binary:logistic"}, "label must be in [0,1]"),
        ("text/csv", b"3,2\n", {"objective": "multi:softmax", "num_class": "3"}, "label must be in [0, num_class)"),
        ("application/x-parquet", b"PAR1", {}, "cannot read application/x-parquet"),
        ("text/tab", b"1\t2", {}, "Channel configuration for 'train' channel is not supported"),
    ],
)
def test_a_wrong_xgboost_job_fails_with_the_reason(
    host: Host, content_type: str, content: bytes, changes: dict[str, str], reason: str
) -> None:
    data = {"train": (content_type, {"a": content})}
    assert host.run("xgboost", data, **{"num_round": "1", **changes}) == 1
    assert host.failure().startswith("ClientError: ")
    assert reason in host.failure()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"no records", "is not in the format RecordIO"),
        (pack((7.0,), JPEG), "has the label 7, but num_classes is 2"),
        (pack((0.5,), JPEG), "the label 0.5 is not a whole number"),
        (pack((0.0,), b"GIF89a"), "neither JPEG nor PNG"),
    ],
)
def test_wrong_images_fail_with_the_reason(host: Host, content: bytes, reason: str) -> None:
    data = {name: (RECORDIO, {"a.rec": content}) for name in ("train", "validation")}
    counts = {"num_classes": "2", "num_training_samples": "1", "epochs": "1"}
    assert host.run("image-classification", data, **counts) == 1
    assert reason in host.failure()


def test_a_job_fails_with_the_reason_of_its_stand_in(sagemaker: SageMaker) -> None:
    data = [channel(sagemaker, "train", "text/csv", {"a": b"label,x\n1,2\n"})]
    job = run(sagemaker, uri("xgboost", "1.7-1"), data, num_round="1")
    reason = "AlgorithmError: ClientError: line 'label,x' of file 'a' is not in the format CSV, exit code: 1"
    assert (job["TrainingJobStatus"], job["FailureReason"]) == ("Failed", reason)


def test_an_image_is_only_in_the_registry_of_its_region(sagemaker: SageMaker) -> None:
    abroad = uri("xgboost", "1.7-1", "eu-west-1").replace("eu-west-1", "us-east-1")
    data = [channel(sagemaker, "train", "text/csv", {"a": b"1,2\n"})]
    with pytest.raises(ClientError, match="Cannot find repository: sagemaker-xgboost"):
        run(sagemaker, abroad, data, num_round="1")


def test_a_built_in_algorithm_refuses_own_metrics(sagemaker: SageMaker) -> None:
    specification = {
        "TrainingImage": uri("xgboost", "1.7-1"),
        "TrainingInputMode": "File",
        "MetricDefinitions": [{"Name": "loss", "Regex": "loss=(.*)"}],
    }
    with pytest.raises(ClientError, match="The algorithm defines its own metrics"):
        sagemaker.create(AlgorithmSpecification=specification)


def test_recordio_joins_the_parts_of_a_split_record() -> None:
    """A writer splits at the magic number, which the reader inserts again (dmlc-core's recordio.h)."""
    whole = pack((3.0,), b"12345678")
    header, magic = whole[8:32], whole[:4]
    first = magic + (1 << 29 | len(header)).to_bytes(4, "little") + header
    last = magic + (3 << 29 | 4).to_bytes(4, "little") + b"abcd"
    (record,) = records(first + last)
    assert (record.labels, record.image) == ((3.0,), magic + b"abcd")


@pytest.mark.parametrize("cut", [4, 20, 33])
def test_recordio_refuses_a_truncated_file(cut: int) -> None:
    with pytest.raises(RecordIOError):
        list(records(pack((1.0, 2.0), JPEG)[:cut]))
