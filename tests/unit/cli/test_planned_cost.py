"""Sentences of `traingrid submit --plan` about the cost of the jobs."""

from typing import Any

import pytest

from tests.support.sample_job import sample_job
from traingrid.catalog.list_prices import dollars_per_hour, list_prices
from traingrid.catalog.price_snapshot import snapshot_rows
from traingrid.catalog.tables import prices
from traingrid.cli.planned_cost import PRICING_PAGE, cost_sentences
from traingrid.job.job import Job

HOUR = 3600
PRICED = {"instance_type": "ml.m5.xlarge", "instance_count": 2, "max_runtime_seconds": 10 * HOUR}
"""Two instances at $0.23 in us-east-1, and at $0.257 in eu-west-1."""


def job(region: str = "us-east-1", **changes: Any) -> Job:
    return sample_job(region).model_copy(update={**PRICED, **changes})


def test_the_list_prices_are_those_of_the_catalogs_snapshot() -> None:
    rows = [row for row in snapshot_rows(prices) if row["purchase_option"] == "on_demand"]
    found = {key: (price.dollars_per_hour, price.as_of) for key, price in list_prices().items()}
    assert found == {
        (row["region"], row["instance_type"]): (row["dollars_per_hour"], row["as_of"].isoformat()) for row in rows
    }


def test_the_price_per_hour_and_the_most_of_one_attempt_are_summed() -> None:
    (sentence,) = cost_sentences([job(), job("eu-west-1")])
    assert sentence == "Cost: $0.97 an hour, at most $9.74 by max_runtime (list prices of 2023-12-01 to 2026-09-24)"


def test_the_price_that_a_plan_wrote_into_a_line_counts() -> None:
    (sentence,) = cost_sentences([job(dollars_per_hour=5.0)])
    assert sentence == "Cost: $10.00 an hour, at most $100.00 by max_runtime (prices of the lines)"


def test_an_instance_type_without_a_price_is_named_and_not_counted() -> None:
    unpriced = [job(region, instance_type="ml.p4d.24xlarge") for region in ("us-west-2", "af-south-1")]
    cost, unknown, next_step = cost_sentences([job(), *unpriced])
    assert cost == "Cost of 1 job: $0.46 an hour, at most $4.60 by max_runtime (list prices of 2026-09-24)"
    assert unknown == "Cost unknown: ml.p4d.24xlarge in af-south-1, us-west-2"
    assert next_step == f"AWS's prices: {PRICING_PAGE}"


@pytest.mark.parametrize("changes", [{"backends": ("eks", "sagemaker")}, {"training_plan": "arn:aws:x"}])
def test_instances_that_the_team_has_already_cost_nothing_by_use(changes: dict[str, Any]) -> None:
    assert list(cost_sentences([job(**changes)])) == []
    assert dollars_per_hour(job(**changes)) is None
