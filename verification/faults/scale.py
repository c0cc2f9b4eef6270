"""E11: manifests of ten thousand lines and more, from the deployed intake to the end of every line."""

import time
from collections import Counter
from typing import Any

from bench.machine import peak_memory_mib
from localcloud.processes.process_group import groups
from traingrid.audit.violation import Violation
from traingrid.submission.files import submission_id
from verification.deployed_grid import patience, until
from verification.faults.faulty_grid import FaultyGrid, settled
from verification.faults.races import count_created
from verification.faults.submissions import Submission
from verification.faults.table import Outcome

INTAKE_SECONDS, INTAKE_MIB = 60.0, 256.0
"""Limits of the intake for one manifest: its Lambda timeout (stacks/event_function.py), and the memory limit of the
design. The time is measured from the upload to the report, and includes the event's delivery and the cold start."""

_CHILDREN_AT_ONCE = 64


def of_lines(grid: FaultyGrid, lines: int) -> Outcome:
    """E11: submit one manifest of this many lines and wait until all have ended, each by its own child."""
    grid.plan()
    with grid.children_at_once(_CHILDREN_AT_ONCE):
        return _brought_to_their_end(grid, lines)


def cancelled(grid: FaultyGrid, lines: int, launched: int) -> Outcome:
    """E11: submit this many lines, and cancel all of them with the real command once some train.

    Args:
        lines: Number of lines, in several arrays.
        launched: Number of lines with a training job before the cancel; no child has opened the others.
    """
    grid.plan(stub_seconds=20.0)
    submission, intake, violations = _submitted(grid, lines)
    with grid.children_at_once(_CHILDREN_AT_ONCE), grid.unscheduled():
        until(
            lambda: _created(grid, submission) >= launched, f"{launched} lines have a training job", patience(launched)
        )
        started = time.monotonic()
        command = grid.command("person/cancel", "cancel", submission.id, "--reason", "it is a test")
        code = command.wait()
        exited = time.monotonic()
        settled(grid, [submission], passes=2)
    closed = time.monotonic()
    violations += grid.audit(submission.id)
    if code:
        violations.append(_violation(f"`traingrid cancel` exited with {code}"))
    return Outcome(
        volume=f"{lines} lines in {len(submission.batch_jobs)} arrays, cancelled",
        violations=violations,
        facts={
            **intake,
            "training_jobs": _created(grid, submission),
            "command_seconds": round(exited - started, 1),
            "seconds_until_two_sweeps_were_done": round(closed - exited, 1),
            "audit_seconds": round(time.monotonic() - closed, 1),
            "states": dict(Counter(grid.states(submission.id).values())),
        },
    )


def _created(grid: FaultyGrid, submission: Submission) -> int:
    return count_created(grid, [submission.id])


def _brought_to_their_end(grid: FaultyGrid, lines: int) -> Outcome:
    submission, intake, violations = _submitted(grid, lines)
    started = time.monotonic()
    settled(grid, [submission])
    seconds = time.monotonic() - started
    audited = time.monotonic()
    violations += grid.audit(submission.id)
    return Outcome(
        volume=f"{lines} lines in {len(submission.batch_jobs)} arrays",
        violations=violations,
        facts={
            **intake,
            "lines_per_second": round(lines / seconds, 1),
            "audit_seconds": round(time.monotonic() - audited, 1),
            "states": dict(Counter(grid.states(submission.id).values())),
        },
    )


def _submitted(grid: FaultyGrid, lines: int) -> tuple[Submission, dict[str, Any], list[Violation]]:
    """Submit this many lines; return the submission, the intake's time and memory, and violations of its limits."""
    content, started = grid.manifest(lines).encode(), time.monotonic()
    source = grid.put(content)
    report = grid.report(source)
    seconds = time.monotonic() - started
    peak = max(map(peak_memory_mib, _intakes(grid)), default=0.0)
    violations = _too_much(seconds, peak)
    if report["jobs"] != lines:
        violations.append(_violation(f"{lines} lines were submitted, but the report counts {report['jobs']} jobs"))
    facts = {"manifest_bytes": len(content), "intake_seconds": round(seconds, 2), "intake_peak_mib": round(peak, 1)}
    return grid.submitted(submission_id(str(source.uri), source.version)), facts, violations


def _intakes(grid: FaultyGrid) -> list[int]:
    """Return the process ids of the intake function, whose processes stay for a while after an event."""
    return [group.pid for group in groups(f"lambda/{grid.output('IntakeFunction')}")]


def _too_much(seconds: float, peak: float) -> list[Violation]:
    violations = []
    if seconds > INTAKE_SECONDS:
        violations.append(_violation(f"the intake took {seconds:.0f} s; the limit is {INTAKE_SECONDS:.0f} s"))
    if not 0 < peak <= INTAKE_MIB:
        violations.append(_violation(f"the intake took {peak:.0f} MiB; the limit is {INTAKE_MIB:.0f} MiB"))
    return violations


def _violation(sentence: str) -> Violation:
    return Violation(invariant="I9", kind="other", submission="", what=sentence)
