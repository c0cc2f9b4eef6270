"""E14: manifests submitted by hand in the Batch console, with a fitting array, a wrong array size, or no array."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, cycle, islice
from typing import Any

from traingrid import names
from traingrid.audit.violation import Violation
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri
from traingrid.ledger.damage import intact
from traingrid.submission.files import submission_id
from verification.faults.faulty_grid import FaultyGrid
from verification.faults.table import Outcome

CASES: tuple[tuple[int, int | None], ...] = ((4, 3), (4, None), (3, 3), (2, 4), (1, None), (1, 2))
"""Number of lines in the manifest, and the array's size; None for a job that is not an array."""

_REFUSED = 2
"""A child's exit code for an invalid configuration (ARCHITECTURE.md, "Exit codes of a child")."""
_AT_ONCE = 12
_numbers = count()


@dataclass(frozen=True, kw_only=True)
class _Submitted:
    """A manifest and the Batch job that received it.

    Attributes:
        size: The array's size; None for a job that is not an array.
    """

    batch_job: str
    lines: int
    size: int | None

    @property
    def submission(self) -> str:
        return submission_id(self.batch_job)

    @property
    def fits(self) -> bool:
        return (self.size or 1) == self.lines

    @property
    def children(self) -> list[str]:
        return [f"{self.batch_job}:{index}" for index in range(self.size)] if self.size else [self.batch_job]


def submitted_by_hand(grid: FaultyGrid, manifests: int) -> Outcome:
    """E14: every child of an array with the wrong size refuses its manifest; all lines of other manifests train.

    Args:
        manifests: Number of manifests; they cycle through `CASES`.
    """
    grid.plan(stub_seconds=0.5)
    cases, submitted = islice(cycle(CASES), manifests), list[_Submitted]()
    while batch := [_submit(grid, lines, size) for lines, size in islice(cases, _AT_ONCE)]:
        submitted += batch
        grid.ended(*(submission.batch_job for submission in batch))
    grid.at_rest()
    codes = {submission.batch_job: _exit_codes(submission) for submission in submitted}
    return Outcome(
        volume=f"{len(submitted)} manifests",
        struck=sum(not submission.fits for submission in submitted),
        violations=[
            *grid.audit(*(submission.submission for submission in submitted)),
            *(
                codes_of_job
                for submission in submitted
                for codes_of_job in _otherwise_than_asked(grid, submission, codes[submission.batch_job])
            ),
        ],
        facts={
            "refused": sum(not submission.fits for submission in submitted),
            "exit_codes": dict(Counter(code for codes_of_job in codes.values() for code in codes_of_job)),
        },
    )


def _submit(grid: FaultyGrid, lines: int, size: int | None) -> _Submitted:
    """Upload a manifest to the by-hand prefix, which the intake ignores, and submit it as the Batch console does."""
    deployment = grid.plane.deployment
    uri = S3Uri(deployment.manifest_bucket, f"{names.BY_HAND_PREFIX}{next(_numbers)}.csv")
    grid.plane.storage.write(uri, grid.manifest(lines).encode(), "text/csv")
    request: dict[str, Any] = {
        "jobName": "by-hand",
        "jobQueue": deployment.job_queue,
        "jobDefinition": deployment.job_definition,
        "containerOverrides": {"environment": [{"name": "S3_ARRAY_FILE", "value": str(uri)}]},
    }
    if size is not None:
        request["arrayProperties"] = {"size": size}
    return _Submitted(
        batch_job=client("batch", deployment.grid.home).submit_job(**request)["jobId"], lines=lines, size=size
    )


def _exit_codes(submitted: _Submitted) -> list[int]:
    described = client("batch", "us-east-1").describe_jobs(jobs=submitted.children)["jobs"]
    return [job["container"].get("exitCode", -1) for job in described]


def _otherwise_than_asked(grid: FaultyGrid, submitted: _Submitted, codes: list[int]) -> Iterator[Violation]:
    """Yield lines of a fitting array that did not complete, and wrong arrays that were not refused."""
    states = grid.states(submitted.submission)
    whose = f"{submitted.batch_job} (array size {submitted.size}, {submitted.lines} lines)"
    if submitted.fits:
        for index in range(submitted.lines):
            if states.get(index) != "Completed":
                sentence = f"line {index} of {whose} is {states.get(index, 'not in the ledger')}, not Completed"
                yield Violation(invariant="I1", kind="lost", submission=submitted.submission, what=sentence)
    elif states or set(codes) != {_REFUSED}:
        sentence = (
            f"{whose} was not refused: its children exited with {codes}, and {len(states)} of its lines were opened"
        )
        yield Violation(invariant="E14", kind="other", submission=submitted.submission, what=sentence)
    elif submitted.batch_job not in {rejection.batch_job for rejection in intact(grid.plane.ledger.rejections())}:
        sentence = f"{whose} was refused, and the ledger has no record of it"
        yield Violation(invariant="E14", kind="other", submission=submitted.submission, what=sentence)
