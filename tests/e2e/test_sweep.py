"""A sweep end to end: twelve trials in four Regions find the optimum, though its command and children are killed.

Each trial runs a script in the training image. Its loss is a known function of two hyperparameters.
"""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from localcloud.credentials.environments import user_environment
from localcloud.server.local_cloud import LocalCloud
from tests.e2e.deployed import control_plane, two_regions
from tests.e2e.test_queued import children, violations
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.aws.clients import client
from traingrid.sweep.journal import sweep_journal
from traingrid.sweep.state import SweepState, state_of

REGIONS = ("us-east-1", "us-west-2", "eu-west-1", "eu-central-1")
GRID = """\
name: traingrid
home: us-east-1
regions: {us-east-1: , us-west-2: , eu-west-1: , eu-central-1: }
images:
  resnet: {repository: training, tag: "1"}
job:
  image: resnet
  instance_type: ml.m5.large
  max_runtime: 10m
"""
SCRIPT = """\
import argparse
import math
import os
import pathlib
import time

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float)
parser.add_argument("--depth", type=int)
given = parser.parse_known_args()[0]
loss = (math.log10(given.rate) + 2) ** 2 + (given.depth - 5) ** 2 / 10
for epoch in range(1, 5 if given.rate < 10.0 else 1000):
    print(f"epoch={epoch} loss={loss + max(4 - epoch, 0) / 10}", flush=True)
    time.sleep(0.5)
pathlib.Path(os.environ["SM_MODEL_DIR"], "loss").write_text(str(loss))
"""
ENDLESS_RATE = 10.0
"""Trials with this rate are worse than all others and train until they are stopped early."""
RATES, DEPTHS = (0.0001, ENDLESS_RATE, 0.01, 1.0), (4, 5, 6)
PARALLEL = 4
OPTIMUM = {"rate": 0.01, "depth": 5}
KILLED_AT = ("begun", "batch", "submitted", "ended", "stopped_early")
"""The entries of the journal after which the command is killed, once each; the second and third separate a manifest
from its submission."""
PATIENCE_SECONDS = 600
COMMAND = """\
from functools import partialmethod
from traingrid.api.sweep import OpenSweep
from traingrid.cli.main import main
OpenSweep.run = partialmethod(OpenSweep.run, poll=1.0)
main()
"""
"""`traingrid`, with shorter waits between the steps of a sweep."""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with two_regions(tmp_path_factory.mktemp("sweep"), grid=GRID) as running:
        yield running


@pytest.fixture(scope="module")
def plane(cloud: LocalCloud) -> Iterator[ControlPlane]:
    with control_plane(cloud) as made:
        yield made


@pytest.fixture(scope="module")
def spec(cloud: LocalCloud, plane: ControlPlane) -> Path:
    """Return the specification, after uploading data to each Region."""
    folder = Path(cloud.data_dir) / "sweep"
    (folder / "code").mkdir(parents=True)
    (folder / "code/train.py").write_text(SCRIPT)
    lines = []
    for region in REGIONS:
        bucket = names.data_bucket("traingrid", plane.deployment.account, region)
        for channel in ("train", "validation"):
            client("s3", region).put_object(Bucket=bucket, Key=f"x/{channel}/a", Body=b"a")
        script = {"source": "code", "entry_point": "train.py", "metrics": ["epoch", "loss"]}
        lines.append({"region": region, "s3_uri": f"s3://{bucket}/x", **script})
    made: dict[str, Any] = {
        "lines": lines,
        "search": {"hp.rate": {"choices": RATES}, "hp.depth": {"choices": DEPTHS}},
        "strategy": "grid",
        "objective": {"metric": "loss", "direction": "minimize"},
        "parallel": PARALLEL,
        "early_stopping": {"min_epochs": 2},
    }
    (folder / "rates.yaml").write_text(json.dumps(made))  # JSON is valid YAML
    return folder / "rates.yaml"


def started(cloud: LocalCloud, spec: Path) -> subprocess.Popen[str]:
    """Start the command in another process group, as a user's terminal does."""
    arguments = ["--grid", str(Path(cloud.data_dir) / "grid.yaml"), "sweep", str(spec), "--output", "json"]
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments],
        env={**os.environ, **user_environment(cloud.endpoint_url)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def entries(plane: ControlPlane) -> list[str]:
    """Return the kinds of the journal's entries."""
    journal = sweep_journal(plane.storage, plane.deployment.manifest_bucket, "rates")
    return [entry.kind for entry in journal.refresh()]


def kill_after(plane: ControlPlane, process: subprocess.Popen[str], kind: str) -> None:
    """Kill the command as soon as it has written an entry of a kind."""
    before = entries(plane).count(kind)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while entries(plane).count(kind) == before:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, entries(plane)
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def is_child(process: int) -> bool:
    with suppress(FileNotFoundError):
        return Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[1:3] == [b"-m", b"batch_job"]
    return False


def kill_a_child(cloud: LocalCloud) -> None:
    """Kill one of Batch's children, and wait for one if there is none; localcloud's program above it continues."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := [child for child in children(cloud) if is_child(child)]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    with suppress(ProcessLookupError):
        os.kill(found[0], signal.SIGKILL)


@pytest.fixture(scope="module")
def rows(cloud: LocalCloud, plane: ControlPlane, spec: Path) -> list[dict[str, Any]]:
    """Run the sweep while its command and its children are killed, and then two commands; return the trials."""
    for kind in KILLED_AT:
        kill_after(plane, started(cloud, spec), kind)
        if kind == "submitted":
            kill_a_child(cloud)
    first, second = started(cloud, spec), started(cloud, spec)
    kill_a_child(cloud)
    found: list[list[dict[str, Any]]] = []
    for process in (first, second):
        output, errors = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0, errors
        found.append(json.loads(output))
    assert found[0] == found[1]
    return found[0]


@pytest.fixture(scope="module")
def state(rows: list[dict[str, Any]], plane: ControlPlane) -> SweepState:
    return state_of(sweep_journal(plane.storage, plane.deployment.manifest_bucket, "rates").refresh())


def test_the_sweep_finds_the_optimum(rows: list[dict[str, Any]], spec: Path) -> None:
    (best,) = (row for row in rows if row["best"])
    assert best["hyperparameters"] == OPTIMUM
    assert math.isclose(best["value"], 0.0, abs_tol=1e-6)
    line = json.loads(spec.with_name("rates-best.jsonl").read_text().splitlines()[1])
    assert line["hyperparameters"] == OPTIMUM


def test_each_trial_is_trained_once(rows: list[dict[str, Any]], cloud: LocalCloud) -> None:
    """Also after a lost reply, one training job has one name, so that the record of calls can repeat a name."""
    created = {
        entry["parameters"]["TrainingJobName"]: entry["parameters"]["HyperParameters"]
        for entry in cloud.record.entries("sagemaker", "CreateTrainingJob")
    }
    trained = Counter((json.loads(each["rate"]), json.loads(each["depth"])) for each in created.values())
    assert trained == {(rate, depth): 1 for rate in RATES for depth in DEPTHS}
    assert len(rows) == len(trained)


def test_all_regions_train(rows: list[dict[str, Any]]) -> None:
    assert {row["region"] for row in rows} == set(REGIONS)


def test_at_most_the_given_number_of_trials_is_open(rows: list[dict[str, Any]], plane: ControlPlane) -> None:
    """After each entry of the journal: the entry of a batch precedes its submission, that of a result its end."""
    journal = sweep_journal(plane.storage, plane.deployment.manifest_bucket, "rates").refresh()
    open_trials = [len(state_of(journal[:number]).open) for number in range(len(journal))]
    assert max(open_trials) == PARALLEL


def test_bad_trials_are_stopped_early_and_recorded(rows: list[dict[str, Any]], state: SweepState) -> None:
    stopped = [trial for trial in state.trials.values() if trial.was_stopped_early]
    assert {trial.number for trial in stopped} >= {
        number for number, trial in state.trials.items() if trial.parameters["rate"] == ENDLESS_RATE
    }
    assert [row["trial"] for row in rows if row["state"] == "Stopped"] == [trial.number for trial in stopped]
    assert {row["state"] for row in rows} <= {"Completed", "Stopped"}


def test_the_audit_finds_no_violations(state: SweepState, plane: ControlPlane, cloud: LocalCloud) -> None:
    submissions = {trial.submission for trial in state.trials.values()}
    assert [finding for submission in submissions for finding in violations(plane, cloud, submission)] == []
