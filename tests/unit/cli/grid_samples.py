"""Samples of commands that show the grid and the catalog."""

from datetime import date
from types import SimpleNamespace
from typing import Any

from tests.unit.cli.command_samples import BUCKET, NOW, Replace, Sample, replace_plane, returns
from traingrid.audit.copies import UnneededCopy
from traingrid.catalog.costs import Cost
from traingrid.deploy.checkup.finding import Finding, Verdict
from traingrid.deploy.retained import Retained
from traingrid.ledger.datasets import DatasetItem, Replica
from traingrid.ledger.grid_items import Pause
from traingrid.ledger.moves import MoveItem


def _grid(replace: Replace, module: str, **more: Any) -> None:
    grid = SimpleNamespace(name="tg", home="us-east-1", regions={}, other_accounts=returns({}), account=None)
    more = {"load_grid": grid, "caller": ("123456789012", "arn:user")} | more
    for name, value in more.items():
        replace(f"traingrid.cli.{module}.{name}", returns(value))


def _retained(replace: Replace) -> None:
    resources = [
        Retained(
            region="us-east-1", kind="bucket", name=BUCKET, holds="data", gigabytes=12.345, dollars=0.28, remove="rb"
        ),
        Retained(region="us-east-1", kind="key", name="arn:key", holds="encryption", dollars=1.0, remove="aws kms"),
        Retained(region="eu-west-1", kind="table", name="tg-ledger", holds="ledger", remove="aws dynamodb"),
    ]
    left = [
        Finding(
            region="eu-west-1", subject="stack tg-old", verdict=Verdict.WRONG, reason="old", fix="aws cloudformation"
        ),
        Finding(region="eu-west-1", subject="stack tg-good", verdict=Verdict.GOOD),
    ]
    _grid(replace, "retained", periodic_client=None, kept=resources, left_stacks=left, is_there=False)


def _doctor(replace: Replace) -> None:
    findings = [
        Finding(subject="credentials", verdict=Verdict.GOOD, reason="valid"),
        Finding(region="eu-west-1", subject="quota [x]", verdict=Verdict.UNKNOWN, reason="denied " * 20),
    ]
    _grid(replace, "doctor", check_up=findings, needs_of=None)


def _prices(replace: Replace) -> None:
    row = {"region": "us-east-1", "instance_type": "ml.m5.large", "as_of": date(2026, 1, 2), "source": "list"}
    rows = [
        row | {"purchase_option": option, "dollars_per_hour": dollars}
        for option, dollars in (("on_demand", 0.115), ("spot", 0.04))
    ]
    rows.append(rows[0] | {"region": "eu-west-1"})
    _grid(replace, "prices", existing_catalog=None)
    read = SimpleNamespace(prices=rows, transfers=[], missing=["ml.x"])
    replace("traingrid.catalog.refresh_prices.read_prices", returns(read))
    replace("traingrid.catalog.refresh_prices.write_prices", returns(None))
    replace("traingrid.cli.prices.datetime", SimpleNamespace(now=returns(NOW)))


def _capacity(replace: Replace) -> None:
    row = {"region": "us-east-1", "instance_type": "ml.m5.large", "instances": 4, "as_of": date(2026, 1, 2)}
    quotas = [row | {"purchase_option": option, "training_plan": ""} for option in ("on_demand", "spot")]
    plans = [row | {"purchase_option": "plan", "training_plan": "arn:plan/p-1", "starts_at": NOW, "ends_at": None}]
    needs = [SimpleNamespace(region="us-east-1", instance_type="ml.m5.large", spot=False, all_jobs_instances=2)]
    _grid(replace, "capacity", existing_catalog=None, needs_of=SimpleNamespace(instances=needs))
    read = SimpleNamespace(quotas=quotas, plans=plans, problems=["eu-west-1"])
    replace("traingrid.catalog.refresh_capacity.read_capacity", returns(read))
    replace("traingrid.catalog.refresh_capacity.write_capacity", returns(None))
    replace("traingrid.cli.capacity.datetime", SimpleNamespace(now=returns(NOW)))


def _cost(replace: Replace) -> None:
    cost = Cost(jobs={("s", 0), ("s", 1)}, runs=3, billable_hours=1234.567, actual=98765.43219, orchestration=0.001)
    replace("traingrid.cli.cost.existing_catalog", returns(None))
    replace("traingrid.catalog.costs.costs", returns({"oslo [x]": cost, "=1": Cost(unpriced=1, transfer=0.5)}))


def _datasets(replace: Replace) -> None:
    replicas = {
        region: Replica(uri=f"s3://{region}/digits", registered_at="2026-01-02T03:04:05Z")
        for region in ("us-east-1", "eu-west-1")
    }
    item = DatasetItem(
        dataset="digits",
        version="2",
        bytes=1_234_567,
        objects=12_345,
        campaign="oslo",
        attributes={},
        replicas=replicas,
        rules={"b": "us-east-1", "a": "us-east-1"},
        pending=("b",),
    )
    deployment = SimpleNamespace(table="t", grid=SimpleNamespace(home="us-east-1"))
    replace("traingrid.cli.datasets.find_deployment", returns(deployment))
    replace("traingrid.cli.datasets.Datasets", returns(SimpleNamespace(all=returns([item]))))


def _prune(replace: Replace) -> None:
    item = MoveItem(target=f"{BUCKET}/copies/x", source="s3://dublin/x", region="us-east-1", from_region="eu-west-1")
    replace_plane(replace)
    replace(
        "traingrid.cli.prune.found_copies", returns([UnneededCopy(item=item, bytes=5 * 10**12, reason="no job [x]")])
    )


def _pause(replace: Replace) -> None:
    recorded = Pause(at="2026-01-02T03:04:05Z", by="me", reason="=1")
    ledger = SimpleNamespace(set_launching=returns(None), pause=returns(recorded))
    replace_plane(replace, ledger=ledger, caller=returns("me"))


def _resume(replace: Replace) -> None:
    ledger = SimpleNamespace(set_launching=returns(None), pause=returns(None))
    replace_plane(replace, ledger=ledger, caller=returns("me"))


GRID_SAMPLES: dict[str, Sample] = {
    "retained": (_retained, ["retained"]),
    "doctor": (_doctor, ["doctor"]),
    "prices_refresh": (_prices, ["prices", "refresh"]),
    "capacity_refresh": (_capacity, ["capacity", "refresh"]),
    "cost": (_cost, ["cost", "--no-sync", "--by", "campaign"]),
    "datasets": (_datasets, ["datasets"]),
    "data_prune": (_prune, ["data", "prune"]),
    "pause": (_pause, ["pause", "--reason", "x"]),
    "resume": (_resume, ["resume"]),
}
