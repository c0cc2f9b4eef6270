"""Rounds: which roles IAM allows to read the data of another Region, in the grids that rounds need."""

from collections.abc import Callable
from typing import Any

import pytest

from localcloud.iam.evaluation import verdict as localcloud_verdict
from tests.integration.policies.case import ALLOWED, IMPLICITLY, Case
from tests.integration.policies.grid import ACCOUNT, FREE, INSIDE, documents, the_templates
from tests.integration.policies.matrix import of_pairs
from tests.integration.stacks.templates import a_grid

Verdict = Callable[[str, dict[str, Any]], dict[str, str]]
STAYS = {region: {"residency": [region]} for region in (INSIDE, FREE)}


def data(region: str) -> str:
    return f"arn:aws:s3:::traingrid-data-{ACCOUNT}-{region}/campaign/train/a.tfrecord"


@pytest.fixture(scope="module")
def verdict(tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    """Return the simulator's verdicts on a role's reads of data, by Region, in a grid with these Regions."""
    layer = tmp_path_factory.mktemp("rounds") / "layer"
    (layer / "python").mkdir(parents=True)

    def verdicts(role: str, regions: dict[str, Any]) -> dict[str, str]:
        policies = documents(the_templates(layer, a_grid(regions, moves=True)), role)
        cases = [Case(role=role, phrase="read", action="s3:GetObject", resource=data(name)) for name in (INSIDE, FREE)]
        simulated = of_pairs([(case, policies) for case in cases])
        assert simulated == [localcloud_verdict(policies, case.action, case.resource, {}) for case in cases]
        return dict(zip((INSIDE, FREE), simulated, strict=True))

    return verdicts


def test_a_training_or_a_merge_reads_only_the_data_of_its_region(verdict: Verdict) -> None:
    """Both run with the execution role of their Region, here that of `INSIDE`."""
    assert verdict("training job", {INSIDE: {}, FREE: {}}) == {INSIDE: ALLOWED, FREE: IMPLICITLY}


def test_a_child_reads_no_data_that_must_stay_in_its_region(verdict: Verdict) -> None:
    assert verdict("child", STAYS) == {INSIDE: IMPLICITLY, FREE: IMPLICITLY}


def test_a_child_may_read_data_that_moves_may_copy(verdict: Verdict) -> None:
    """The limit that docs/rounds.md states: rounds need `moves`, and no residency that keeps models in a Region."""
    assert verdict("child", {INSIDE: {}, FREE: {}}) == {INSIDE: ALLOWED, FREE: ALLOWED}
