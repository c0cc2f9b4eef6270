"""Lint: runs cfn-lint on templates; equal templates are checked once."""

import json
from functools import cache
from typing import TYPE_CHECKING

from tests.integration.posture.findings import Finding, Scan
from tests.integration.posture.synthesised import Synthesised
from tests.integration.stacks.templates import Template

if TYPE_CHECKING:
    from cfnlint.runner import Runner

EXPLAINED = {
    "W3005": "the CDK makes a function depend on its role beside referring to it, so that the policy is there as well"
}


def scan(made: Synthesised) -> Scan:
    """Return cfn-lint's scan of a configuration's templates, each for its stack's Region."""
    found = frozenset(
        Finding(rule, f"{stack}/{where}")
        for stack, template in made.templates.items()
        for rule, where in findings(template, made.regions[stack])
    )
    broken = {finding.rule for finding in found}
    return Scan(
        rules=len(_runner(next(iter(made.regions.values()))).rules),
        found=found,
        unexplained=frozenset(finding for finding in found if finding.rule not in EXPLAINED),
        unused=frozenset(Finding(rule, "EXPLAINED") for rule in EXPLAINED if rule not in broken),
    )


def findings(template: Template, region: str) -> list[tuple[str, str]]:
    """Return the rule and place of every error in a template."""
    return _lint(json.dumps(template), region)


@cache
def _lint(text: str, region: str) -> list[tuple[str, str]]:
    from cfnlint.decode.decode import decode_str  # noqa: PLC0415  # takes seconds, and each worker collects this file

    template, errors = decode_str(text)
    found = [*errors, *_runner(region).validate_template(template)]
    return [(match.rule.id, f"{'/'.join(map(str, match.path))}: {match.message}") for match in found]


@cache
def _runner(region: str) -> "Runner":
    """Return cfn-lint with its rules, cached because loading them takes longer than checking a template."""
    from cfnlint.config import ConfigMixIn  # noqa: PLC0415  # as above
    from cfnlint.runner import Runner  # noqa: PLC0415  # as above

    return Runner(ConfigMixIn(regions=[region]))
