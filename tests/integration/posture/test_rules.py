"""Our own rules, which the scanners lack: every grid satisfies them, and each rule detects its defects."""

import copy

import pytest

from tests.integration.posture.every_rule import RULES
from tests.integration.posture.rule import Defect, Rule
from tests.integration.posture.synthesised import Synthesised, synthesised
from tests.support.rows import each_row

DEFECTS = [
    pytest.param(rule, defect, id=f"{rule.name}-{number}")
    for rule in RULES
    for number, defect in enumerate(rule.defects, 1)
]


@each_row("rule", ((rule.name, rule) for rule in RULES))
def test_every_grid_satisfies_the_rule(made: Synthesised, rule: Rule) -> None:
    assert list(rule.check(made)) == []


@pytest.mark.parametrize(("rule", "defect"), DEFECTS)
def test_a_defect_breaks_the_rule(rule: Rule, defect: Defect) -> None:
    broken = copy.deepcopy(synthesised("two Regions"))
    defect(broken)
    assert list(rule.check(broken)), "the rule does not see the defect"


def test_every_rule_has_a_defect() -> None:
    assert [rule.name for rule in RULES if not rule.defects] == []
