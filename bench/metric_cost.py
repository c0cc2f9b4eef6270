"""`make metric-cost`: computes the cost of writing and reading the metric history of many jobs.

The rate and the format of parts are those of the training image, the metrics those of a default job, and the prices
list prices in us-east-1 (`traingrid/deploy/prices.py`). Transfers out of a Region are not included.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import click

from traingrid.deploy import prices
from traingrid.job.metrics import metric_regex
from training_container.metric_history.line_reader import LineReader
from training_container.metric_history.parts import SECONDS
from training_container.recipe import metric_lines

JOBS, HOURS = 10_000, 1.0
KEYS_OF_A_LIST = 1_000
"""The maximum number of keys in a reply of ListObjectsV2
(https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html, MaxKeys)."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """An item of the bill, for all jobs.

    Attributes:
        what: The requests or the storage.
        count: The number of units.
    """

    what: str
    count: float
    price: prices.UnitPrice

    @property
    def dollars(self) -> float:
        """Its cost."""
        return self.count * self.price.dollars


def parts_of_a_job(hours: float, seconds_between_lines: float) -> int:
    """Return the number of parts that a job writes: one in each interval with values, and one at its end.

    Args:
        hours: The duration of the job.
        seconds_between_lines: The time between two lines with values.
    """
    return int(hours * 3600 / max(SECONDS, seconds_between_lines)) + 1


def writing(jobs: int, hours: float, seconds_between_lines: float) -> list[Item]:
    """Return the cost of writing, and of a month of storage."""
    parts = jobs * parts_of_a_job(hours, seconds_between_lines)
    size = jobs * hours * 3600 / seconds_between_lines * bytes_of_a_line()
    return [
        Item(what="PutObject", count=parts, price=prices.PUT_REQUEST),
        Item(what="GB stored for a month", count=size / prices.GIGABYTE, price=prices.BUCKET_STORAGE),
    ]


def reading(jobs: int, hours: float, seconds_between_lines: float, seconds_between_reads: float | None) -> list[Item]:
    """Return the cost of a reader.

    Args:
        jobs: The number of jobs, with one attempt each.
        hours: The duration of each job.
        seconds_between_lines: The time between two lines with values.
        seconds_between_reads: The interval of a reader that follows the running jobs; None for one read at the end.
    """
    parts = parts_of_a_job(hours, seconds_between_lines)
    lists = -(-parts // KEYS_OF_A_LIST) if seconds_between_reads is None else int(hours * 3600 / seconds_between_reads)
    return [
        Item(what="ListObjectsV2", count=jobs * lists, price=prices.PUT_REQUEST),
        Item(what="GetObject", count=jobs * parts, price=prices.GET_REQUEST),
    ]


def bytes_of_a_line() -> int:
    """Return the size of an epoch's record with the metrics of a default job."""
    values = {name: 0.123456 for name in metric_lines.BY_DEFAULT if name != "epoch"}
    reader = LineReader({name: metric_regex(name) for name in metric_lines.BY_DEFAULT}, click.echo)
    record = reader.read(metric_lines.line(10, values), 0.0)
    return len(record or "") + 1


def report() -> Iterator[str]:
    """Yield the lines of the report."""
    yield f"{JOBS:,} jobs of an hour with {len(metric_lines.BY_DEFAULT)} metrics, at the list prices of us-east-1"
    for title, seconds in (("a line every second", 1.0), ("a line every 5 minutes", 300.0)):
        yield f"\n{title}: {parts_of_a_job(HOURS, seconds)} parts of a job"
        yield from _items("write", writing(JOBS, HOURS, seconds))
        yield from _items("read once, at the end", reading(JOBS, HOURS, seconds, None))
        yield from _items("follow for the hour, every 30 s", reading(JOBS, HOURS, seconds, 30.0))


def _items(title: str, items: list[Item]) -> Iterator[str]:
    yield f"  {title + ':':<36}${sum(item.dollars for item in items):>6.2f}"
    for item in items:
        yield f"    {item.count:>14,.1f} {item.what:<24}{item.dollars:>8.3f}"


def main() -> None:
    """Print the report."""
    for line in report():
        click.echo(line)
    click.echo(f"\nprices: {prices.PUT_REQUEST.source}; a record has {bytes_of_a_line()} bytes; transfers not included")


if __name__ == "__main__":
    main()
