"""`traingrid capacity refresh` with quotas and training plans of localcloud, on SQLite and on a real PostgreSQL."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import select

from localcloud.credentials.environments import user_environment
from localcloud.limits.account_limits import find_quota
from localcloud.sagemaker.backend import TrainingBackend
from localcloud.sagemaker.training_plans import Plan
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from traingrid.aws.clients import renew
from traingrid.catalog.database import Catalog
from traingrid.catalog.tables import capacity
from traingrid.cli.main import cli
from traingrid.errors import TraingridError

ACCOUNT, OTHER = "123456789012", "210987654321"
GRID = """\
name: counted
home: us-east-1
account: "123456789012"
regions: {regions}
images: {{resnet: {{repository: training, tag: "1"}}}}
job: {{image: resnet, instance_type: ml.g5.xlarge, instance_count: 2}}
instance_types: [ml.p5.48xlarge]
"""
TODAY = datetime.now(UTC).date()


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A localcloud with the quotas of a new account, and 8 instances of ml.g5.xlarge for training in us-east-1."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("capacity"), account_profile="young")
    with LocalCloud(settings) as running:
        quota = find_quota("sagemaker", "ml.g5.xlarge for training job usage")
        running.limits.set(ACCOUNT, quota, 8, "us-east-1")
        yield running


@pytest.fixture(autouse=True)
def user(cloud: LocalCloud, url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A user of the account, and the catalog of the commands."""
    for name, value in user_environment(cloud.endpoint_url).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TRAINGRID_CATALOG", url)
    monkeypatch.setenv("COLUMNS", "200")
    for known in (one for region in ("us-east-1", "us-west-2") for one in TrainingBackend.plans.of(ACCOUNT, region)):
        TrainingBackend.plans.put(known.model_copy(update={"instances": 0}))  # the plan of another test
    renew()
    yield
    renew()


def refresh(folder: Path, regions: str = "{us-east-1: {}}", *words: str) -> Result:
    grid = folder / "grid.yaml"
    grid.write_text(GRID.format(regions=regions))
    return CliRunner().invoke(cli, ["--grid", str(grid), "capacity", "refresh", *words])


def rows(catalog: Catalog) -> list[dict[str, Any]]:
    with catalog.read_only() as connection:
        return [dict(row) for row in connection.execute(select(capacity).order_by(*capacity.primary_key)).mappings()]


def plan(name: str, *, starts: float = -1, ends: float = 1, **others: Any) -> str:
    now = datetime.now(UTC).replace(microsecond=0)
    hours = {"starts_at": now + timedelta(hours=starts), "ends_at": now + timedelta(hours=ends)}
    asked = {"region": "us-east-1", "name": name, "instance_type": "ml.p5.48xlarge", "instances": 4, **hours, **others}
    made = Plan.model_validate(asked)
    TrainingBackend.plans.put(made)
    return made.arn


def test_quotas_of_allowed_types_are_written_for_both_options(catalog: Catalog, tmp_path: Path) -> None:
    result = refresh(tmp_path, "{us-east-1: {}, us-west-2: {}}")
    assert result.exit_code == 0, result.exception
    found = {(row["region"], row["instance_type"], row["purchase_option"]): row for row in rows(catalog)}
    assert len(found) == 8
    assert found["us-east-1", "ml.g5.xlarge", "on_demand"]["instances"] == 8
    assert found["us-east-1", "ml.g5.xlarge", "spot"]["instances"] == 0
    assert found["us-west-2", "ml.g5.xlarge", "on_demand"]["instances"] == 0
    assert {row["as_of"] for row in found.values()} == {TODAY}
    assert all(row["source"].startswith("Service Quotas L-") for row in found.values())
    assert {row["training_plan"] for row in found.values()} == {""}


def test_granted_instances_are_printed_beside_needed_ones(catalog: Catalog, tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.csv"
    manifest.write_text(
        "region,s3_uri,instance_count,spot\n"
        "us-east-1,s3://counted-data-123456789012-us-east-1/a,3,\n"
        "us-east-1,s3://counted-data-123456789012-us-east-1/b,4,\n"
        "us-east-1,s3://counted-data-123456789012-us-east-1/c,5,true\n"
    )
    lines = refresh(tmp_path, "{us-east-1: {}}", str(manifest)).output.splitlines()
    cells = {tuple(line.split()[1:3]): line.split()[3:] for line in lines if line.startswith("us-east-1")}
    assert cells["ml.g5.xlarge", "on_demand"] == ["8", "7"]
    assert cells["ml.g5.xlarge", "spot"] == ["0", "5"]
    default = refresh(tmp_path).output.splitlines()
    assert any(line.split() == ["us-east-1", "ml.g5.xlarge", "on_demand", "8", "2"] for line in default)


def test_usable_plans_are_written_with_their_times(catalog: Catalog, tmp_path: Path) -> None:
    now, later = plan("now"), plan("later", starts=2, ends=3, instances=6)
    plan("over", starts=-3, ends=-2), plan("bad", failed=True), plan("cluster", target="hyperpod-cluster")
    assert "2 training plans" in refresh(tmp_path).output
    found = {row["training_plan"]: row for row in rows(catalog) if row["training_plan"]}
    assert found.keys() == {now, later}
    assert (found[now]["instances"], found[later]["instances"]) == (4, 6)
    assert found[now]["instance_type"] == "ml.p5.48xlarge"
    # A second may begin between the two plans.
    assert found[later]["starts_at"] - found[now]["starts_at"] - timedelta(hours=3) in (
        timedelta(0),
        timedelta(seconds=1),
    )
    assert found[now]["source"] == "SageMaker ListTrainingPlans, Active"


def test_plans_that_have_ended_or_are_gone_are_deleted(catalog: Catalog, tmp_path: Path) -> None:
    kept, ended, gone = plan("kept"), plan("ended"), plan("gone")
    refresh(tmp_path)
    assert {row["training_plan"] for row in rows(catalog)} == {"", kept, ended, gone}
    plan("ended", starts=-3, ends=-2), plan("gone", instances=0)
    refresh(tmp_path)
    assert {row["training_plan"] for row in rows(catalog)} == {"", kept}


def test_rows_of_other_regions_and_imported_plans_remain(catalog: Catalog, tmp_path: Path) -> None:
    west = plan("west", region="us-west-2")
    refresh(tmp_path, "{us-east-1: {}, us-west-2: {}}")
    imported = tmp_path / "capacity.csv"
    imported.write_text(
        "region,instance_type,purchase_option,training_plan,instances,as_of\n"
        "us-east-1,ml.p5.48xlarge,on_demand,ordered,16,2026-11-01\n"
    )
    assert CliRunner().invoke(cli, ["catalog", "import", "capacity", str(imported)]).exit_code == 0
    refresh(tmp_path, "{us-east-1: {}}")
    assert {row["training_plan"] for row in rows(catalog)} == {"", west, "ordered"}


def test_a_region_that_cannot_be_read_is_named_and_keeps_its_rows(catalog: Catalog, tmp_path: Path) -> None:
    refresh(tmp_path, "{us-east-1: {}, us-west-2: {}}")
    before = [row for row in rows(catalog) if row["region"] == "us-west-2"]
    assert len(before) == 4
    result = refresh(tmp_path, f'{{us-east-1: {{}}, us-west-2: {{account: "{OTHER}"}}}}')
    assert result.exit_code == 0, result.exception
    (named,) = [line for line in result.output.splitlines() if line.startswith("not read")]
    assert "us-west-2" in named
    assert "sts:AssumeRole" in named
    assert [row for row in rows(catalog) if row["region"] == "us-west-2"] == before


def test_a_grid_of_which_nothing_can_be_read_is_an_error(catalog: Catalog, tmp_path: Path) -> None:
    result = refresh(tmp_path, f'{{us-west-2: {{account: "{OTHER}"}}}}')
    assert isinstance(result.exception, TraingridError)
    assert "the catalog was not changed" in result.exception.what
    assert rows(catalog) == []
