"""Orchestration cost: the cost that a child reports at its end."""

import pytest

from traingrid.child.cost import dollars, sentence
from traingrid.grid.orchestrator import Orchestrator


def test_a_child_costs_its_processor_its_memory_and_its_address_by_the_second() -> None:
    assert dollars(Orchestrator(), 3600) == pytest.approx(0.25 * 0.04048 + 0.5 * 0.004445 + 0.005)
    assert dollars(Orchestrator(vcpu=1.0, memory_mib=2048), 7200) == pytest.approx(2 * (0.04048 + 2 * 0.004445 + 0.005))


def test_less_than_a_minute_is_billed_as_a_minute() -> None:
    assert dollars(Orchestrator(), 1) == dollars(Orchestrator(), 60) < dollars(Orchestrator(), 61)


def test_the_cost_sentence_has_size_time_price_and_date() -> None:
    text = sentence(Orchestrator(), 3600)
    assert "0.25 vCPU, 512 MiB and an address for 3600 s: $0.017343" in text
    assert "$0.04048 per vCPU-hour" in text
    assert "March 2026" in text
