"""What a scanner says of a configuration, and what of that the stacks give a reason for."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Finding:
    """A rule that something breaks; `where` is the path or the stack and logical id of that."""

    rule: str
    where: str

    def __str__(self) -> str:
        return f"{self.rule} at {self.where}"


@dataclass(frozen=True, kw_only=True)
class Scan:
    """A scanner's answer for one configuration.

    Attributes:
        rules: How many rules were asked.
        found: All that breaks one, whether there is a reason or not.
        unexplained: What of that has no reason.
        unused: Reasons for which there is nothing: what they were for has gone, or they are at the wrong place.
    """

    rules: int
    found: frozenset[Finding]
    unexplained: frozenset[Finding]
    unused: frozenset[Finding]


@dataclass(frozen=True, kw_only=True)
class Counts:
    """A line of the table: rules times configurations, by what came of them."""

    configurations: int
    rules: int
    passed: int
    acknowledged: int
    failed: int


def counts(scans: Iterable[Scan]) -> Counts:
    """Return how often a rule found nothing, only what has a reason, or something that has none."""
    scans = list(scans)
    failed = sum(len(_rules(scan.unexplained)) for scan in scans)
    found = sum(len(_rules(scan.found)) for scan in scans)
    asked = sum(scan.rules for scan in scans)
    return Counts(
        configurations=len(scans),
        rules=max((scan.rules for scan in scans), default=0),
        passed=asked - found,
        acknowledged=found - failed,
        failed=failed,
    )


def _rules(findings: Iterable[Finding]) -> set[str]:
    """Return the rules of findings; cdk-nag writes what a finding is about behind a rule, in brackets."""
    return {finding.rule.partition("[")[0] for finding in findings}
