"""Warnings about lines whose image does not use their hardware, before any cost."""

import json
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.sample_deployment import sample_deployment
from traingrid.api.submit import Progress, submit_manifest
from traingrid.cli import main
from traingrid.cli import submit as command
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings
from traingrid.manifest.hardware_warnings import jobs_warnings, manifest_warnings
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse

GPU = {"build": "training", "target": "gpu"}
TORCH = {"build": "training", "target": "torch"}
OFF = {"efa": "none"}
SCRIPT: dict[str, Any] = {"source": "s3://ragab-ml/sourcedir.tar.gz", "entry_point": "train.py", "launcher": "torchrun"}
KERAS = {**SCRIPT, "launcher": "mpi"}
KEEP = "and so does every start without the hyperparameter sagemaker_keep_kernels: true."
TCP = (
    "ml.p4d.24xlarge has EFA, but the image mine is built without it (efa: none in grid.yaml), so its 2 hosts would "
    "communicate over TCP."
)
PTX = "TensorFlow 2.15 of the image mine has no kernels for the GPUs of ml.p5.48xlarge: the first start compiles them"


def grid_with(image: dict[str, Any], *types: str) -> Deployment:
    """Return a grid whose lines may use the image `mine`."""
    deployment = sample_deployment()
    grid = deployment.grid.model_dump(mode="json", exclude_defaults=True)
    grid["images"] |= {"mine": image}
    grid["instance_types"] = [*types, "ml.p4d.24xlarge", "ml.p5.48xlarge", "ml.g5.xlarge"]
    built = {image["target"]: f"built-1@sha256:{'a' * 64}"} if "build" in image else {}
    return replace(deployment, grid=GridSettings.model_validate(grid), images=built)


def line(instance_type: str, hosts: int = 2, **more: Any) -> str:
    fields = {"region": "us-east-1", "s3_uri": "s3://ragab-ml/x", "image": "mine", "instance_type": instance_type}
    return json.dumps(fields | {"instance_count": hosts} | more) + "\n"


def warnings(image: dict[str, Any], *lines: str) -> list[str]:
    deployment = grid_with(image)
    return list(manifest_warnings(parse("".join(lines).encode(), deployment), deployment.grid))


def test_several_hosts_with_efa_and_an_image_without_it() -> None:
    assert warnings(GPU | OFF, line("ml.p4d.24xlarge")) == [f"Warning: line 1: {TCP}"]
    assert warnings(TORCH | OFF, line("ml.p4d.24xlarge", **SCRIPT)) == [f"Warning: line 1: {TCP}"]


@pytest.mark.parametrize(
    ("image", "only"),
    [
        (GPU, line("ml.p4d.24xlarge")),  # has EFA by default
        (GPU | OFF, line("ml.p4d.24xlarge", hosts=1)),
        (GPU | OFF, line("ml.g5.xlarge")),  # has no EFA
        ({"repository": "own", "tag": "1"}, line("ml.p4d.24xlarge")),  # unknown
        ({"uri": "123456789012.dkr.ecr.{region}.amazonaws.com/own:1"}, line("ml.p5.48xlarge")),  # unknown
        (TORCH, line("ml.p5.48xlarge", **SCRIPT)),  # has kernels for it
        (GPU, line("ml.p4d.24xlarge", hosts=1)),
    ],
)
def test_other_lines_have_no_warning(image: dict[str, Any], only: str) -> None:
    assert warnings(image, only) == []


@pytest.mark.parametrize(
    ("more", "end"),
    [
        ({}, "and so does every start without checkpoints."),
        ({"checkpoints": True}, "and later starts use the kernels beside its checkpoints."),
        ({"spot": True}, "and later starts use the kernels beside its checkpoints."),
        ({"spot": True, "checkpoints": False}, "and so does every start without checkpoints."),
        (KERAS | {"checkpoints": True}, KEEP),
        (KERAS | {"spot": True, "hyperparameters": {"sagemaker_keep_kernels": False}}, KEEP),
        (KERAS | {"spot": True, "hyperparameters": {"sagemaker_keep_kernels": True}}, "beside its checkpoints."),
        ({"spot": True, "hyperparameters": {"sagemaker_keep_kernels": False}}, KEEP),
    ],
)
def test_gpus_that_are_newer_than_tensorflows_kernels(more: dict[str, Any], end: str) -> None:
    (sentence,) = warnings(GPU, line("ml.p5.48xlarge", hosts=1, **more))
    assert sentence.startswith(f"Warning: line 1: {PTX}")
    assert sentence.endswith(end)


def test_submitted_jobs_have_the_warnings_of_their_lines() -> None:
    deployment = grid_with(GPU | OFF)
    texts = [
        line("ml.p4d.24xlarge"),
        line("ml.g5.xlarge"),
        line("ml.p5.48xlarge", **KERAS, spot=True),
        line("ml.p5.48xlarge", hosts=1, spot=True, hyperparameters={"epochs": 2}),
    ]
    lines = parse("".join(texts).encode(), deployment)
    jobs = jobs_of_lines(lines, deployment, "0123abcd")
    assert list(jobs_warnings(jobs, deployment)) == list(manifest_warnings(lines, deployment.grid))
    earlier = [job.model_copy(update={"image": job.image.replace("a" * 64, "b" * 64)}) for job in jobs]
    assert list(jobs_warnings(earlier, deployment)) == []


def test_lines_with_the_same_warning_share_a_sentence() -> None:
    first, *rest = warnings(GPU | OFF, *[line("ml.p4d.24xlarge")] * 7, line("ml.p5.48xlarge", hosts=1))
    assert first == f"Warning: lines 1, 2, 3, 4, 5 and 2 more: {TCP}"
    assert len(rest) == 1
    assert rest[0].startswith(f"Warning: line 8: {PTX}")


def test_a_residency_without_isolation_is_a_warning_of_each_line() -> None:
    resident = {"residency": ["us"]}
    sample = sample_deployment()
    described = sample.grid.model_dump(mode="json", exclude_defaults=True)
    described["regions"]["us-east-1"] = {**(described["regions"]["us-east-1"] or {}), **resident}
    only = json.dumps({"region": "us-east-1", "s3_uri": "s3://ragab-ml/x"}) + "\n"
    for training, expected in (({}, 1), ({"network_isolation": True}, 0)):
        grid = GridSettings.model_validate({**described, "training": training})
        deployment = replace(sample, grid=grid)
        found = list(manifest_warnings(parse(only.encode(), deployment), grid))
        assert len([text for text in found if "can connect to the internet" in text]) == expected


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "two.jsonl"
    path.write_text(line("ml.p4d.24xlarge") + line("ml.p5.48xlarge", hosts=1))
    return path


def plan(manifest: Path, deployment: Deployment, monkeypatch: pytest.MonkeyPatch, *options: str) -> None:
    monkeypatch.setattr(command, "find_deployment", lambda _grid: deployment)
    monkeypatch.setattr(sys, "argv", ["traingrid", "submit", "--plan", *options, str(manifest)])
    with suppress(SystemExit):  # the data of its lines do not exist
        main.main()


@pytest.mark.usefixtures("aws")
def test_a_plan_prints_the_warnings_and_its_rows_have_them(
    manifest: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment = grid_with(GPU | OFF)
    plan(manifest, deployment, monkeypatch)
    output = capsys.readouterr().out
    assert f"Warning: line 1: {TCP}\n" in output
    assert f"Warning: line 2: {PTX}" in output
    plan(manifest, deployment, monkeypatch, "--output", "json")
    printed = capsys.readouterr()
    first, second = json.loads(printed.out)
    assert first["warnings"] == [TCP]
    assert second["warnings"][0].startswith(PTX)
    assert f"Warning: line 1: {TCP}\n" in printed.err


@pytest.mark.usefixtures("aws")
def test_a_submission_warns_before_anything_is_uploaded(manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    monkeypatch.setattr("traingrid.api.submit.submit_content", lambda *_arguments: events.append("submitted"))
    submit_manifest(manifest, grid_with(GPU | OFF), Progress(warn=events.append))
    assert [event.split(": ")[0] for event in events] == ["Warning", "Warning", "submitted"]
