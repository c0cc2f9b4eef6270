"""Our own rules, which the scanners lack: every grid satisfies them, and each rule detects its defects."""

import copy

import pytest

from tests.integration.posture.rule import Defect, Rule
from tests.integration.posture.rules import (
    batch,
    clusters,
    data,
    events,
    generated_names,
    names,
    network,
    permissions,
    queues,
    roles,
)
from tests.integration.posture.synthesised import Synthesised, synthesised

RULES = (
    *batch.RULES,
    *queues.RULES,
    *network.RULES,
    *events.RULES,
    *data.RULES,
    *names.RULES,
    *generated_names.RULES,
    *permissions.RULES,
    *roles.RULES,
    *clusters.RULES,
)
DEFECTS = [
    pytest.param(rule, defect, id=f"{rule.name}-{number}")
    for rule in RULES
    for number, defect in enumerate(rule.defects, 1)
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_grid_satisfies_the_rule(made: Synthesised, rule: Rule) -> None:
    assert list(rule.check(made)) == []


@pytest.mark.parametrize(("rule", "defect"), DEFECTS)
def test_a_defect_breaks_the_rule(rule: Rule, defect: Defect) -> None:
    broken = copy.deepcopy(synthesised("two Regions"))
    defect(broken)
    assert list(rule.check(broken)), "the rule does not see the defect"


def test_every_rule_has_a_defect() -> None:
    assert [rule.name for rule in RULES if not rule.defects] == []
