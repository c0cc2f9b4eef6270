"""Manifest trial: parses manifests and checks that each is accepted completely or rejected with every reason."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traingrid.audit.violation import Violation
from traingrid.aws.s3_uri import S3Uri
from traingrid.manifest import parse as manifest
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.line import jobs_of_lines
from traingrid.submission.files import normalised, read_job

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.grid.deployment import Deployment
    from traingrid.manifest.parse import Line

SECONDS = 1.0
"""Limit of processor time per manifest; the small manifests of these experiments take a few milliseconds."""

_SUBMISSION = "0123abcd"
_FEW = 4


@dataclass(kw_only=True)
class Trial:
    """Parses manifests and collects violations, statistics and samples.

    Attributes:
        deployment: The grid that the manifests are for.
        chance: Selects the samples.
        keep: Number of accepted and of rejected manifests to keep.
        outcomes: Number of accepted and of rejected manifests.
        slowest: Longest processor time of one manifest, in seconds.
        accepted: Samples of accepted manifests with few lines.
        rejected: Samples of rejected manifests.
    """

    deployment: Deployment
    chance: random.Random
    keep: int
    wrong: list[Violation] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    accepted: list[bytes] = field(default_factory=list)
    rejected: list[bytes] = field(default_factory=list)

    def parse(self, content: bytes) -> list[Line] | None:
        """Parse a manifest and check the result.

        Returns:
            Its lines, or None if it was rejected.
        """
        started, lines = time.thread_time(), None
        try:
            lines = manifest.parse(content, self.deployment)
        except ManifestError as error:
            self._judge_rejected(content, error)
        except Exception as error:  # noqa: BLE001 - the trial checks that no other exception occurs
            self.blame(content, f"raises {type(error).__name__}: {error}")
        seconds = time.thread_time() - started
        self.slowest = max(self.slowest, seconds)
        if seconds > SECONDS:
            self.blame(content, f"takes {seconds:.1f} s")
        if lines is not None:
            self._judge_accepted(content, lines)
        self._note(content, lines)
        return lines

    def blame(self, content: bytes, problem: str) -> None:
        """Record a violation for a manifest."""
        text = f"the manifest {content[:200]!r} ({len(content)} bytes) {problem}"
        self.wrong.append(Violation(invariant="I7", kind="other", submission="", what=text))

    def _note(self, content: bytes, lines: list[Line] | None) -> None:
        """Count the outcome, and keep samples that are cheap to submit (reservoir sampling)."""
        self.outcomes["rejected" if lines is None else "accepted"] += 1
        if lines is not None and len(lines) > _FEW:
            return
        samples = self.rejected if lines is None else self.accepted
        if len(samples) < self.keep:
            samples.append(content)
        elif (place := self.chance.randrange(self.outcomes.total())) < self.keep:
            samples[place] = content

    def _judge_rejected(self, content: bytes, error: ManifestError) -> None:
        if not error.total >= len(error.errors) > 0:
            self.blame(content, f"is rejected with {len(error.errors)} errors of {error.total}")
        for line_error in error.errors:
            complete = (
                line_error.field
                and line_error.reason
                and line_error.next_step.endswith((".", "?"))
                and str(line_error).isprintable()
            )
            if not complete or (line_error.line > 0) == (line_error.field == "file"):
                self.blame(content, f"is rejected with an incomplete error: {line_error!r}")

    def _judge_accepted(self, content: bytes, lines: list[Line]) -> None:
        jobs = jobs_of_lines(lines, self.deployment, _SUBMISSION)
        body, index = normalised(jobs)
        files = _Files({"jobs.jsonl": body, "jobs.index": index})
        back = [read_job(files, S3Uri("bucket", "jobs.jsonl"), number) for number in range(len(jobs))]
        if not jobs or back != jobs:
            self.blame(content, "is accepted, but its jobs change when they are written and read again")


@dataclass(frozen=True)
class _Files:
    """A submission's files as a child reads them, in memory."""

    content: Mapping[str, bytes]

    def read_range(self, uri: S3Uri, start: int, end: int) -> bytes:
        """See `traingrid.submission.files.RangeReader`."""
        return self.content[uri.key][start:end]
