"""Whole check-up: what `doctor` reports about a grid without asking AWS."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.sample_deployment import sample_deployment
from traingrid.deploy.checkup import account, whole
from traingrid.deploy.checkup.finding import Verdict
from traingrid.grid.confinement import NEXT_STEP, RULE
from traingrid.grid.model import GridSettings

DUBLIN, FRANKFURT = "eu-west-1", "eu-central-1"


@pytest.mark.parametrize(
    ("training", "dublin", "reported"),
    [
        ({}, {}, [DUBLIN, FRANKFURT]),
        ({}, {"subnets": ["subnet-0123abcd", "subnet-89abcdef"], "security_groups": ["sg-0123abcd"]}, [FRANKFURT]),
        ({"network_isolation": True}, {}, []),
    ],
)
def test_doctor_reports_a_residency_that_does_not_bind_training_code(
    monkeypatch: pytest.MonkeyPatch, training: dict[str, Any], dublin: dict[str, Any], reported: list[str]
) -> None:
    monkeypatch.setattr(whole, "left_stacks", lambda *_: [])
    monkeypatch.setattr(account, "switched_on", lambda *_: [])
    sample = sample_deployment().grid.model_dump(exclude_defaults=True)
    sample["regions"][DUBLIN] |= {"residency": ["eu"], **dublin}
    sample["regions"][FRANKFURT] |= {"residency": ["eu"]}
    grid = GridSettings.model_validate(sample | {"account": "123456789012", "training": training})
    needs: Any = SimpleNamespace(instances=[], clusters=[])
    findings = [found for found in whole.check_up(grid, "210987654321", needs) if found.subject == "residency"]
    assert [found.region for found in findings] == reported
    for found in findings:
        assert (found.verdict, found.reason, found.fix) == (Verdict.UNKNOWN, RULE, NEXT_STEP)
