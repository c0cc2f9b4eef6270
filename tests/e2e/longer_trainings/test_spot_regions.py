"""Spot end to end: lines with deadlines follow spot capacity between two Regions, and train as without interruptions.

The capacity is a trace in accelerated time: it changes when the trainings have reached an epoch. Four trainings of the
same digits, about two minutes on two cores.
"""

import io
import json
import tarfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import traingrid as tg
from localcloud.faults.plan import FaultPlan, SpotCapacity
from localcloud.server.local_cloud import LocalCloud
from tests.e2e.submissions import DIGITS, PATIENCE_SECONDS, REGIONS, until
from tests.support.shortages import forget_shortages
from traingrid.api.control_plane import ControlPlane
from traingrid.api.data import upload_folder
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.main import cli
from traingrid.ledger.items import JobItem
from traingrid.ledger.timestamps import epoch_seconds

HOME, OTHER = REGIONS
EPOCHS = 16
NEVER, ALWAYS = ((0.0, False),), ((0.0, True),)
FINISH_BY = datetime.now(UTC) + timedelta(hours=3)


@dataclass(frozen=True)
class Trained:
    """The lines, in this order.

    The first one moves when its instances are lost, and the second one at its start; the second one then waits for the
    return of its instances. The third one has no time for spot instances, and the fourth one is requested late.
    """

    submission: str
    items: tuple[JobItem, ...]


@pytest.fixture(scope="module")
def data(plane: ControlPlane) -> dict[str, str]:
    """The same digits in each Region."""
    return {region: str(upload_folder(plane.deployment, DIGITS / "campaign-1", region)) for region in REGIONS}


@pytest.fixture(scope="module")
def grid_file(cloud: LocalCloud) -> str:
    return str(Path(cloud.data_dir) / "grid.yaml")


def line(data: dict[str, str], region: str, **fields: Any) -> str:
    """Return a line with the other Region as its replica."""
    (other,) = set(REGIONS) - {region}
    content = {"region": region, "s3_uri": data[region], "replicas": {other: data[other]}, "spot": True}
    content |= {"finish_by": f"{FINISH_BY:%Y-%m-%dT%H:%M:%SZ}", "estimated_runtime": "10m"}
    content |= {"hyperparameters": {"epochs": EPOCHS, "batch_size": 32}, **fields}
    return json.dumps(content) + "\n"


def set_capacity(cloud: LocalCloud, home: Any, other: Any) -> None:
    spot = (SpotCapacity(region=HOME, trace=home), SpotCapacity(region=OTHER, trace=other))
    cloud.faults.set(FaultPlan(spot=spot))


@pytest.fixture(scope="module")
def trained(
    cloud: LocalCloud, plane: ControlPlane, data: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Trained:
    folder = tmp_path_factory.mktemp("manifests")
    manifest, late_manifest = folder / "spot.jsonl", folder / "late.jsonl"
    soon = f"{datetime.now(UTC) + timedelta(minutes=30):%Y-%m-%dT%H:%M:%SZ}"
    lines = (line(data, HOME), line(data, OTHER), line(data, HOME, finish_by=soon))
    manifest.write_text("".join(lines))
    late_manifest.write_text(line(data, HOME))
    set_capacity(cloud, ALWAYS, NEVER)
    try:
        first = tg.Grid(plane).submit(manifest)
        until(lambda: all(epoch_of(plane, first.id, index) for index in (0, 1)))
        set_capacity(cloud, NEVER, ALWAYS)
        late = tg.Grid(plane).submit(late_manifest)
        until(lambda: [region_of(plane, first.id, 0), region_of(plane, late.id, 0)] == [OTHER, OTHER])
        set_capacity(cloud, ALWAYS, ALWAYS)
        for submission in (first, late):
            submission.wait(timeout=2 * PATIENCE_SECONDS, poll=0.5)
    finally:
        cloud.faults.set(FaultPlan())
        forget_shortages(plane.ledger)
    items = (*(item_of(plane, first.id, index) for index in range(3)), item_of(plane, late.id, 0))
    return Trained(first.id, items)


def item_of(plane: ControlPlane, submission: str, index: int) -> JobItem:
    item = plane.ledger.job(submission, index)
    assert item is not None
    return item


def region_of(plane: ControlPlane, submission: str, index: int) -> str:
    """Return the Region of a line; empty before its child has opened it."""
    item = plane.ledger.job(submission, index)
    return item.region if item else ""


def epoch_of(plane: ControlPlane, submission: str, index: int) -> float:
    """Return the last epoch that a line has reported; 0 before the first."""
    item = plane.ledger.job(submission, index)
    return item.progress.get("epoch", 0) if item else 0


def test_every_line_ends_in_time_in_a_region_with_capacity(trained: Trained) -> None:
    assert [item.state for item in trained.items] == ["Completed"] * 4, [item.reason for item in trained.items]
    assert [item.region for item in trained.items] == [OTHER, HOME, HOME, OTHER]
    assert all(epoch_seconds(item.updated_at) < FINISH_BY.timestamp() for item in trained.items)
    assert [item.on_demand for item in trained.items] == [False, False, True, False]
    failures = [[attempt.failure for attempt in item.tried] for item in trained.items]
    assert failures == [["spot_elsewhere"], ["spot_elsewhere"], ["deadline"], ["spot_elsewhere"]]


def test_a_line_that_moved_continued_from_its_checkpoint(trained: Trained) -> None:
    moved = trained.items[0]
    assert moved.tried[0].epoch > 0
    assert (moved.checkpoint_from, moved.checkpoint_bytes > 0) == (HOME, True)
    assert [item.checkpoint_from for item in trained.items[1:]] == ["", "", ""]


def test_each_move_has_a_sentence(grid_file: str, trained: Trained) -> None:
    shown = CliRunner().invoke(cli, ["--grid", grid_file, "describe", trained.submission, "0"], catch_exceptions=False)
    assert f"{OTHER} may have spot instances." in " ".join(shown.output.split())
    assert "Continues from checkpoint-" in shown.output


def test_the_weights_are_those_of_a_training_without_interruptions(trained: Trained) -> None:
    """The third line trained on demand, and the fourth one without an interruption."""
    weights = [weights_of(item) for item in trained.items]
    assert len(weights[0]) > 1000
    assert [body == weights[2] for body in weights] == [True] * 4


def weights_of(item: JobItem) -> bytes:
    """Return the variables of a job's model."""
    body = Storage(item.region).read(S3Uri.parse(item.artifact))
    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        (name,) = (name for name in archive.getnames() if name.endswith("variables.data-00000-of-00001"))
        member = archive.extractfile(name)
        assert member is not None
        return member.read()


def test_cost_has_the_dollars_of_the_attempts_and_of_the_moves(
    grid_file: str, trained: Trained, tmp_path: Path
) -> None:
    def shown(*words: str) -> str:
        url = ("--catalog", f"sqlite:///{tmp_path}/catalog.db")
        return CliRunner().invoke(cli, ["--grid", grid_file, *words, *url], catch_exceptions=False).stdout

    for command in (("catalog", "init"), ("prices", "refresh"), ("catalog", "sync")):
        shown(*command)
    rows = json.loads(shown("cost", "--by", "job", "--submission", trained.submission, "--output", "json"))
    by_index = {row["job"].split()[1]: row for row in rows}
    assert [by_index[index]["runs"] for index in "012"] == [2, 2, 2]
    assert all(by_index[index]["actual"] > 0 for index in "012")
    query = f"SELECT job, to_region, bytes, dollars FROM transfers WHERE submission = '{trained.submission}'"
    (transfer,) = json.loads(shown("catalog", "sql", query, "--output", "json"))
    moved = trained.items[0]
    assert (transfer["job"], transfer["to_region"], transfer["bytes"]) == (0, OTHER, moved.checkpoint_bytes)
    assert 0 < transfer["dollars"] < 0.01
