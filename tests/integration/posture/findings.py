"""Findings: a scanner's results for a configuration, and the stacks' reasons for them."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Finding:
    """A rule and the construct or resource that breaks it; `where` is its path, or its stack and logical id."""

    rule: str
    where: str

    def __str__(self) -> str:
        return f"{self.rule} at {self.where}"


@dataclass(frozen=True, kw_only=True)
class Scan:
    """A scanner's results for one configuration.

    Attributes:
        rules: The number of rules that were checked.
        found: All findings, with or without a reason.
        unexplained: The findings without a reason.
        unused: Reasons without a finding, because it was fixed or the reason is at the wrong place.
    """

    rules: int
    found: frozenset[Finding]
    unexplained: frozenset[Finding]
    unused: frozenset[Finding]


@dataclass(frozen=True, kw_only=True)
class Counts:
    """A line of the table: rules times configurations, by result."""

    configurations: int
    rules: int
    passed: int
    acknowledged: int
    failed: int


def counts(scans: Iterable[Scan]) -> Counts:
    """Count the rules without findings, with only explained findings, and with unexplained findings."""
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
    """Return the rules of findings. cdk-nag appends the subject of a finding to its rule, in brackets."""
    return {finding.rule.partition("[")[0] for finding in findings}
