"""Rounds end to end: two Regions that see different digits train one model, though the command is killed.

Four trainings and two merges, about two minutes on two cores.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import traingrid as tg
from examples.rounds.split_classes import digit_of, records
from localcloud.credentials.environments import user_environment
from localcloud.server.local_cloud import LocalCloud
from tests.e2e.submissions import DIGITS, PATIENCE_SECONDS, REGIONS
from tests.support.process import restored_logging
from traingrid.api.control_plane import ControlPlane
from traingrid.api.data import upload_folder
from traingrid.api.rounds import RoundsResult
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.main import cli
from traingrid.rounds.borders import crossings
from traingrid.rounds.journal import rounds_journal
from traingrid.rounds.state import RoundsState, state_of

HOME, OTHER = REGIONS
COMMAND = """\
from functools import partialmethod
from traingrid.api.rounds import OpenRounds
from traingrid.cli.main import main
OpenRounds.run = partialmethod(OpenRounds.run, poll=0.5)
main()
"""
"""`traingrid`, with shorter waits between the steps of rounds."""


def write_digits(folder: Path, digits: range) -> Path:
    """Write the scans of some digits of all campaigns to train on, and the validation data of all digits."""
    for campaign in range(1, 5):
        for path in sorted((DIGITS / f"campaign-{campaign}" / "train").iterdir()):
            target = folder / "train" / f"{campaign}-{path.name}"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(b"".join(record for record in records(path) if digit_of(record) in digits))
    (folder / "validation").mkdir()
    for path in (DIGITS / "campaign-1" / "validation").iterdir():
        (folder / "validation" / path.name).write_bytes(path.read_bytes())
    return folder


@pytest.fixture(scope="module")
def spec(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The specification, after uploading the digits 0 to 4 to one Region and 5 to 9 to the other one."""
    folder = tmp_path_factory.mktemp("rounds")
    lines = []
    for region, digits in zip(REGIONS, (range(5), range(5, 10)), strict=True):
        data = write_digits(folder / region, digits)
        lines.append({"region": region, "s3_uri": str(upload_folder(plane.deployment, data, region))})
    content: dict[str, Any] = {
        "name": "digits",
        "lines": lines,
        "recipe": {"hp.batch_size": 32, "hp.base_learning_rate": 0.4, "hp.label_smoothing": 0.0},
        "epochs": 3,
        "rounds": 2,
        "outer": "diloco",
        "merge": {"region": OTHER},
    }
    (folder / "digits.yaml").write_text(yaml.safe_dump(content))
    return folder / "digits.yaml"


def started(cloud: LocalCloud, spec: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, "--grid", str(Path(cloud.data_dir) / "grid.yaml"), "rounds", str(spec)],
        env={**os.environ, **user_environment(cloud.endpoint_url)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def state(plane: ControlPlane) -> RoundsState:
    return state_of(rounds_journal(plane.storage, plane.deployment.manifest_bucket, "digits").refresh())


def kill_after(plane: ControlPlane, process: "subprocess.Popen[str]", kind: str) -> None:
    """Kill the command as soon as the journal has an entry of a kind."""
    journal = rounds_journal(plane.storage, plane.deployment.manifest_bucket, "digits")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while kind not in [entry.kind for entry in journal.refresh()]:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.fixture(scope="module")
def plan(cloud: LocalCloud, plane: ControlPlane, spec: Path) -> str:
    """The plan before the first round."""
    words = ["--grid", str(Path(cloud.data_dir) / "grid.yaml"), "rounds", str(spec), "--plan"]
    with restored_logging():
        printed = CliRunner().invoke(cli, words)
    assert printed.exit_code == 0, printed.output
    return printed.output


@pytest.fixture(scope="module")
def outputs(cloud: LocalCloud, plane: ControlPlane, spec: Path, plan: str) -> list[str]:
    """Run the rounds: a command that is killed after its lines, one that is killed at a merge, and then two at once."""
    for kind in ("lines", "merge"):
        kill_after(plane, started(cloud, spec), kind)
    processes = [started(cloud, spec), started(cloud, spec)]
    found = []
    for process in processes:
        output, errors = process.communicate(timeout=2 * PATIENCE_SECONDS)
        assert process.returncode == 0, errors
        found.append(output)
    return found


@pytest.fixture(scope="module")
def result(outputs: list[str], plane: ControlPlane, spec: Path) -> RoundsResult:
    assert outputs
    return tg.Grid(plane).rounds(spec)  # all have ended


def test_the_plan_has_the_copies_and_the_size_of_the_data(plan: str) -> None:
    assert "Estimate for 2 more rounds, at list prices on demand:" in plan
    assert "weights across borders: 3 copies of a model, whose size is not known before the first round" in plan
    assert re.search(r"in one place instead: \d+ kB of \d+ kB would be copied to (us-east-1|eu-west-1), ", plan)


def test_the_global_model_knows_the_digits_of_both_regions(result: RoundsResult, outputs: list[str]) -> None:
    print("".join(outputs[0]))
    metrics = [part.model.metrics for part in result.rounds if part.model]
    assert [part.number for part in result.rounds] == [1, 2]
    assert metrics[-1]["validation_top1"] > 0.6 > metrics[0]["best_part_top1"]


def test_each_contribution_counts_once(result: RoundsResult, cloud: LocalCloud, plane: ControlPlane) -> None:
    created = {
        entry["parameters"]["TrainingJobName"] for entry in cloud.record.entries("sagemaker", "CreateTrainingJob")
    }
    submissions = [name for part in result.rounds for name in (part.submission, part.merge_submission)]
    counts = [sum(f"-{submission}-" in name for name in created) for submission in submissions]
    assert counts == [2, 1, 2, 1]
    for part in result.rounds:
        assert part.merge is not None
        assert [contribution.region for contribution in part.merge.contributions] == [*REGIONS]


def test_only_weights_cross_a_border(result: RoundsResult, cloud: LocalCloud, plane: ControlPlane) -> None:
    crossed = list(crossings(state(plane)))
    assert [(each.round, each.from_region, each.to_region) for each in crossed] == [
        (1, HOME, OTHER),
        (2, OTHER, HOME),
        (2, HOME, OTHER),
    ]
    assert all(S3Uri.parse(each.uri).key.endswith("/output/model.tar.gz") for each in crossed)


def test_the_audit_lists_the_same_copies(result: RoundsResult, cloud: LocalCloud, plane: ControlPlane) -> None:
    grid = str(Path(cloud.data_dir) / "grid.yaml")
    rows: list[dict[str, Any]] = []
    for part in result.rounds:
        for submission in (part.submission, part.merge_submission):
            words = ["--grid", grid, "audit", submission, "--borders", "--output", "json"]
            found = CliRunner().invoke(cli, words)
            assert found.exit_code == 0, found.output
            rows += json.loads(found.stdout)
    listed = [(row["source"].removesuffix("/model.tar.gz"), row["bytes"], row["to_region"]) for row in rows]
    crossed = list(crossings(state(plane)))
    assert sorted(listed) == sorted(
        (each.uri.removesuffix("/model.tar.gz"), each.bytes, each.to_region) for each in crossed
    )


def test_no_training_reads_another_region_and_no_copy_is_of_data(result: RoundsResult, cloud: LocalCloud) -> None:
    for entry in cloud.record.entries("sagemaker", "CreateTrainingJob"):
        channels = [channel["DataSource"]["S3DataSource"] for channel in entry["parameters"]["InputDataConfig"]]
        buckets = {S3Uri.parse(source["S3Uri"]).bucket for source in channels}
        assert all(bucket.endswith(f"-{entry['region']}") for bucket in buckets), entry["parameters"]
    copies = [
        entry["parameters"]["Key"]
        for action in ("CopyObject", "UploadPartCopy")
        for entry in cloud.record.entries("s3", action)
    ]
    assert copies
    weights = r"(merges|initial-models)/.*\.tar\.gz|[0-9a-f]{8}/\d+/checkpoints/.*"  # other files move with checkpoints
    assert all(re.fullmatch(weights, key) for key in copies), copies
