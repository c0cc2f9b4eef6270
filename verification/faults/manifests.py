"""E10: truncated, damaged and generated manifests: thousands in this process, and some through the deployed intake."""

from __future__ import annotations

import random
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from traingrid.audit.violation import Violation
from traingrid.ledger.rejections import REJECTIONS
from verification.faults import generated_manifests
from verification.faults.agreement import disagreements
from verification.faults.faulty_grid import FaultyGrid, settled
from verification.faults.manifest_trial import Trial
from verification.faults.memory_growth import MemoryGrowth
from verification.faults.submissions import REGIONS, data_folder
from verification.faults.table import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from traingrid.manifest.parse import Line

MEMORY_MIB = 256.0
"""Limit of the process's memory growth over all manifests of an experiment."""

_GOOD_LINES = 24
_AT_ONCE = 1000
"""Number of manifests that hypothesis generates per run: it remembers all of them to avoid duplicates."""


def truncated(grid: FaultyGrid, cuts: int, deployed: int) -> Outcome:
    """E10: truncate a valid manifest of each form at `cuts` places, with and without a leading `# jobs: n`.

    A truncated manifest must be rejected, or contain whole lines and at most one shortened line. With the job count
    it must always be rejected.

    Args:
        cuts: Number of places to truncate at.
        deployed: Number of accepted and of rejected manifests that are also uploaded to the deployed intake.
    """
    trial = Trial(deployment=grid.plane.deployment, chance=_chance(grid), keep=deployed)
    with MemoryGrowth() as memory:
        for form in generated_manifests.FORMS:
            complete = _good(form)
            promising = f"# jobs: {_GOOD_LINES}\n".encode() + complete
            _cut(trial, complete, cuts, promises=False)
            _cut(trial, promising, cuts, promises=True)
    return _outcome(grid, trial, memory, f"{trial.outcomes.total()} truncations")


def made_up(grid: FaultyGrid, manifests: int, deployed: int) -> Outcome:
    """E10: parse the manifests of `verification.faults.generated_manifests`, a third of them damaged.

    Args:
        deployed: See `truncated`.
    """
    trial = Trial(deployment=grid.plane.deployment, chance=_chance(grid), keep=deployed)
    buckets = {region: data_folder(region).split("/")[2] for region in REGIONS}
    with MemoryGrowth() as memory:
        for start in range(0, manifests, _AT_ONCE):
            _make_up(trial, buckets, min(_AT_ONCE, manifests - start), grid.seed + start)
    return _outcome(grid, trial, memory, f"{trial.outcomes.total()} manifests")


def _make_up(trial: Trial, buckets: Mapping[str, str], manifests: int, number: int) -> None:
    """Generate this many manifests from a seed, and try each."""

    @seed(number)
    @settings(
        max_examples=manifests,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(generated_manifests.manifests(buckets))
    def try_one(manifest: generated_manifests.Manifest) -> None:
        lines = trial.parse(manifest.content)
        if lines is not None and not manifest.damaged:
            for problem in disagreements(manifest, lines, trial.deployment):
                trial.blame(manifest.content, problem)

    try_one()


def _chance(grid: FaultyGrid) -> random.Random:
    return random.Random(grid.seed)  # noqa: S311 - a sample, no secrets


def _good(form: generated_manifests.Form) -> bytes:
    """Return a valid manifest with non-ASCII characters, so that it can be cut inside a character."""
    lines: list[dict[str, Any]] = [
        {"region": region, "s3_uri": data_folder(region), "name": f"Größe {number}"}
        for number, region in enumerate(islice(cycle(REGIONS), _GOOD_LINES))
    ]
    for number, line in enumerate(lines) if form != "plain" else ():
        line |= {"hyperparameters": {"epochs": number}, "retries": 2, "tags": {"team": "perception"}}
    return generated_manifests.WRITERS[form](lines) + b"\n"


def _cut(trial: Trial, content: bytes, cuts: int, *, promises: bool) -> None:
    complete = trial.parse(content)
    if complete is None or len(complete) != _GOOD_LINES:
        trial.blame(content, "is valid, but is not accepted")
        return
    first = content.index(b"\n") + 1 if promises else 0  # a truncated job count has no effect
    for cut in sorted({first + (len(content) - first) * number // cuts for number in range(cuts)}):
        lines = trial.parse(content[:cut])
        if lines is None:
            continue
        if promises:
            trial.blame(content[:cut], "has fewer jobs than its `# jobs:` line, but is accepted")
        elif not _are_first(lines, complete):
            trial.blame(content[:cut], "is truncated, but its lines differ from those of the complete manifest")


def _are_first(lines: list[Line], complete: list[Line]) -> bool:
    """Return True if lines equal a manifest's first lines, except that the last one may be shortened."""
    before, last = len(lines) - 1, complete[len(lines) - 1]
    shorter = str(last.data).startswith(str(lines[before].data))
    return lines[:before] == complete[:before] and lines[before].region == last.region and shorter


def _outcome(grid: FaultyGrid, trial: Trial, memory: MemoryGrowth, volume: str) -> Outcome:
    if memory.mib > MEMORY_MIB:
        trial.blame(b"", f"and all before it make the process grow by {memory.mib:.0f} MiB")
    return Outcome(
        volume=volume,
        violations=[*trial.wrong, *_by_the_deployed_intake(grid, trial)],
        facts={
            **trial.outcomes,
            "slowest_seconds": round(trial.slowest, 3),
            "memory_growth_mib": round(memory.mib, 1),
            "by_the_deployed_intake": {"accepted": len(trial.accepted), "rejected": len(trial.rejected)},
        },
    )


def _by_the_deployed_intake(grid: FaultyGrid, trial: Trial) -> list[Violation]:
    """Upload the sampled manifests: a rejected one must only be reported, an accepted one must run its jobs."""
    grid.plan()
    grid.quiet()
    before = len(grid.cloud.record.entries())
    rejected = [grid.put(content) for content in trial.rejected]
    states = [grid.report(source)["state"] for source in rejected]
    wrong = [f"a manifest should be rejected, but is {state}" for state in states if state != "rejected"]
    grid.quiet()
    ours = {uri.key for source in rejected for uri in (source.uri, source.report, source.own_report)}
    wrong += [
        f"rejected manifests were uploaded, and {call['service']}:{call['action']} was called"
        for call in grid.cloud.record.entries(after=before)
        if not _reports_a_rejection(call["action"], call["parameters"], ours)
    ]
    accepted = [grid.put(content) for content in trial.accepted]
    reports = [grid.report(source) for source in accepted]
    ids = [report["submission"] for report in reports if report["state"] == "submitted"]
    wrong += [
        f"a manifest should be accepted, but is rejected: {report['errors']}"
        for report in reports
        if "errors" in report
    ]
    settled(grid, [grid.submitted(submission) for submission in ids])
    violations = [Violation(invariant="I7", kind="other", submission="", what=sentence) for sentence in wrong]
    return [*violations, *(grid.audit(*ids) if ids else ())]


def _reports_a_rejection(action: str, parameters: Mapping[str, Any], keys: Collection[str]) -> bool:
    """Return True if a call writes a manifest with one of these keys or its report, or its rejection in the ledger."""
    if action == "PutItem":
        return bool(parameters["Item"]["submission"]["S"] == REJECTIONS)
    return action == "PutObject" and parameters.get("Key") in keys
