"""Which prices are named as old."""

from datetime import date, timedelta

import pytest

from traingrid.catalog.price_age import old_prices

TODAY = date(2026, 11, 23)


def price(age: int, instance_type: str = "ml.g5.xlarge", option: str = "on_demand") -> dict[str, object]:
    return {
        "region": "us-east-1",
        "instance_type": instance_type,
        "purchase_option": option,
        "dollars_per_hour": 1.408,
        "as_of": TODAY - timedelta(days=age),
    }


@pytest.mark.parametrize(("age", "days", "is_old"), [(30, 30, False), (31, 30, True), (-1, 0, False), (1, 0, True)])
def test_a_price_is_old_after_the_given_days(age: int, days: int, is_old: bool) -> None:
    assert bool(old_prices([price(age)], TODAY, days)) == is_old


def test_old_prices_are_named_with_their_day() -> None:
    transfer = {"from_region": "us-east-1", "to_region": "us-west-2", "dollars_per_gb": 0.02, "as_of": date(2026, 1, 1)}
    assert old_prices([price(60), price(3, "ml.m5.large"), transfer, price(31, option="spot")], TODAY) == [
        "transfer from us-east-1 to us-west-2, $0.02/GB: of 2026-01-01, 326 days old",
        "us-east-1 ml.g5.xlarge on demand, $1.408/h: of 2026-09-24, 60 days old",
        "us-east-1 ml.g5.xlarge spot, $1.408/h: of 2026-10-23, 31 days old",
    ]
