"""E19: the catalog's database is down while lines are submitted and train."""

from collections import Counter
from collections.abc import Iterator
from subprocess import CompletedProcess

import psycopg

from bench.postgres_server import running
from traingrid.audit.violation import Violation
from verification.deployed_grid import until
from verification.faults.faulty_grid import FaultyGrid, settled
from verification.faults.kills import otherwise_ended, states
from verification.faults.submissions import Submission
from verification.faults.table import Outcome


def down(grid: FaultyGrid, lines: int) -> Outcome:
    """E19: stop a PostgreSQL server, train lines, and start it again.

    Every line must complete. Meanwhile `traingrid catalog sync` must fail with one sentence and the next step. After
    the server has started again, one `catalog sync` must add a run for every line, and a second one nothing.
    """
    grid.plan(stub_seconds=0.5)
    with running() as server:
        url = server.new_schema()
        before = [grid.result("catalog", word, "--catalog", url) for word in ("init", "sync")]
        server.stop()
        submission = grid.submit(lines)
        refused = [_sync(grid, url)]
        settled(grid, [submission])
        until(lambda: grid.recorded(submission), "every end is recorded")
        refused.append(_sync(grid, url))
        server.start()
        after = [_sync(grid, url), _sync(grid, url)]
        with psycopg.connect(url) as connection:
            query = "SELECT job, state FROM runs WHERE submission = %s"
            rows: dict[int, str] = dict(connection.execute(query, [submission.id]).fetchall())
    return Outcome(
        volume=f"{lines} lines",
        struck=sum(command.returncode != 0 for command in refused),
        violations=[
            *grid.audit(submission.id),
            *otherwise_ended(grid, [submission], {"Completed"}),
            *_wrong(submission, [*before, *after], refused),
            *_missing(submission, rows),
        ],
        facts={
            "states": states(grid, [submission]),
            "runs": dict(Counter(rows.values())),
            "refusal": refused[0].stderr.strip(),
            "sync": after[0].stdout.strip(),
        },
    )


def _sync(grid: FaultyGrid, url: str) -> CompletedProcess[str]:
    return grid.result("catalog", "sync", "--catalog", url)


def _wrong(
    submission: Submission,
    up: list[CompletedProcess[str]],
    refused: list[CompletedProcess[str]],
) -> Iterator[Violation]:
    """Yield a violation for each command with another result than the state of the database requires."""
    for command in up:
        if command.returncode:
            yield _violation(submission, f"{command.args[-3:]} failed: {command.stderr.strip()}")
    if not up[-1].stdout.startswith("0 runs of 0 changed submissions"):
        yield _violation(submission, f"the second sync was not empty: {up[-1].stdout.strip()}")
    for command in refused:
        first, *next_lines = command.stderr.strip().splitlines() or [""]
        is_sentence = first.startswith("Error: The catalog ") and " cannot be used: " in first
        if command.returncode != 1 or not is_sentence or next_lines != ["Check that it runs, and its URL."]:
            yield _violation(
                submission, f"without the database, sync returned {command.returncode}: {command.stderr.strip()}"
            )


def _missing(submission: Submission, rows: dict[int, str]) -> Iterator[Violation]:
    """Yield a violation if the catalog does not have one completed run for each line."""
    if rows != dict.fromkeys(range(submission.lines), "Completed"):
        yield _violation(submission, f"the catalog has the runs {dict(Counter(rows.values()))}")


def _violation(submission: Submission, sentence: str) -> Violation:
    return Violation(invariant="E19", kind="other", submission=submission.id, what=sentence)
