"""Mutations: a claim about a condition is not met if the condition's key is replaced by one that AWS never fills."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import conformance.claims  # noqa: F401 - declares the claims
from conformance.aws import Aws
from conformance.claim import CLAIMS, Claim, Outcome
from conformance.local import local_place
from conformance.resources import identity
from conformance.runner import checked
from tests.support.rows import each_row

AREAS = ("role_conditions", "trust_conditions")
ABSENT = {"sagemaker:VpcSubnets", "sagemaker:VpcSecurityGroupIds", "sagemaker:FileSystemId"}
"""Keys that the product requires to be absent: a key that never exists is absent, too. Another claim and the tests of
policies use them with values."""
_document = identity.document


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aws]:
    with local_place(tmp_path_factory.mktemp("mutations")) as place:
        aws = Aws(place)
        yield aws
        aws.undo.everything()


def keys_of(statements: tuple[Mapping[str, Any], ...]) -> set[str]:
    return {key for one in statements for keys in one.get("Condition", {}).values() for key in keys}


def check(aws: Aws, claim: Claim, key: str = "") -> tuple[Outcome, set[str]]:
    """Check a claim with one condition key replaced in all policies; return its outcome and the keys that it uses."""
    used: set[str] = set()

    def mutated(*statements: Mapping[str, Any]) -> str:
        used.update(keys_of(statements))
        text = _document(*statements)
        return text.replace(json.dumps(key), '"traingrid:NoSuchKey"') if key else text

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(identity, "document", mutated)
        return checked(aws, claim).outcome, used


@each_row("claim", ((claim.name, claim) for claim in CLAIMS if claim.area in AREAS and not claim.why_documented))
def test_a_claim_is_not_met_with_a_condition_key_that_does_not_exist(claim: Claim, aws: Aws) -> None:
    outcome, used = check(aws, claim)
    assert outcome is Outcome.MET
    depends = used - {"iam:PassedToService"} - (ABSENT if "all_conditions" in claim.name else set())
    survivors = [key for key in sorted(depends) if check(aws, claim, key)[0] is Outcome.MET]
    assert survivors == []
