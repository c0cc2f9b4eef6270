"""`make page-cost`: computes the requests and the cost of `traingrid ui` while it is open.

The intervals are those of the poller, the items those of running jobs with the metrics of a default job, and the prices
list prices in us-east-1 (`traingrid/deploy/prices.py`).
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass

import click

from traingrid.aws.dynamodb import marshalled
from traingrid.deploy import prices
from traingrid.grid.job_defaults import JobDefaults
from traingrid.ledger.items import job_item
from traingrid.ui.curves import MOST_JOBS, READ_SECONDS
from traingrid.ui.poller import SHORTEST_FULL_SECONDS, SHORTEST_LOOK_SECONDS, SHORTEST_SECONDS

QUERIES_OF_A_SUBMISSION = 2
"""Queries of an open submission of at most one page: its cancels, and its jobs from the first open one on."""
READS_OF_A_LOOK = 4
"""The marks of open submissions, the pause, the shortages, and the rejected manifests."""
UNIT_BYTES = 4096
"""Bytes of a read request unit of a consistent read
(https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html)."""
PAGE_BYTES = 2**20
"""Bytes that a request of Query or Scan reads at most
(https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Query.Pagination.html)."""
BYTES_OF_A_SUBMISSION = 1000
"""The approximate size of a submission's item with one array and a retry."""


@dataclass(frozen=True, kw_only=True)
class Situation:
    """The ledger that the page shows.

    Attributes:
        open_submissions: The number of submissions with open jobs.
        jobs: The number of jobs of each, from the first open one on.
        old: The number of other submissions, with 100 jobs each.
    """

    title: str
    open_submissions: int
    jobs: int
    old: int


SITUATIONS = (
    Situation(title="no open job, 100 old submissions", open_submissions=0, jobs=0, old=100),
    Situation(title="4 open submissions of 25 jobs, 100 old ones", open_submissions=4, jobs=25, old=100),
    Situation(title="1 open submission of 1,000 jobs, 1,000 old ones", open_submissions=1, jobs=1000, old=1000),
)


def bytes_of_a_job() -> int:
    """Return the approximate size of the ledger's item of a running job."""
    metrics = JobDefaults.model_fields["metrics"].default
    item = {
        "submission": "0123abcd", "item": job_item(0), "state": "InProgress", "phase": "Training", "attempt": 1,
        "region": "eu-central-1", "regions": ["eu-central-1"], "name": "campaign-2026-11-23", "line": 1, "ranks": 8,
        "training_job": "traingrid-0123abcd-0-1", "training_job_arn": "arn:aws:sagemaker:eu-central-1:" + "x" * 60,
        "batch_child": "x" * 40, "fingerprint": "x" * 64, "array_file": "jobs", "epochs": 90,
        "opened_at": "2026-11-23T08:00:00Z", "updated_at": "2026-11-23T08:00:00Z",
        "progress_at": "2026-11-23T08:00:00Z", "training_started_at": 1795420800,
        "progress": dict.fromkeys(metrics, 0.123456),
    }  # fmt: skip
    return len(json.dumps(marshalled(item)))


def pages(jobs: int) -> int:
    """Return the number of requests that read this number of jobs."""
    return max(1, math.ceil(jobs * bytes_of_a_job() / PAGE_BYTES))


def units(jobs: int) -> int:
    """Return the read request units of these requests."""
    return max(1, math.ceil(jobs * bytes_of_a_job() / UNIT_BYTES))


def lines(situation: Situation) -> Iterator[str]:
    """Yield the lines of the report for a situation."""
    reads, looks = 60 / SHORTEST_SECONDS, 60 / SHORTEST_LOOK_SECONDS
    queries = situation.open_submissions * reads * (pages(situation.jobs) + QUERIES_OF_A_SUBMISSION - 1)
    queries += looks * READS_OF_A_LOOK
    read = situation.open_submissions * reads * (units(situation.jobs) + QUERIES_OF_A_SUBMISSION - 1)
    read += looks * READS_OF_A_LOOK
    submissions = situation.old + situation.open_submissions
    # A read of an index costs half a unit, because it is eventually consistent.
    listed = math.ceil(submissions * BYTES_OF_A_SUBMISSION / UNIT_BYTES) / 2
    hourly = 60 * (read + listed * 60 / SHORTEST_FULL_SECONDS) * prices.READ.dollars
    yield situation.title
    yield f"  {queries:,.0f} requests to DynamoDB a minute, ${hourly:.4f} an hour"
    yield f"  {read:,.0f} read request units a minute, and {listed:,.0f} every 10 minutes for the list of submissions"


def main() -> None:
    """Print the report."""
    for situation in SITUATIONS:
        for line in lines(situation):
            click.echo(line)
    lists = 60 / READ_SECONDS * MOST_JOBS
    hourly = 60 * lists * prices.PUT_REQUEST.dollars
    click.echo(f"curves of {MOST_JOBS} jobs that train\n  {lists:,.0f} requests to S3 a minute, ${hourly:.4f} an hour")
    click.echo(f"a job's item has {bytes_of_a_job():,} bytes; prices: {prices.READ.source}")


if __name__ == "__main__":
    main()
