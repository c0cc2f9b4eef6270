"""Script folders: packed once, and replaced by the URI of their archive in the Region of each job."""

import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import boto3
import pytest

import traingrid as tg
from tests.support.sample_deployment import SAMPLE_BUCKETS
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.api.script_folder import ScriptFolder, stage_folders
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.grid.deployment import Deployment
from traingrid.ledger.ledger import Ledger


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "elsewhere"
    found.mkdir()
    (found / "train.py").write_text("print('trained')\n")
    (found / "notes.txt").write_text("x\n")
    return found


def job(source: object, region: str = "us-east-1") -> dict[str, object]:
    inputs = {"train": f"s3://{SAMPLE_BUCKETS[region]}/x"}
    return {"region": region, "inputs": inputs, "source": source, "entry_point": "train.py"}


def test_a_folder_is_packed_once_and_has_an_archive_in_each_region(folder: Path, deployment: Deployment) -> None:
    source = ScriptFolder(folder=folder, left_out=("*.txt",), added=(("more.py", "x = 1\n"),))
    rows, sources = stage_folders([job(source), job(source, "us-west-2"), job(source), 7], deployment)
    assert [found.region for found in sources] == ["us-east-1", "us-west-2"]
    first, second = (str(found.uri) for found in sources)
    assert [row["source"] for row in rows[:3] if isinstance(row, dict)] == [first, second, first]
    assert rows[3] == 7
    with tarfile.open(fileobj=io.BytesIO(sources[0].archive)) as members:
        assert members.getnames() == ["train.py", "more.py"]


def test_submit_uploads_a_folder_outside_of_the_current_folder(
    folder: Path, deployment: Deployment, ledger: Ledger, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = {"state": "submitted", "jobs": 1, "submission": "0123abcd", "batch_job": "b"}
    monkeypatch.setattr("traingrid.api.submit.wait_for_report", lambda *_: report)
    bucket = names.data_bucket(deployment.grid.name, deployment.account, "us-east-1")
    boto3.client("s3", "us-east-1").create_bucket(Bucket=bucket)
    plane = ControlPlane(deployment=deployment, ledger=ledger, batch=None, storage=storage)  # type: ignore[arg-type]  # Batch is not called
    tg.Grid(plane).submit([job(ScriptFolder(folder=folder))])
    uploaded = storage.read(S3Uri(deployment.manifest_bucket, "manifests/jobs.jsonl")).decode().splitlines()[1]
    with tarfile.open(fileobj=io.BytesIO(storage.read(S3Uri.parse(json.loads(uploaded)["source"])))) as members:
        assert members.getnames() == ["notes.txt", "train.py"]


def test_a_region_outside_of_the_grid_is_named(folder: Path, deployment: Deployment) -> None:
    with pytest.raises(
        tg.UsageError, match=r"ap-south-1 is not a training Region of this grid\. The grid has us-east-1"
    ):
        stage_folders([job(ScriptFolder(folder=folder)) | {"region": "ap-south-1"}], deployment)


def test_a_home_folder_is_never_packed(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("HOME", str(folder))
    with pytest.raises(tg.UsageError, match="is the root folder or your home folder"):
        ScriptFolder(folder=folder.resolve()).packed()


def test_an_added_program_never_replaces_a_file(folder: Path) -> None:
    with pytest.raises(tg.UsageError, match=r"has a file train\.py, and another one is packed with this name"):
        ScriptFolder(folder=folder, added=(("train.py", "x"),)).packed()


def test_a_folder_that_was_removed_is_named(folder: Path) -> None:
    with pytest.raises(tg.UsageError, match="is not a folder any more"):
        ScriptFolder(folder=folder / "gone").packed()


def test_an_object_that_is_no_trainer_is_refused_without_the_sdk() -> None:
    program = (
        "import sys, traingrid as tg\n"
        "try: tg.from_model_trainer(object(), ['us-east-1'])\n"
        "except tg.UsageError as error: print(error, 'sagemaker' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("The trainer is a object, not a ModelTrainer")
    assert ended.stdout.endswith(" False\n")
