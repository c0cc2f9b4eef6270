"""Rounds of a script end to end: two Regions that see different classes train one model with NumPy alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

import traingrid as tg
from localcloud.server.local_cloud import LocalCloud
from tests.e2e.submissions import REGIONS
from traingrid.api.control_plane import ControlPlane
from traingrid.api.data import upload_folder
from traingrid.api.rounds import RoundsResult
from traingrid.cli.main import cli

CLASSES, FEATURES = 4, 6
SCRIPT = """\
import argparse
import os

import numpy as np
from trainer import metrics, round_weights

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
parser.add_argument("--seed", type=int)
options = parser.parse_args()
data = np.load(os.environ["SM_CHANNEL_TRAIN"] + "/points.npz")
held_out = np.load(os.environ["SM_CHANNEL_VALIDATION"] + "/points.npz")
start = np.random.default_rng(options.seed).normal(size=(6, 4)).astype(np.float32) / 10
weights = round_weights.begin({"w": start})["w"]
accuracy = lambda: float(((held_out["x"] @ weights).argmax(1) == held_out["y"]).mean())
metrics.report(global_validation_top1=accuracy())
for epoch in range(options.epochs):
    scores = np.exp(data["x"] @ weights)
    error = scores / scores.sum(1, keepdims=True) - np.eye(4)[data["y"]]
    weights -= (data["x"].T @ error / len(error)).astype(np.float32)
    metrics.report(epoch=epoch + 1, validation_top1=accuracy())
round_weights.save({"w": weights}, records=len(data["y"]))
"""


def write_points(folder: Path, classes: range) -> Path:
    """Write points of some classes to train on, and of all classes to validate."""
    random = np.random.default_rng(0)
    centers = random.normal(size=(CLASSES, FEATURES)) * 3
    for channel, of_channel, count in (("train", classes, 200), ("validation", range(CLASSES), 100)):
        y = np.array([number for number in of_channel for _ in range(count)])
        (folder / channel).mkdir(parents=True)
        x = centers[y] + random.normal(size=(len(y), FEATURES))
        np.savez(folder / channel / "points.npz", x=x.astype(np.float32), y=y)
    return folder


@pytest.fixture(scope="module")
def result(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> RoundsResult:
    folder = tmp_path_factory.mktemp("rounds")
    (folder / "source").mkdir()
    (folder / "source/train.py").write_text(SCRIPT)
    lines = []
    for region, classes in zip(REGIONS, (range(2), range(2, 4)), strict=True):
        data = write_points(folder / region, classes)
        lines.append({"region": region, "s3_uri": str(upload_folder(plane.deployment, data, region))})
    content: dict[str, Any] = {
        "name": "points",
        "lines": lines,
        "recipe": {
            "source": "./source",
            "entry_point": "train.py",
            "launcher": "none",
            "metrics": ["epoch", "validation_top1", "global_validation_top1"],
        },
        "epochs": 5,
        "rounds": 2,
        "outer": "diloco",
        "merge": {"region": REGIONS[1]},
    }
    (folder / "points.yaml").write_text(yaml.safe_dump(content))
    return tg.Grid(plane).rounds(folder / "points.yaml", poll=0.5)


def test_the_rounds_of_a_script_have_global_models(result: RoundsResult) -> None:
    merges = [part.merge for part in result.rounds if part.merge]
    assert [[each.region for each in merge.contributions] for merge in merges] == [[*REGIONS]] * 2
    assert result.model.model == f"{result.rounds[1].merge_submission}/0"


def test_the_status_has_the_validation_that_the_next_round_reports(result: RoundsResult, cloud: LocalCloud) -> None:
    words = ["--grid", str(Path(cloud.data_dir) / "grid.yaml"), "status", "rounds:points"]
    printed = CliRunner().invoke(cli, words, env={"COLUMNS": "200"})
    assert printed.exit_code == 0, printed.output
    assert "The best global model is that of round 1, with validation_top1 " in printed.output


def test_the_final_weights_know_the_classes_of_both_regions(
    result: RoundsResult, plane: ControlPlane, tmp_path: Path
) -> None:
    submission, _, index = result.model.model.partition("/")
    (folder,) = tg.Grid(plane).submission(submission).download(tmp_path, int(index))
    assert sorted(path.name for path in folder.glob("[!.]*")) == ["report.json", "weights.safetensors"]
    content = (folder / "weights.safetensors").read_bytes()
    weights = np.frombuffer(content[-FEATURES * CLASSES * 4 :], "<f4").reshape(FEATURES, CLASSES)
    held_out = np.load(write_points(tmp_path / "points", range(2)) / "validation/points.npz")
    assert ((held_out["x"] @ weights).argmax(1) == held_out["y"]).mean() > 0.8
