"""`traingrid prices refresh` with the price lists of localcloud, on SQLite and on a real PostgreSQL."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import select

from localcloud.credentials.environments import user_environment
from localcloud.pricing import price_lists
from localcloud.pricing.products import price_list
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from traingrid.catalog.database import Catalog
from traingrid.catalog.tables import prices, transfer_prices
from traingrid.cli.main import cli
from traingrid.errors import TraingridError

GRID = """\
name: priced
home: us-east-1
regions: {regions}
images: {{resnet: {{repository: training, tag: "1"}}}}
job: {{image: resnet, instance_type: ml.g5.xlarge}}
instance_types: [{types}]
"""
TODAY = datetime.now(UTC).date()


@pytest.fixture(scope="module", autouse=True)
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with (
        LocalCloud(Settings(data_dir=tmp_path_factory.mktemp("prices"))) as running,
        pytest.MonkeyPatch.context() as env,
    ):
        for name, value in user_environment(running.endpoint_url).items():
            env.setenv(name, value)
        yield running


@pytest.fixture(autouse=True)
def named(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog of the commands."""
    monkeypatch.setenv("TRAINGRID_CATALOG", url)


def refresh(folder: Path, regions: str, types: str = "") -> Result:
    grid = folder / "grid.yaml"
    grid.write_text(GRID.format(regions=regions, types=types))
    return CliRunner().invoke(cli, ["--grid", str(grid), "prices", "refresh"])


def rows(catalog: Catalog, table: Any) -> list[dict[str, Any]]:
    with catalog.read_only() as connection:
        return [dict(row) for row in connection.execute(select(table).order_by(*table.primary_key)).mappings()]


def test_prices_of_the_grids_regions_and_types_are_written(catalog: Catalog, tmp_path: Path) -> None:
    result = refresh(tmp_path, "{us-east-1: {}, eu-west-1: {}}", "ml.m5.large")
    assert result.exit_code == 0, result.exception
    found = {(row["region"], row["instance_type"], row["purchase_option"]): row for row in rows(catalog, prices)}
    assert {key: round(row["dollars_per_hour"], 4) for key, row in found.items()} == {
        ("us-east-1", "ml.g5.xlarge", "on_demand"): 1.4,
        ("us-east-1", "ml.g5.xlarge", "spot"): 0.49,
        ("us-east-1", "ml.m5.large", "on_demand"): 0.12,
        ("us-east-1", "ml.m5.large", "spot"): 0.042,
        ("eu-west-1", "ml.g5.xlarge", "on_demand"): 1.554,
        ("eu-west-1", "ml.g5.xlarge", "spot"): 0.5439,
        ("eu-west-1", "ml.m5.large", "on_demand"): 0.1332,
        ("eu-west-1", "ml.m5.large", "spot"): 0.0466,
    }
    assert {row["as_of"] for row in found.values()} == {TODAY}
    assert found["us-east-1", "ml.g5.xlarge", "on_demand"]["source"].startswith("AmazonSageMaker ")
    assert found["us-east-1", "ml.g5.xlarge", "spot"]["source"].startswith("estimate: EC2 spot price of g5.xlarge")
    assert "8 prices and 2 transfer prices" in result.output
    assert "no price" not in result.output


def test_transfer_prices_depend_on_the_source_region(catalog: Catalog, tmp_path: Path) -> None:
    assert refresh(tmp_path, "{us-east-1: {}, ap-northeast-1: {}}").exit_code == 0
    found = rows(catalog, transfer_prices)
    assert [(row["from_region"], row["to_region"], row["dollars_per_gb"]) for row in found] == [
        ("ap-northeast-1", "us-east-1", 0.09),
        ("us-east-1", "ap-northeast-1", 0.02),
    ]
    assert {row["as_of"] for row in found} == {TODAY}
    assert all(row["source"].startswith("AWSDataTransfer ") for row in found)


def test_missing_prices_are_named_and_the_others_are_written(catalog: Catalog, tmp_path: Path) -> None:
    result = refresh(tmp_path, "{us-east-1: {}, eu-north-1: {}, il-central-1: {}}", "ml.p5.48xlarge")
    assert result.exit_code == 0, result.exception
    named = [line.removeprefix("no price: ") for line in result.output.splitlines() if line.startswith("no price")]
    assert sorted(named) == sorted(
        [
            "eu-north-1 ml.p5.48xlarge on demand: AmazonSageMaker lists no price",
            "eu-north-1 ml.p5.48xlarge spot: EC2 has no spot price of p5.48xlarge",
            "il-central-1 ml.g5.xlarge on demand: AmazonSageMaker lists no price",
            "il-central-1 ml.g5.xlarge spot: EC2 has no spot price of g5.xlarge",
            "il-central-1 ml.p5.48xlarge on demand: AmazonSageMaker lists no price",
            "il-central-1 ml.p5.48xlarge spot: EC2 has no spot price of p5.48xlarge",
            "us-east-1 ml.p5.48xlarge spot: EC2 has no spot price of p5.48xlarge",
            *(f"il-central-1 to {other}: AWSDataTransfer lists no price" for other in ("us-east-1", "eu-north-1")),
            *(f"{other} to il-central-1: AWSDataTransfer lists no price" for other in ("us-east-1", "eu-north-1")),
        ]
    )
    written = {(row["region"], row["instance_type"], row["purchase_option"]) for row in rows(catalog, prices)}
    assert ("us-east-1", "ml.p5.48xlarge", "on_demand") in written
    assert ("eu-north-1", "ml.p5.48xlarge", "on_demand") not in written


def test_a_price_that_is_no_longer_listed_keeps_its_date(catalog: Catalog, tmp_path: Path) -> None:
    earlier = tmp_path / "prices.csv"
    earlier.write_text(
        "region,instance_type,purchase_option,dollars_per_hour,as_of\n"
        "eu-north-1,ml.p5.48xlarge,on_demand,90,2026-01-02\neu-north-1,ml.g5.xlarge,on_demand,9,2026-01-02\n"
    )
    imported = CliRunner().invoke(cli, ["catalog", "import", "prices", str(earlier)])
    assert imported.exit_code == 0, imported.exception
    assert refresh(tmp_path, "{eu-north-1: {}}", "ml.p5.48xlarge").exit_code == 0
    dates = {(row["instance_type"], row["purchase_option"]): row["as_of"] for row in rows(catalog, prices)}
    assert dates["ml.p5.48xlarge", "on_demand"] == date(2026, 1, 2)
    assert dates["ml.g5.xlarge", "on_demand"] == TODAY


def test_a_grid_without_any_price_is_an_error(catalog: Catalog, tmp_path: Path) -> None:
    result = refresh(tmp_path, "{il-central-1: {}}")
    assert isinstance(result.exception, TraingridError)
    assert "AWS lists no price for this grid" in result.exception.what
    assert "il-central-1 ml.g5.xlarge on demand" in result.exception.what
    assert rows(catalog, prices) == []


def test_an_error_in_the_last_price_list_leaves_the_catalog_unchanged(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def undated(service: str) -> Any:
        return [
            {**one, "publicationDate": "soon" if service == "AWSDataTransfer" else one["publicationDate"]}
            for one in price_list(service) or ()
        ]

    monkeypatch.setattr(price_lists, "price_list", undated)
    result = refresh(tmp_path, "{us-east-1: {}, eu-west-1: {}}")
    assert isinstance(result.exception, TraingridError)
    assert "AWSDataTransfer has an unknown form: publicationDate" in result.exception.what
    assert rows(catalog, prices) == []
