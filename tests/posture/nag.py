"""cdk-nag over an app: first without the acknowledgments of the stacks, then with them."""

import re
import tarfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from aws_cdk import Acknowledgment, App, Validations
from cdk_nag import AwsSolutionsChecks, NagPack, NIST80053R5Checks
from constructs import IConstruct

from tests.posture.findings import Finding, Scan

PACKS = {
    "AwsSolutions": ("aws-solutions", AwsSolutionsChecks),
    "NIST.800.53.R5": ("nist-800-53-r5", NIST80053R5Checks),
}
"""By what their rules' ids begin with: the file of the pack inside the library, and the pack."""


@dataclass(frozen=True, kw_only=True)
class Acknowledged:
    """A reason that a stack gives for breaking a rule, at a construct and all below it."""

    construct: IConstruct
    acknowledgment: Acknowledgment

    def apply(self) -> None:
        """Tell the CDK."""
        Validations.of(self.construct).acknowledge(self.acknowledgment)


def scan(app: App, acknowledged: Sequence[Acknowledged]) -> dict[str, Scan]:
    """Return what the packs find, and apply what was acknowledged in between."""
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
    """Return the reasons that no finding needs: of the same rule, at the same construct or below it."""
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
    """Return how many rules a pack has. Its API does not say, so they are counted in the library's own source."""
    (library,) = (file for file in files("cdk_nag._jsii").iterdir() if file.name.endswith(".tgz"))
    with library.open("rb") as packed, tarfile.open(fileobj=packed) as archive:
        source = archive.extractfile(f"package/lib/packs/{PACKS[prefix][0]}.js")
        assert source is not None
        return len(re.findall(rb"\.applyRule\(\{", source.read()))
