"""Nag: runs cdk-nag on an app, first without the stacks' acknowledgments, then with them."""

import re
import tarfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from aws_cdk import Acknowledgment, App, Validations
from cdk_nag import AwsSolutionsChecks, NagPack, NIST80053R5Checks
from constructs import IConstruct

from tests.integration.posture.findings import Finding, Scan

PACKS = {
    "AwsSolutions": ("aws-solutions", AwsSolutionsChecks),
    "NIST.800.53.R5": ("nist-800-53-r5", NIST80053R5Checks),
}
"""The rule packs, by the prefix of their rules' ids: the pack's file in the library, and the pack."""


@dataclass(frozen=True, kw_only=True)
class Acknowledged:
    """A stack's reason for breaking a rule, which applies to a construct and everything below it."""

    construct: IConstruct
    acknowledgment: Acknowledgment

    def apply(self) -> None:
        """Record the acknowledgment in the CDK."""
        Validations.of(self.construct).acknowledge(self.acknowledgment)


def scan(app: App, acknowledged: Sequence[Acknowledged]) -> dict[str, Scan]:
    """Return the packs' findings without acknowledgments, then apply them and add the remaining findings."""
    packs = {prefix: pack(app) for prefix, (_, pack) in PACKS.items()}
    found = {prefix: _findings(pack, app) for prefix, pack in packs.items()}
    for one in acknowledged:
        one.apply()
    reasons = {Finding(one.acknowledgment.id, one.construct.node.path) for one in acknowledged}
    return {
        prefix: Scan(
            rules=rules(prefix),
            found=found[prefix],
            unexplained=_findings(pack, app),
            unused=_unused({reason for reason in reasons if reason.rule.startswith(prefix)}, found[prefix]),
        )
        for prefix, pack in packs.items()
    }


def _findings(pack: NagPack, app: App) -> frozenset[Finding]:
    violations = pack.validate_scope(app).violations
    return frozenset(
        Finding(violation.rule_name, resource.construct_path or "")
        for violation in violations
        for resource in violation.violating_resources
    )


def _unused(reasons: Iterable[Finding], found: Iterable[Finding]) -> frozenset[Finding]:
    """Return the reasons without a finding of the same rule at the same construct or below it."""
    needed = {finding.rule: set[str]() for finding in found}
    for finding in found:
        needed[finding.rule].add(f"{finding.where}/")
    return frozenset(
        reason
        for reason in reasons
        if not any(
            where.startswith(f"{reason.where}/" if reason.where else "") for where in needed.get(reason.rule, ())
        )
    )


@cache
def rules(prefix: str) -> int:
    """Return the number of rules in a pack, counted in the library's source because its API does not provide it."""
    (library,) = (file for file in files("cdk_nag._jsii").iterdir() if file.name.endswith(".tgz"))
    with library.open("rb") as packed, tarfile.open(fileobj=packed) as archive:
        source = archive.extractfile(f"package/lib/packs/{PACKS[prefix][0]}.js")
        assert source is not None
        return len(re.findall(rb"\.applyRule\(\{", source.read()))
