"""The queries and prices of `make demo-catalog`, on SQLite and on a real PostgreSQL; the demo itself runs by hand."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import Table

from examples.catalog import demo
from localcloud.pricing.example_prices import REGIONS, TYPES
from tests.support.sample_deployment import ACCOUNT, sample_deployment
from traingrid.catalog.batches import upsert
from traingrid.catalog.database import Catalog
from traingrid.catalog.tables import capacity, datasets, prices, replicas, runs, transfer_prices
from traingrid.cli import plan as command
from traingrid.cli.main import cli

TODAY = datetime.now(UTC).date()
BYTES = 210_500  # a campaign of handwritten digits


@pytest.fixture
def filled(catalog: Catalog, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """A catalog as the demo has it after its refreshes, in the current folder's environment."""
    sample = sample_deployment()
    job = sample.grid.job.model_copy(update={"instance_type": demo.INSTANCE_TYPE})
    deployment = replace(sample, grid=sample.grid.model_copy(update={"moves": True, "job": job}))
    monkeypatch.setattr(command, "find_deployment", lambda _grid: deployment)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRAINGRID_CATALOG", url)
    regions = demo.CAMPAIGNS.values()
    kind = {"instance_type": demo.INSTANCE_TYPE, "purchase_option": "on_demand", "as_of": TODAY}
    dollars = TYPES[demo.INSTANCE_TYPE].dollars
    versions = [{"dataset": name, "version": "1", "campaign": name, "bytes": BYTES} for name in demo.CAMPAIGNS]
    copies = [
        {"dataset": name, "version": "1", "region": region, "state": "available"}
        | {"uri": f"s3://traingrid-data-{ACCOUNT}-{region}/{name}/1"}
        for name, region in demo.CAMPAIGNS.items()
    ]
    moves = [
        {"from_region": one, "to_region": other, "dollars_per_gb": demo.TRANSFER_DOLLARS, "as_of": TODAY}
        for one, other in permutations(regions, 2)
    ]
    rows: dict[Table, list[dict[str, Any]]] = {
        datasets: versions,
        replicas: copies,
        transfer_prices: moves,
        prices: [{"region": region, "dollars_per_hour": dollars * REGIONS[region].ratio, **kind} for region in regions],
        capacity: [{"region": region, "instances": 4, "training_plan": "", **kind} for region in regions],
    }
    for table, each in rows.items():
        catalog.write(partial(upsert, table=table, rows=each))
    return catalog


def run(*words: str) -> str:
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.exception
    return result.output


@pytest.mark.usefixtures("filled")
def test_the_demo_moves_one_campaign_because_it_pays_and_keeps_three() -> None:
    run("plan", "--sql", str(demo.QUERIES / "untrained.sql"), "--no-sync", "--to", "plan.jsonl")
    lines = [json.loads(line) for line in Path("plan.jsonl").read_text().splitlines()[1:-1]]
    moved = {line["job"]["name"]: line["job"]["region"] for line in lines if line["move"]}
    assert len(lines) == len(demo.CAMPAIGNS)
    assert moved == {"frankfurt": "us-east-1"}
    (dublin,) = [line for line in lines if line["job"]["name"] == "dublin"]
    assert dublin["verdict"].startswith("stays: moving 210 kB to us-east-1 costs $0.")


def test_the_demo_omits_trained_campaigns_and_shows_their_accuracy_and_dollars(filled: Catalog) -> None:
    row = {"submission": "0a1b2c3d", "job": 0, "attempt": 1, "state": "Completed", "top1": 0.97777, "dollars": 1.2345}
    row |= {"dataset": "dublin", "version": "1", "campaign": "dublin", "region": "eu-west-1"}
    filled.write(lambda connection: upsert(connection, runs, [row]))
    assert (
        run("catalog", "sql", demo.results(), "--output", "csv").splitlines()[1]
        == "dublin,eu-west-1,Completed,0.9778,,1.23"
    )
    manifest = run("manifest", "--sql", str(demo.QUERIES / "untrained.sql"), "--no-sync")
    names = [json.loads(line)["name"] for line in manifest.splitlines() if line.startswith("{")]
    assert names == ["boston", "frankfurt", "seattle"]
