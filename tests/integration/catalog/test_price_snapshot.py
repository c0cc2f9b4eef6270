"""`traingrid prices import-snapshot`, on SQLite and on a real PostgreSQL."""

import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Table, select

from traingrid.catalog.database import Catalog
from traingrid.catalog.price_snapshot import snapshot_rows
from traingrid.catalog.tables import prices, transfer_prices
from traingrid.cli.main import cli

SOURCE = r"snapshot: .+ in https://(github\.com/[\w.-]+/[\w.-]+/blob/[0-9a-f]{40}|repost\.aws/articles)/\S+"


def command(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


@pytest.fixture(autouse=True)
def _folder(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without grid.yaml and credentials; the commands use the catalog."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRAINGRID_CATALOG", url)


def rows(catalog: Catalog, table: Table) -> list[dict[str, Any]]:
    with catalog.read_only() as connection:
        return [dict(row) for row in connection.execute(select(table).order_by(*table.primary_key)).mappings()]


@pytest.mark.parametrize("table", [prices, transfer_prices], ids=str)
def test_every_price_of_the_snapshot_has_a_day_and_a_public_source(table: Table) -> None:
    shipped = snapshot_rows(table)
    assert shipped
    for row in shipped:
        assert re.fullmatch(SOURCE, row["source"]), row
        assert date(2023, 1, 1) <= row["as_of"] <= datetime.now(UTC).date(), row


def test_the_snapshot_is_imported_without_aws(catalog: Catalog) -> None:
    result = command("prices", "import-snapshot")
    assert result.exit_code == 0, result.exception
    found = rows(catalog, prices)
    key = prices.primary_key.columns.keys()
    assert found == sorted(snapshot_rows(prices), key=lambda row: [row[name] for name in key])
    assert rows(catalog, transfer_prices) == snapshot_rows(transfer_prices)
    (one,) = [row for row in found if (row["region"], row["instance_type"]) == ("us-east-1", "ml.g5.2xlarge")]
    assert (one["dollars_per_hour"], one["as_of"]) == (1.515, date(2026, 8, 20))
    assert re.match(r"27 prices of 2023-12-01 to 2026-09-24 written\nFor the present prices", result.output)


def test_later_prices_and_those_of_the_same_day_are_kept(catalog: Catalog, tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text(
        "region,instance_type,purchase_option,dollars_per_hour,as_of\n"
        "us-east-1,ml.g5.2xlarge,on_demand,7,2026-08-20\n"
        "us-east-1,ml.m5.large,on_demand,8,2026-11-01\n"
        "us-east-1,ml.m5.xlarge,on_demand,9,2026-09-23\n"
        "us-east-1,ml.m5.xlarge,spot,0.1,2020-01-01\n"
    )
    assert command("catalog", "import", "prices", str(file)).exit_code == 0
    result = command("prices", "import-snapshot")
    assert result.exit_code == 0, result.exception
    assert "25 prices of" in result.output
    assert "2 prices not written" in result.output
    found = {
        (row["instance_type"], row["purchase_option"]): row["dollars_per_hour"]
        for row in rows(catalog, prices)
        if row["region"] == "us-east-1"
    }
    assert found["ml.g5.2xlarge", "on_demand"] == 7
    assert found["ml.m5.large", "on_demand"] == 8
    assert found["ml.m5.xlarge", "on_demand"] == 0.23
    assert found["ml.m5.xlarge", "spot"] == 0.1


def test_a_second_import_writes_nothing(catalog: Catalog) -> None:
    assert command("prices", "import-snapshot").exit_code == 0
    first = rows(catalog, prices)
    result = command("prices", "import-snapshot")
    assert "0 prices of" in result.output
    assert "27 prices not written" in result.output
    assert rows(catalog, prices) == first
