"""Mutations: each condition key of the stacks has a claim that is not met with a key that AWS never sends."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import conformance.claims  # noqa: F401 - declares the claims
from conformance.aws import Aws, Place, T
from conformance.claim import CLAIMS, Claim, Outcome
from conformance.local import local_place
from conformance.resources import identity
from conformance.runner import checked
from tests.integration.conformance.condition_uses import Use, of_statement, of_templates, without
from tests.integration.conformance.uses_without_claim import REASONS
from tests.integration.posture.configurations import CONFIGURATIONS
from tests.integration.stacks.templates import an_app

AREAS = (
    "copies",
    "key_conditions",
    "permission_conditions",
    "resource_conditions",
    "role_conditions",
    "storage",
    "trust_conditions",
)
_PATIENCE = 2.0
_policy = identity._policy
Uses = dict[str, tuple[set[Use], set[Use]]]


class Impatient(Aws):
    """A place in which a claim with a changed key waits for seconds only, for an event that does not arrive."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.hurried = False

    def wait(self, question: Callable[[], T], what: str = "", *, seconds: float = 0.0) -> T:
        return super().wait(question, what, seconds=_PATIENCE if self.hurried else seconds)


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Impatient]:
    with local_place(tmp_path_factory.mktemp("mutations")) as place:
        aws = Impatient(place)
        yield aws
        aws.undo.everything()


def check(aws: Impatient, claim: Claim, mutation: Use | None = None) -> tuple[Outcome, str, set[Use]]:
    """Check a claim, with a key that does not exist for one use; return its outcome and the uses in its policies."""
    found: set[Use] = set()

    def mutated(*statements: Mapping[str, Any]) -> dict[str, Any]:
        found.update(use for statement in statements for use in of_statement(statement))
        changed = [part for one in statements for part in (without(one, mutation) if mutation else [one])]
        return _policy(*changed)

    aws.hurried = mutation is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(identity, "_policy", mutated)
        result = checked(aws, claim)
    return result.outcome, result.detail, found


@pytest.fixture(scope="module")
def uses(aws: Impatient) -> Uses:
    """The uses in the policies of each claim on conditions, and those of them without which it is not met."""
    found: Uses = {}
    for claim in CLAIMS:
        if claim.area in AREAS and not claim.why_documented and not claim.not_modelled:
            outcome, detail, used = check(aws, claim)
            assert outcome is Outcome.MET, f"{claim.name}: {detail}"
            needed = {use for use in sorted(used) if check(aws, claim, use)[0] is Outcome.NOT_MET}
            found[claim.name] = used, needed
    return found


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> set[Use]:
    """The uses in all stacks of all configurations."""
    folder = tmp_path_factory.mktemp("stacks")
    layer = folder / "layer"
    for package in (layer / "python", layer / "catalog" / "python"):
        package.mkdir(parents=True)
        (package / "library.py").write_text("ANSWER = 42\n")
    return {use for name in CONFIGURATIONS for use in of_templates(_templates(name, layer, folder / name))}


def _templates(name: str, layer: Path, output: Path) -> dict[str, Any]:
    return {stack.stack_name: stack.template for stack in an_app(CONFIGURATIONS[name], layer, output).synth().stacks}


def test_each_condition_key_of_a_claim_matters_to_one(uses: Uses) -> None:
    needed = {use for _, of_claim in uses.values() for use in of_claim}
    known = needed | REASONS.keys()
    assert {name: left for name, (used, _) in uses.items() if (left := sorted(map(str, used - known)))} == {}


def test_each_condition_key_of_the_stacks_has_a_claim_or_a_reason(uses: Uses, deployed: set[Use]) -> None:
    needed = {use for _, of_claim in uses.values() for use in of_claim}
    unclaimed = {use for use in deployed if not any(claimed.covers(use) for claimed in needed)}
    assert sorted(map(str, unclaimed - REASONS.keys())) == [], "add a claim in conformance/claims"
    assert sorted(map(str, REASONS.keys() - unclaimed)) == [], "these have a claim or are unused: remove the reason"
    assert {reason.claim for reason in REASONS.values()} <= {claim.name for claim in CLAIMS}
