"""Planning: `traingrid submit --plan` shows the job of every line, and writes nothing."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.support.refused_calls import refuse
from tests.support.sample_deployment import SAMPLE, SAMPLE_BUCKETS
from traingrid.api.submit import submit_manifest
from traingrid.cli import main
from traingrid.cli import submit as command
from traingrid.errors import TraingridError
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings
from traingrid.ledger.ledger import Ledger
from traingrid.manifest.parse import parse
from traingrid.manifest.plan import planned
from traingrid.manifest.resource_checks import ResourceCheck


def run(monkeypatch: pytest.MonkeyPatch, manifest: Path) -> int:
    monkeypatch.setattr(sys, "argv", ["traingrid", "submit", "--plan", str(manifest)])
    try:
        main.main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


@pytest.fixture
def data(aws: None) -> None:
    """The sample's data and image in the first Region, and only the image in the second."""
    for region, bucket in list(SAMPLE_BUCKETS.items())[:2]:
        where: Any = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        s3: Any = boto3.client("s3", region_name=region)
        s3.create_bucket(Bucket=bucket, **where)
        ecr: Any = boto3.client("ecr", region_name=region)
        ecr.create_repository(repositoryName="traingrid/training")
        document = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json"})
        ecr.put_image(repositoryName="traingrid/training", imageManifest=document, imageTag="1")
    for channel in ("train", "validation"):
        boto3.client("s3").put_object(
            Bucket=SAMPLE_BUCKETS["us-east-1"], Key=f"imagenet2012/tf-imagenet/resized/{channel}/a", Body=b"a"
        )


@pytest.mark.usefixtures("data")
def test_a_plan_shows_each_lines_job_and_its_problems(deployment: Deployment) -> None:
    first, second, third, _ = planned(parse(SAMPLE.encode(), deployment), deployment)
    assert first.outcome == "would train"
    assert first.channels == ("channels train from train/ and validation from validation/.",)
    assert second.outcome == (
        "would fail: no data found under s3://ragab-ml-pdx/imagenet2012/tf-imagenet/resized/. Upload the data, or "
        "correct s3_uri. Names that begin with _ or . are no data"
    )
    assert second.channels == ()
    assert third.resources.trouble.startswith(
        "the image 123456789012.dkr.ecr.eu-west-1.amazonaws.com/traingrid/training"
    )


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize(("ranks", "outcome"), [(1, "would train"), (2, "fewer objects than the 2 ranks")])
def test_a_plan_counts_the_objects_for_one_stream_per_rank(deployment: Deployment, ranks: int, outcome: str) -> None:
    line = {"region": "us-east-1", "s3_uri": "s3://ragab-ml/imagenet2012/tf-imagenet/resized"}
    line |= {"input_mode": "Pipe", "streams": "rank", "processes_per_host": str(ranks)}
    (only,) = planned(parse(json.dumps(line).encode(), deployment), deployment)
    assert outcome in only.outcome


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        ({"input_mode": "Pipe"}, "would fail: SageMaker would stream the index of records"),
        ({"input_mode": "Pipe", "streams": "rank"}, "would train"),
        ({"input_mode": "FastFile"}, "would train"),
    ],
)
def test_a_plan_reports_an_index_of_records_that_would_be_streamed(
    deployment: Deployment, more: dict[str, str], outcome: str
) -> None:
    folder = "imagenet2012/tf-imagenet/resized"
    index = f"{folder}/train/_records.json"
    boto3.client("s3").put_object(Bucket=SAMPLE_BUCKETS["us-east-1"], Key=index, Body=b"{}")
    line = {"region": "us-east-1", "s3_uri": f"s3://ragab-ml/{folder}", "processes_per_host": "1"} | more
    (only,) = planned(parse(json.dumps(line).encode(), deployment), deployment)
    assert only.outcome.startswith(outcome)


@pytest.mark.usefixtures("data")
def test_a_folder_with_nothing_but_an_index_of_records_has_no_data(deployment: Deployment) -> None:
    boto3.client("s3").put_object(Bucket=SAMPLE_BUCKETS["us-east-1"], Key="old/train/_records.json", Body=b"{}")
    line = {"region": "us-east-1", "inputs": {"train": "s3://ragab-ml/old/train/"}, "processes_per_host": 1}
    (only,) = planned(parse(json.dumps(line).encode(), deployment), deployment)
    assert only.outcome == "would fail: no data found under s3://ragab-ml/old/train/"


def test_a_plan_names_the_next_regions(deployment: Deployment) -> None:
    line = '{"region": "us-east-1", "s3_uri": "s3://ragab-ml/x", "replicas": {"us-west-2": "s3://ragab-ml-pdx/x"}}\n'
    (only,) = planned(parse(line.encode(), deployment), deployment, look=lambda _job: ResourceCheck())
    assert only.outcome == "would train; without capacity there: us-west-2"


def test_a_plan_names_the_next_backends(deployment: Deployment) -> None:
    settings = deployment.grid.model_dump(exclude_defaults=True)
    settings["regions"]["us-east-1"]["eks"] = {"cluster": "research"}
    mixed = replace(deployment, grid=GridSettings.model_validate(settings))
    line = '{"region": "us-east-1", "s3_uri": "s3://ragab-ml/x", "backend": ["eks", "sagemaker"]}\n'
    (only,) = planned(parse(line.encode(), mixed), mixed, look=lambda _job: ResourceCheck())
    assert only.outcome == "would train on EKS; without capacity there: us-east-1"


@pytest.mark.usefixtures("data")
def test_a_plan_shows_the_channels_of_each_layout(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    s3: Any = boto3.client("s3")
    names = ("flat/train-00000-of-00002", "flat/validation-00000-of-00001", "plain/a", "mixed/train/a")
    for name in (*names, "mixed/validation-00000-of-00001"):
        s3.put_object(Bucket=SAMPLE_BUCKETS["us-east-1"], Key=name, Body=b"a")
    monkeypatch.setattr(command, "find_deployment", lambda _grid: deployment)
    manifest = tmp_path / "x.csv"
    manifest.write_text("".join(f"us-east-1,s3://ragab-ml/{name}\n" for name in ("flat", "plain", "flat/", "mixed")))
    (*trained, refused) = planned(parse(manifest.read_bytes(), deployment), deployment)
    assert [{name: channel.uri for name, channel in line.job.inputs.items()} for line in trained] == [
        {"train": "s3://ragab-ml/flat/train-", "validation": "s3://ragab-ml/flat/validation-"},
        {"train": "s3://ragab-ml/plain/"},
        {"train": "s3://ragab-ml/flat/train-", "validation": "s3://ragab-ml/flat/validation-"},
    ]
    assert [line.outcome for line in trained] == ["would train"] * 3
    assert refused.outcome.startswith(
        "would fail: s3://ragab-ml/mixed/ has the folder train/ and files validation-*, so its channels are not "
    )
    assert run(monkeypatch, manifest) == 1
    output = capsys.readouterr().out
    assert "Data: lines 1, 3: channels train from train-* and validation from validation-*.\n" in output
    assert "Data: line 2: channel train from all files of the folder; no validation, because the folder" in output


@pytest.mark.usefixtures("data")
def test_a_plan_looks_at_the_source_of_a_copy(deployment: Deployment) -> None:
    boto3.client("s3").put_object(Bucket=SAMPLE_BUCKETS["us-east-1"], Key="flat/train-0", Body=b"a")
    boto3.client("s3").put_object(Bucket=SAMPLE_BUCKETS["us-east-1"], Key="flat/validation-0", Body=b"a")
    moving = replace(deployment, grid=deployment.grid.model_copy(update={"moves": True}))
    line = {"region": "us-west-2", "s3_uri": "s3://traingrid-data-123456789012-us-west-2/copied"}
    (only,) = planned(parse(json.dumps(line | {"copy_from": "s3://ragab-ml/flat"}).encode(), moving), moving)
    assert only.channels == ("channels train from train-* and validation from validation-*.",)
    assert only.outcome == "would train", "the folder that it is copied to is still empty"


@pytest.mark.usefixtures("data")
def test_a_submission_checks_the_data_before_anything_is_uploaded(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploaded: list[str] = []
    monkeypatch.setattr("traingrid.api.submit.submit_content", lambda *_arguments: uploaded.append("submitted"))
    boto3.client("s3").put_object(Bucket=SAMPLE_BUCKETS["us-east-1"], Key="odd/validation/a", Body=b"a")
    manifest = tmp_path / "x.csv"
    resized = "us-east-1,s3://ragab-ml/imagenet2012/tf-imagenet/resized\n"
    manifest.write_text(f"{resized}us-east-1,s3://ragab-ml/odd\nus-east-1,s3://ragab-ml/none\n")
    with pytest.raises(TraingridError) as refused:
        submit_manifest(manifest, deployment)
    _, second, third = str(refused.value).splitlines()
    assert second.endswith(
        "x.csv:2: s3_uri 's3://ragab-ml/odd': s3://ragab-ml/odd/ has data for validation, but none for train: neither "
        "a folder train/ nor files train-*. Rename or upload the data for train, or write inputs in place of s3_uri, "
        "with the URI of each channel."
    )
    assert "x.csv:3: s3_uri 's3://ragab-ml/none': no data found under s3://ragab-ml/none/. Upload" in third
    assert uploaded == []
    manifest.write_text(f"{resized}us-west-2,s3://no-such-bucket/x\n")
    with pytest.raises(TraingridError, match=r"x\.csv:2: s3_uri 's3://no-such-bucket/x'"):
        submit_manifest(manifest, deployment)
    assert uploaded == []
    manifest.write_text(resized)
    submit_manifest(manifest, deployment)
    assert uploaded == ["submitted"]


ELSEWHERE = '{"region": "us-east-1", "s3_uri": "s3://ragab-ml/imagenet2012/tf-imagenet/resized", %s}\n'


@pytest.mark.usefixtures("data")
def test_a_plan_checks_replicas(deployment: Deployment) -> None:
    line = ELSEWHERE % '"replicas": {"us-west-2": "s3://ragab-ml-pdx/x"}'
    (only,) = planned(parse(line.encode(), deployment), deployment)
    assert only.outcome.startswith(
        "would fail: in us-west-2, the next Region: no data found under s3://ragab-ml-pdx/x/. Upload the data"
    )


@pytest.mark.usefixtures("data")
def test_resources_without_permission_are_reported_as_unchecked(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refuse(monkeypatch, "ListObjectsV2")
    first, _, third, _ = planned(parse(SAMPLE.encode(), deployment), deployment)
    folder = "s3://ragab-ml/imagenet2012/tf-imagenet/resized"
    assert first.outcome == f"not checked: {folder}/train/ (AccessDenied), {folder}/validation/ (AccessDenied)"
    assert third.outcome.startswith("would fail: the image "), "a known problem has priority over an unchecked resource"
    monkeypatch.setattr(command, "find_deployment", lambda _grid: deployment)
    (tmp_path / "x.csv").write_text(SAMPLE.splitlines()[0] + "\n")
    assert run(monkeypatch, tmp_path / "x.csv") == 0
    assert "1 job, 8 ranks; 0 would fail now, 1 could not be checked" in capsys.readouterr().out


@pytest.mark.usefixtures("data")
def test_the_command_prints_a_row_for_each_line_and_writes_nothing(
    deployment: Deployment,
    ledger: Ledger,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "find_deployment", lambda _grid: deployment)
    (tmp_path / "x.csv").write_text(SAMPLE)
    assert run(monkeypatch, tmp_path / "x.csv") == 1
    output, failed = capsys.readouterr()
    assert failed.startswith("Error: 3 of 4 jobs would fail now.\nNothing was written.")
    row = next(line for line in output.splitlines() if line.split()[0] == "1")
    for cell in ("us-east-1", "resized", "1 x ml.p3.16xlarge", " 8 ", "s3://ragab-ml/imagenet2012/tf-imagenet/resized"):
        assert cell in row
    assert "4 jobs, 32 ranks; 3 would fail now" in output
    objects = boto3.client("s3").list_objects_v2(Bucket=deployment.manifest_bucket)
    assert objects["KeyCount"] == 0
    assert list(ledger.everything()) == []


def test_an_invalid_manifest_is_reported_without_a_plan(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "find_deployment", lambda _grid: deployment)
    (tmp_path / "x.csv").write_text("mars,s3://ragab-ml/x\nus-east-1,s3://nobody/x\n")
    assert run(monkeypatch, tmp_path / "x.csv") == 2
    output = capsys.readouterr().err
    assert "x.csv:1: region" in output
    assert "x.csv:2: s3_uri" in output
