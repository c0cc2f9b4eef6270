"""`traingrid cost`, on SQLite and on a real PostgreSQL."""

import csv
import io
from datetime import UTC, datetime
from typing import Any

import pytest
from click.testing import CliRunner, Result

from traingrid.catalog.batches import upsert
from traingrid.catalog.database import Catalog
from traingrid.catalog.tables import runs, transfers
from traingrid.cli.main import cli

RUN: dict[str, Any] = {
    "submission": "0a1b2c3d",
    "job": 0,
    "attempt": 1,
    "name": "day1",
    "campaign": "oslo",
    "dataset": "day1",
    "region": "us-east-1",
    "instance_type": "ml.p3.16xlarge",
    "instances": 2,
    "billable_seconds": 1800,
    "estimated_dollars": 8.0,
    "actual_dollars": 7.5,
    "orchestration_dollars": 0.01,
    "tags": {"team": "vision"},
    "opened_at": datetime(2026, 11, 1, tzinfo=UTC),
}
RUNS = [
    RUN,
    {**RUN, "attempt": 2, "region": "eu-west-1", "estimated_dollars": None, "actual_dollars": 2.5},
    {**RUN, "job": 1, "name": "day2", "campaign": "lima", "dataset": "day2", "actual_dollars": 40.0, "tags": {}},
    {**RUN, "submission": "11111111", "estimated_dollars": None, "actual_dollars": None},
]


@pytest.fixture
def filled(catalog: Catalog, url: str) -> str:
    catalog.write(lambda connection: upsert(connection, runs, RUNS))
    return url


def cost(url: str, *words: str) -> Result:
    return CliRunner().invoke(cli, ["cost", "--no-sync", "--catalog", url, *words])


def table(url: str, by: str, *words: str) -> dict[str, tuple[int, int, float, float, float]]:
    """Return jobs, runs, hours, estimated and total dollars by group, in the order of the output."""
    found = csv.DictReader(io.StringIO(cost(url, "--output", "csv", "--by", by, *words).stdout))
    return {
        row[by]: (int(row["jobs"]), int(row["runs"]), *(float(row[name]) for name in ("hours", "estimated", "total")))  # type: ignore[misc]  # mypy does not count unpacked values
        for row in found
    }


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("submission", {"0a1b2c3d": (2, 3, 3.0, 16.0, 50.03), "11111111": (1, 1, 1.0, 0.0, 0.01)}),
        ("campaign", {"lima": (1, 1, 1.0, 8.0, 40.01), "oslo": (2, 3, 3.0, 8.0, 10.03)}),
        ("region", {"us-east-1": (3, 3, 3.0, 16.0, 47.53), "eu-west-1": (1, 1, 1.0, 0.0, 2.51)}),
        ("tag:team", {"": (1, 1, 1.0, 8.0, 40.01), "vision": (2, 3, 3.0, 8.0, 10.03)}),
        (
            "job",
            {
                "0a1b2c3d 1 day2": (1, 1, 1.0, 8.0, 40.01),
                "0a1b2c3d 0 day1": (1, 2, 2.0, 8.0, 10.02),
                "11111111 0 day1": (1, 1, 1.0, 0.0, 0.01),
            },
        ),
    ],
)
def test_costs_are_grouped_and_sorted(filled: str, by: str, expected: dict[str, tuple[float, ...]]) -> None:
    found = table(filled, by)
    assert list(found) == list(expected)
    assert found == {name: pytest.approx(figures) for name, figures in expected.items()}


def test_costs_of_a_campaign_or_submission(filled: str) -> None:
    assert list(table(filled, "region", "--campaign", "lima")) == ["us-east-1"]
    assert table(filled, "submission", "--submission", "11111111") == {"11111111": (1, 1, 1.0, 0.0, 0.01)}


def test_runs_without_a_price_are_named(filled: str) -> None:
    assert "1 run without a price in the catalog" in cost(filled).stderr
    assert "without a price" not in cost(filled, "--submission", "0a1b2c3d").stderr


def test_hours_on_eks_are_not_billed_and_need_no_price(catalog: Catalog, url: str) -> None:
    on_eks = {**RUN, "purchase_option": "eks", "estimated_dollars": None, "actual_dollars": None}
    catalog.write(lambda connection: upsert(connection, runs, [on_eks]))
    assert table(url, "submission") == {"0a1b2c3d": (1, 1, 0.0, 0.0, 0.01)}
    assert "without a price" not in cost(url).stderr


def test_the_table_shows_dollars(filled: str) -> None:
    lines = cost(filled, "--by", "campaign").stdout.splitlines()
    assert lines[0].split()[4:] == ["actual", "transfer", "orchestration", "estimated", "total"]
    assert lines[1].split() == ["lima", "1", "1", "1.00", "$40.00", "$0.00", "$0.01", "$8.00", "$40.01"]


TRANSFER = {"target": "s3://b/copies/day1", "submission": "0a1b2c3d", "job": 0, "to_region": "us-east-1", "bytes": 9}
TRANSFERS = [
    {**TRANSFER, "dollars": 10.24},
    {**TRANSFER, "target": "s3://b/copies/day2", "submission": "11111111", "to_region": "eu-north-1", "dollars": 2.0},
    {**TRANSFER, "submission": "11111111", "dollars": None},
    {**TRANSFER, "submission": "22222222", "dollars": 99.0},  # of a job that has no run
]


@pytest.fixture
def copied(catalog: Catalog, filled: str) -> str:
    catalog.write(lambda connection: upsert(connection, transfers, TRANSFERS))
    return filled


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("submission", {"0a1b2c3d": 10.24, "11111111": 2.0}),
        ("campaign", {"lima": 0.0, "oslo": 12.24}),
        ("region", {"us-east-1": 12.24, "eu-west-1": 0.0}),
        ("job", {"0a1b2c3d 1 day2": 0.0, "0a1b2c3d 0 day1": 10.24, "11111111 0 day1": 2.0}),
    ],
)
def test_transfers_are_part_of_the_cost_of_the_job_that_copied(
    copied: str, by: str, expected: dict[str, float]
) -> None:
    found = list(csv.DictReader(io.StringIO(cost(copied, "--output", "csv", "--by", by).stdout)))
    assert {row[by]: float(row["transfer"]) for row in found} == expected
    for row in found:
        parts = (float(row[name]) for name in ("actual", "transfer", "orchestration"))
        assert float(row["total"]) == pytest.approx(sum(parts))


def test_transfers_without_a_price_are_named(copied: str) -> None:
    assert "1 transfer without a price in the catalog" in cost(copied).stderr
    assert "transfer without" not in cost(copied, "--campaign", "lima").stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--by", "colour"), "Costs have no group colour"),
        (("--by", "tag:"), "Costs have no group tag:"),
        (("--campaign", "paris"), "The catalog has no such runs"),
    ],
)
def test_bad_options_are_refused(filled: str, words: tuple[str, ...], reason: str) -> None:
    assert reason in str(cost(filled, *words).exception)
