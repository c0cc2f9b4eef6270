"""The cost of an idle grid is as documented in docs/costs.md."""

import re
from typing import Any

import pytest

from bench.idle_cost import KINDS, REGIONS, a_grid, idle, synthesised
from tests.integration.stacks.templates import ROOT
from traingrid.deploy import prices
from traingrid.reconciler.pass_report import PassReport

AIM = 5.00
"""Dollars per month."""
PAGE = (ROOT / "docs" / "costs.md").read_text()


def total(templates: Any) -> float:
    return sum(item.dollars for item in idle(templates))


@pytest.fixture(scope="module")
def months() -> dict[tuple[str, int], float]:
    """Dollars per month, by kind of grid and number of Regions."""
    return {
        (kind, regions): total(synthesised(a_grid(regions, settings)))
        for kind, settings in KINDS.items()
        for regions in (1, 4, 12)
    }


def test_an_idle_default_grid_costs_less_than_the_target(
    months: dict[tuple[str, int], float],
) -> None:
    assert {regions: months["default settings", regions] < AIM for regions in (1, 4, 12)} == {
        1: True,
        4: True,
        12: True,
    }
    assert len(REGIONS) >= 12


def test_the_page_contains_the_table(months: dict[tuple[str, int], float]) -> None:
    written = {
        (kind, regions): float(figure)
        for kind in KINDS
        for row in re.findall(rf"^\| {re.escape(kind)} \|([^\n]+)\|$", PAGE, re.MULTILINE)
        for regions, figure in zip((1, 4, 12), re.findall(r"\$([\d.]+)", row), strict=True)
    }
    assert written == {place: pytest.approx(dollars, abs=0.006) for place, dollars in months.items()}


def test_clusters_of_eks_add_nothing(months: dict[tuple[str, int], float]) -> None:
    clusters = {region: {"eks": {"cluster": "research"}} for region in REGIONS[:4]}
    with_clusters = synthesised(a_grid(4, {"regions": clusters}))
    assert [one for one in with_clusters.values() if "AWS::EKS::AccessEntry" in str(one)]
    assert total(with_clusters) == months["default settings", 4]


def test_the_page_names_every_price_and_its_source() -> None:
    used = {item.price for item in idle(synthesised(a_grid(4, {"encryption": "kms", "network": "private"})))}
    assert {price.source for price in used if price.source not in PAGE} == set()


def resource(kind: str, **properties: Any) -> Any:
    return {"stack": {"Resources": {"R": {"Type": kind, "Properties": properties}}}}


def counted(templates: Any, price: prices.UnitPrice) -> float:
    return sum(item.count for item in idle(templates) if item.price == price)


def test_an_alarm_costs_per_metric() -> None:
    looks: dict[str, Any] = {"MetricStat": {}}
    alarm = "AWS::CloudWatch::Alarm"
    assert counted(resource(alarm, MetricName="Errors"), prices.ALARM) == 1
    assert counted(resource(alarm, Metrics=[looks, looks, {"Expression": "a + b"}]), prices.ALARM) == 2


def test_interface_endpoints_cost_per_zone_and_gateway_endpoints_nothing() -> None:
    kind, subnets = "AWS::EC2::VPCEndpoint", ["a", "b"]
    assert counted(resource(kind, VpcEndpointType="Interface", SubnetIds=subnets), prices.ENDPOINT) == 2
    assert counted(resource(kind, VpcEndpointType="Gateway"), prices.ENDPOINT) == 0


def test_only_a_private_network_with_other_regions_pays_for_a_gateway() -> None:
    private = KINDS["network: private"]
    of = {regions: synthesised(a_grid(regions, private)) for regions in (1, 2)}
    assert {regions: counted(templates, prices.NAT_GATEWAY) for regions, templates in of.items()} == {1: 0, 2: 1}


def test_an_idle_grid_publishes_two_metrics_and_a_busy_one_all() -> None:
    assert len(PassReport().measured()) == 2
    busy = PassReport(running=1)
    assert busy.measured() == busy.counts()
    assert counted({}, prices.CUSTOM_METRIC) == 2
