"""Rounds in Python: specifications are checked against the grid before any cost."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

import traingrid as tg
from tests.support.sample_deployment import SAMPLE_BUCKETS
from tests.unit.rounds.conftest import FakeRounds
from traingrid.api.control_plane import ControlPlane
from traingrid.api.grid_rounds import GridRounds
from traingrid.api.rounds import open_rounds
from traingrid.api.rounds_estimate import rounds_estimate
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import TraingridError
from traingrid.grid.deployment import Deployment
from traingrid.ledger.ledger import Ledger

HOME, OTHER = REGIONS = "us-east-1", "eu-west-1"
SPEC = f"""\
lines:
  - region: {HOME}
    s3_uri: s3://{SAMPLE_BUCKETS[HOME]}/x
  - region: {OTHER}
    s3_uri: s3://{SAMPLE_BUCKETS[OTHER]}/x
recipe: {{hp.model: resnet8}}
epochs: 2
rounds: 3
outer: {{kind: diloco, momentum: 0.5}}
merge: {{region: {OTHER}}}
missing: {{wait: 6h, then: continue}}
"""


def with_grid(deployment: Deployment, **changes: Any) -> Deployment:
    grid = deployment.grid
    return replace(deployment, grid=type(grid).model_validate({**grid.model_dump(exclude_unset=True), **changes}))


@pytest.fixture
def grid(deployment: Deployment, ledger: Ledger, storage: Storage) -> tg.Grid:
    deployment = with_grid(deployment, moves=True, instance_types=["ml.m5.xlarge", "ml.p4d.24xlarge"])
    return tg.Grid(ControlPlane(deployment=deployment, ledger=ledger, batch=None, storage=storage))  # type: ignore[arg-type]  # Batch is not called


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "cells.yaml").write_text(SPEC)
    return tmp_path / "cells.yaml"


@pytest.fixture
def trains(monkeypatch: pytest.MonkeyPatch, storage: Storage, deployment: Deployment) -> FakeRounds:
    """Let a fake grid train and merge the rounds."""
    fake = FakeRounds(deployment.manifest_bucket, storage._s3)
    for name in ("submit", "jobs", "cancel", "decide_merge", "submit_merge", "contribution"):
        monkeypatch.setattr(GridRounds, name, lambda _self, *given, _name=name: getattr(fake, _name)(*given))
    monkeypatch.setattr(GridRounds, "check", lambda *_: None)
    return fake


def test_rounds_return_the_last_global_model(grid: tg.Grid, file: Path, trains: FakeRounds) -> None:
    steps: list[Any] = []
    result = grid.rounds(file, report=steps.append, poll=0)
    assert [part.number for part in result.rounds] == [1, 2, 3]
    assert result.model.model == f"{result.rounds[-1].merge_submission}/0"
    assert steps[-1].ended


def test_the_merge_of_a_round_takes_the_outer_step(grid: tg.Grid, file: Path) -> None:
    opened = open_rounds(grid.plane, file)
    jobs = opened.rounds.grid
    assert isinstance(jobs, GridRounds)
    step = jobs.request(2, "0a1b2c3d/0").step
    assert step is not None
    assert (step.number, step.learning_rate, step.momentum, step.weight_by) == (2, 0.7, 0.5, "records")
    assert (step.needs_start, step.needs_velocity) == (True, True)
    assert (opened.spec.name, opened.spec.missing.wait) == ("cells", 6 * 3600)


@pytest.mark.parametrize(
    ("good", "bad", "expected"),
    [
        ("epochs: 2", "", "cells.yaml:1: epochs: this key is missing. Write for example `epochs: 2`."),
        ("epochs: 2", "epoch: 2", "cells.yaml:7: epoch: there is no such key. Did you mean epochs?"),
        ("rounds: 3", "rounds: 0", "cells.yaml:8: rounds: 0 is not allowed: it must be "),
        ("kind: diloco", "kind: mean", "cells.yaml:9: outer.kind: 'mean' is not allowed: it must be 'fedavg' or 'dilo"),
        ("kind: diloco", "kind: fedavg", "cells.yaml:9: outer.momentum: fedavg has none. Remove it, or write `kind: "),
        ("momentum: 0.5", "momentum: 1", "cells.yaml:9: outer.momentum: 1 is not allowed: it must be "),
        (
            f"region: {OTHER}}}",
            "region: mars-1}",
            "cells.yaml:10: merge: mars-1 is not a training Region of ",
        ),
        ("6h", "soon", "cells.yaml:11: missing.wait: 'soon' is not allowed: "),
        (
            "{hp.model: resnet8}",
            "{hp.model: resnet8, hp.classes: 5}\nstop: {metric: validation_top5}",
            "cells.yaml:7: stop.metric: a trainer reports it only with more than five classes",
        ),
        ("hp.model: resnet8", "hp.epochs: 9", "cells.yaml:6: recipe.hp.epochs: the rounds set epochs. Remove it here"),
        ("hp.model: resnet8", "modell: a", "cells.yaml:6: recipe.modell: a manifest has no such field. "),
        (
            "  - region: us-east-1",
            "  - name: a\n    region: us-east-1",
            "cells.yaml:2: lines.0.name: each round gets ",
        ),
        (
            f"{HOME}\n",
            f"{HOME}\n    replicas: {{}}\n",
            "cells.yaml:3: lines.0.replicas: the data of rounds stays in its ",
        ),
        ("  - region: us-east-1", "  - region: us-east-9", "cells.yaml:2: lines.0.region: "),
        (
            f"region: {OTHER}\n",
            f"region: {HOME}\n",
            "cells.yaml:1: lines: rounds need the data of at least two ",
        ),
        ("recipe: {hp.model: resnet8}", "init_from: now", "cells.yaml:6: init_from: it must be the id of a submission"),
        (f"{HOME}\n", f"{HOME}\n    hp.classes: 7\n", "cells.yaml:11: merge: The hyperparameter classes of line 1 in "),
        (
            f"{HOME}\n",
            f"{HOME}\n    residency: [us]\n",
            "cells.yaml:2: lines.0: its residency allows the models of ",
        ),
        ("hp.model: resnet8", "entry_point: a.py, source: s3://x/a.tar.gz", "cells.yaml:2: lines.0"),
    ],
)
def test_a_mistake_is_reported_at_its_place_and_creates_nothing(
    grid: tg.Grid, file: Path, good: str, bad: str, expected: str
) -> None:
    assert good in SPEC
    file.write_text(SPEC.replace(good, bad, 1))
    with pytest.raises(tg.UsageError) as error:
        grid.rounds(file)
    assert f"{file.parent}/{expected}" in str(error.value)
    assert list(grid.plane.storage.sizes(S3Uri(grid.plane.deployment.manifest_bucket, ""))) == []


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("instance_type: ml.m5.huge", "cells.yaml:10: merge.instance_type: "),
        ("instance_type: ml.c5.xlarge", "cells.yaml:10: merge.instance_type: "),
        ("data: s3://other/x", "cells.yaml:10: merge.data: "),
        ("data: no-uri", "cells.yaml:10: merge.data: "),
        ("image: none", "cells.yaml:10: merge: The image none is not the grid's training image"),
    ],
)
def test_the_line_of_the_merge_is_checked_before_the_first_round(
    grid: tg.Grid, file: Path, key: str, expected: str
) -> None:
    file.write_text(SPEC.replace(f"region: {OTHER}}}", f"region: {OTHER}, {key}}}"))
    with pytest.raises(tg.UsageError) as error:
        grid.rounds(file)
    assert f"{file.parent}/{expected}" in str(error.value)
    assert "--" not in str(error.value)


def test_networks_of_pytorch_are_refused_with_a_step_that_rounds_have(grid: tg.Grid, file: Path) -> None:
    images = grid.plane.deployment.grid.model_dump(mode="json", exclude_defaults=True)["images"]
    torch = {"torch": {"build": "training", "target": "torch"}}
    deployment = with_grid(grid.plane.deployment, images=images | torch)
    deployment = replace(deployment, images={**deployment.images, "torch": f"built-1@sha256:{'a' * 64}"})
    file.write_text(SPEC.replace("hp.model: resnet8", "hp.model: resnet8, image: torch, launcher: torchrun"))
    with pytest.raises(tg.UsageError, match="rounds average networks of the image's trainer for TensorFlow") as error:
        tg.Grid(replace(grid.plane, deployment=deployment)).rounds(file)
    assert "--method" not in str(error.value)


def test_different_networks_are_refused_with_a_step_that_rounds_have(grid: tg.Grid, file: Path) -> None:
    file.write_text(SPEC.replace(f"{HOME}\n", f"{HOME}\n    hp.classes: 7\n", 1))
    with pytest.raises(tg.UsageError, match="write the value once, into the recipe") as error:
        grid.rounds(file)
    assert "--method" not in str(error.value)


def test_a_grid_that_copies_nothing_has_no_rounds(grid: tg.Grid, file: Path) -> None:
    plane = replace(grid.plane, deployment=with_grid(grid.plane.deployment, moves=False))
    with pytest.raises(TraingridError, match=r"cells\.yaml:10: merge: The model of line 0 in us-east-1 cannot be "):
        tg.Grid(plane).rounds(file)


def test_a_first_model_that_does_not_exist_is_refused_and_nothing_is_created(
    grid: tg.Grid, file: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traingrid.api.submit.Ledger", lambda *_: ledger)
    file.write_text(f"{SPEC}init_from: 0a1b2c3d/0\n")
    with pytest.raises(
        tg.UsageError, match=r"cells\.yaml:12: init_from: '0a1b2c3d/0' this grid has no submission 0a1b2c3d\."
    ):
        grid.rounds(file)
    assert list(grid.plane.storage.sizes(S3Uri(grid.plane.deployment.manifest_bucket, ""))) == []


SCRIPT = SPEC.replace("{hp.model: resnet8}", "{entry_point: train.py, source: ./source}")


@pytest.fixture
def script(file: Path) -> Path:
    (file.parent / "source").mkdir()
    (file.parent / "source/train.py").write_text("print()")
    file.write_text(SCRIPT)
    return file


def test_rounds_of_scripts_average_the_weights_that_they_save(grid: tg.Grid, script: Path) -> None:
    opened = open_rounds(grid.plane, script)
    jobs = opened.rounds.grid
    assert isinstance(jobs, GridRounds)
    assert jobs.request(1, "").method == "weights"
    sources = [line["source"] for line in opened.rounds.lines]
    assert all(
        source.partition("/sources/")[0].endswith(region) for source, region in zip(sources, REGIONS, strict=True)
    )


@pytest.mark.parametrize(
    ("good", "bad", "expected"),
    [
        (
            f"region: {OTHER}}}",
            f"region: {OTHER}, data: s3://b/x}}",
            "cells.yaml:10: merge.data: the merge of ",
        ),
        (f"region: {OTHER}}}", f"region: {OTHER}, image: other}}", "cells.yaml:10: merge: "),
        ("rounds: 3", "rounds: 3\nstop: {patience: 1}", "cells.yaml:9: stop: the merge of scripts evaluates nothing"),
        ("entry_point: train.py", "entry_point: other.py", "other.py"),
    ],
)
def test_a_mistake_in_rounds_of_scripts_is_reported(
    grid: tg.Grid, script: Path, good: str, bad: str, expected: str
) -> None:
    assert good in SCRIPT
    script.write_text(SCRIPT.replace(good, bad, 1))
    with pytest.raises(tg.UsageError) as error:
        grid.rounds(script)
    assert expected in str(error.value)
    assert list(grid.plane.storage.sizes(S3Uri(grid.plane.deployment.manifest_bucket, ""))) == []


def test_lines_with_and_without_a_script_are_refused(grid: tg.Grid, script: Path) -> None:
    first = f"s3_uri: s3://{SAMPLE_BUCKETS[HOME]}/x\n"
    script.write_text(SPEC.replace(first, f"{first}    source: ./source\n    entry_point: train.py\n", 1))
    with pytest.raises(tg.UsageError, match=r"cells\.yaml:6: lines\.1: rounds train one network, but some "):
        grid.rounds(script)


def test_data_that_must_not_be_listed_has_no_size(grid: tg.Grid, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def sizes(_prefix: S3Uri) -> Iterator[tuple[str, int]]:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "ListObjectsV2")

    monkeypatch.setattr("traingrid.api.rounds_estimate.Storage", lambda _region: SimpleNamespace(sizes=sizes))
    opened = open_rounds(grid.plane, file)
    estimate = rounds_estimate(grid.plane, opened, opened.rounds.read(), [])
    assert [training.data_bytes for training in estimate.trainings] == [None, None]
    assert f"the size of the data in {HOME}, {OTHER} is not" in "\n".join(estimate.sentences())


def test_the_estimate_before_the_first_round_has_the_runtime_of_the_lines_and_the_size_of_the_data(
    grid: tg.Grid, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {SAMPLE_BUCKETS[HOME]: 100, SAMPLE_BUCKETS[OTHER]: 50}
    listing = SimpleNamespace(sizes=lambda prefix: iter([(f"{prefix.key}a", sizes[prefix.bucket])]))
    monkeypatch.setattr("traingrid.api.rounds_estimate.Storage", lambda _region: listing)
    extra = "hp.model: resnet8, estimated_runtime: 30m, instance_type: ml.m5.xlarge"
    file.write_text(SPEC.replace("hp.model: resnet8", extra))
    opened = open_rounds(grid.plane, file)
    estimate = rounds_estimate(grid.plane, opened, opened.rounds.read(), [])
    assert [training.seconds for training in estimate.trainings] == [1800.0, 1800.0]
    assert [training.data_bytes for training in estimate.trainings] == [100, 50]
    assert (estimate.rounds, estimate.merge.seconds, estimate.weights_bytes, estimate.copies) == (3, None, None, 5)
