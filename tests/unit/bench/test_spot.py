"""The benchmark of the spot decision: its capacity, its bound, and the page and plot of its results."""

from statistics import fmean
from xml.etree import ElementTree as ET

import pytest

from bench import results_file
from bench.machine import CHECKOUT
from bench.spot import synthetic
from bench.spot.plot import svg
from bench.spot.rules import RULES
from bench.spot.simulator import PRICE, Job, Run, lower_bound
from docs_site import spot_page

HOUR = 3600.0
SHARES = {"us-east-1": 0.713, "us-east-2": 0.806, "us-west-2": 0.961}
"""The share of the time with capacity in any zone of a Region, in the public traces."""


def job(hours: float, deadline: float, gap: float = 600.0) -> Job:
    return Job(work=hours * HOUR, deadline=deadline * HOUR, restart=600.0, gap=gap)


@pytest.mark.parametrize("region", SHARES)
def test_the_synthetic_capacity_has_the_share_of_the_traces(region: str) -> None:
    capacity = synthetic.capacity(region, synthetic.REGIONS[region])
    assert capacity == synthetic.capacity(region, synthetic.REGIONS[region])
    assert fmean(capacity) == pytest.approx(SHARES[region], abs=0.05)


def test_the_bound_uses_all_capacity_until_the_deadline() -> None:
    capacity = bytes([1, 0] * 30)
    assert lower_bound(job(4, 4), [capacity]) == pytest.approx((1 + PRICE) / 2)
    assert lower_bound(job(4, 4), [capacity, bytes([0, 1] * 30)]) == pytest.approx(PRICE)
    assert lower_bound(job(4, 9), [capacity]) == pytest.approx(PRICE)


@pytest.mark.parametrize("name", RULES)
def test_each_rule_pays_the_price_of_the_instances_that_it_uses(name: str) -> None:
    always = Run(job=job(4, 12), capacity=[bytes([1] * 200)], measured=RULES[name], rule=RULES[name].rule(job(4, 12)))
    restarts = 1 + 600 / (4 * HOUR)
    price = 1.0 if name == "on_demand" else PRICE
    outcome = always.run()
    assert (outcome.is_late, outcome.starts, outcome.moves) == (False, 1, 0)
    assert outcome.cost == pytest.approx(price * restarts)


def test_a_move_costs_its_transfer_and_a_return_two_restarts() -> None:
    line = job(4, 12)
    places = [bytes([1] * 6 + [0] * 200), bytes([1] * 200)]
    outcome = Run(job=line, capacity=places, measured=RULES["greedy"], rule=RULES["greedy"].rule(line)).run()
    assert (outcome.moves, outcome.starts, outcome.transfer_dollars) == (1, 2, line.transfer_dollars)
    dollars = 4 * line.dollars_per_hour
    seconds = line.work + 2 * line.restart + line.transfer_seconds
    assert outcome.cost == pytest.approx(PRICE * seconds / line.work + line.transfer_dollars / dollars)


def test_the_page_and_the_plot_are_those_of_the_results() -> None:
    text = spot_page.PAGE.read_text()
    assert spot_page.page(text) == text, "run `.venv/bin/python -m docs_site.spot_page`"
    drawing = (CHECKOUT / "docs/spot.svg").read_text()
    assert drawing == svg(results_file.read("spot")["rows"]), "run `.venv/bin/python -m bench.spot.plot`"
    assert ET.fromstring(drawing).tag.endswith("svg")  # our own file
