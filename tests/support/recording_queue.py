"""Recording queue: a job queue that records the arrays submitted to it, and can refuse them."""

from dataclasses import dataclass

from traingrid.aws.batch import SubmitFailedError
from traingrid.aws.s3_uri import S3Uri


@dataclass(frozen=True)
class RecordedArray:
    """An accepted array; the fields are arguments of `traingrid.aws.batch.Batch.submit`."""

    submission: str
    jobs: S3Uri
    count: int
    chunk: int | str


class RecordingQueue:
    """A fake of `traingrid.aws.batch.Batch`.

    Attributes:
        submitted: The accepted arrays, in order.
        listed: The Batch jobs that can be found, by submission and chunk.
        refuses: The chunks that are not accepted.
        loses_replies: True if Batch may have accepted these chunks, because its reply is lost.
    """

    def __init__(self) -> None:
        self.submitted: list[RecordedArray] = []
        self.listed: dict[tuple[str, int | str], str] = {}
        self.refuses: set[int | str] = set()
        self.loses_replies = False

    def submit(self, submission: str, jobs: S3Uri, count: int, chunk: int | str = 0, **_share: object) -> str:
        if chunk in self.refuses:
            raise SubmitFailedError("the queue is disabled", refused=not self.loses_replies)
        self.submitted.append(RecordedArray(submission, jobs, count, chunk))
        self.listed[submission, chunk] = f"batch-{submission}{f'-{chunk}' * bool(chunk)}"
        return self.listed[submission, chunk]

    def find(self, submission: str, chunk: int | str = 0) -> str | None:
        return self.listed.get((submission, chunk))
