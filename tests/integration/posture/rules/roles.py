"""Rule for roles: the calls of every role are listed, so that all its permissions have a documented source."""

import re
from collections.abc import Iterator

from tests.integration.policies.calls import EVERY_ROLE
from tests.integration.policies.grid import PARTS, ROLES
from tests.integration.posture.rule import Rule, added
from tests.integration.posture.synthesised import Synthesised

_BY_PREFIX = {place.prefix: role for role, place in ROLES.items()} | {
    f"Acting{part.capitalize()}": part for part in PARTS
}


def every_role_has_its_calls_listed(made: Synthesised) -> Iterator[str]:
    for stack, logical_id, _ in made.each("AWS::IAM::Role"):
        if _role_of(logical_id) not in EVERY_ROLE:
            yield f"{stack}/{logical_id} is a role whose calls are not in tests/integration/policies/calls.py"


def _role_of(logical_id: str) -> str:
    prefix = logical_id[:-8]  # without CloudFormation's hash
    # A grid has one role per target of the training image; the policy matrix contains only one of them.
    return _BY_PREFIX.get(re.sub("^TrainingBuild[a-z]+Role$", "TrainingBuildgpuRole", prefix), logical_id)


RULES = (Rule(every_role_has_its_calls_listed, (added("AWS::IAM::Role", {}),)),)
