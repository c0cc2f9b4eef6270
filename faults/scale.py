"""E11: manifests of ten thousand lines and more, from the deployed intake to the end of every line."""

import time
from collections import Counter

from bench.machine import peak_memory_mib
from faults.arena import Arena, settled
from faults.table import Outcome
from localcloud.processes import groups
from traingrid.submission import submission_id
from traingrid.violation import Violation

INTAKE_SECONDS, INTAKE_MIB = 60.0, 256.0
"""What the intake of a manifest may take: its Lambda's timeout (stacks/event_function.py), and memory as the design has
it. Time is counted from the upload to the report, the event and the start of the function included."""


def of_lines(arena: Arena, lines: int) -> Outcome:
    """E11: submit so many lines at once and bring all of them to their end, each by a child of its own."""
    arena.plan()
    started = time.monotonic()
    source = arena.put(arena.manifest(lines).encode())
    report = arena.report(source)
    intake_seconds = time.monotonic() - started
    submission = arena.submitted(submission_id(str(source.uri), source.version))
    peak = max(map(peak_memory_mib, _intakes(arena)), default=0.0)
    settled(arena, [submission])
    seconds = time.monotonic() - started - intake_seconds
    audited = time.monotonic()
    violations = [*_too_much(intake_seconds, peak), *arena.audit(submission.id)]
    if report["jobs"] != lines:
        violations.append(_violation(f"{lines} lines were submitted, and the report says {report['jobs']}"))
    return Outcome(
        volume=f"{lines} lines in {len(submission.batch_jobs)} arrays",
        violations=violations,
        facts={
            "manifest_bytes": len(arena.manifest(lines)),
            "intake_seconds": round(intake_seconds, 2),
            "intake_peak_mib": round(peak, 1),
            "lines_per_second": round(lines / seconds, 1),
            "audit_seconds": round(time.monotonic() - audited, 1),
            "states": dict(Counter(arena.states(submission.id).values())),
        },
    )


def _intakes(arena: Arena) -> list[int]:
    """Return the processes of the intake function; they stay for a while after an event."""
    return [group.pid for group in groups(f"lambda/{arena.output('IntakeFunction')}")]


def _too_much(seconds: float, peak: float) -> list[Violation]:
    found = []
    if seconds > INTAKE_SECONDS:
        found.append(_violation(f"the intake has taken {seconds:.0f} s, and may take {INTAKE_SECONDS:.0f}"))
    if not 0 < peak <= INTAKE_MIB:
        found.append(_violation(f"the intake has taken {peak:.0f} MiB, and may take {INTAKE_MIB:.0f}"))
    return found


def _violation(what: str) -> Violation:
    return Violation(invariant="I9", kind="other", submission="", what=what)
