"""`make bench-history`: measures reads of a grid with 100 open lines and a history of ended jobs, in an in-memory AWS.

They are a pass, the list of `traingrid status`, `traingrid audit`, and a poll of the page. The history is older than
two days, and one submission has up to 10,000 of its jobs. A training job of the last two days costs a hundredth of a
call in each of two lists. Read units are computed from the sizes of the items, for consistent reads, and half of that
for the daily scan and the index of submissions.
"""

import math
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from bench.machine import description
from bench.report import Result, report
from bench.size import size
from tests.support.sample_deployment import sample_deployment
from traingrid import names
from traingrid.audit.read_snapshot import read_world
from traingrid.backends.sagemaker.inventory import SageMakerInventory
from traingrid.backoff import PASS_SECONDS
from traingrid.deploy import prices
from traingrid.job.state import JobState
from traingrid.ledger.items import job_item
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.timestamps import timestamp
from traingrid.reconciler.reconciler import Reconciler
from traingrid.submission.batch_children import ChildStatus
from traingrid.ui.view import LedgerView
from verification.model.table import Condition

HISTORIES = size((0, 1_000, 100_000, 1_000_000), (0, 1_000))
OPEN_LINES, MAX_LINES, PAGE_BYTES, UNIT_BYTES = 100, 10_000, 2**20, 4096
REGION, OLD_SECONDS = "us-east-1", 10 * 24 * 3600
Item = dict[str, Any]


def a_job(state: JobState) -> Item:
    """Return the fields of a job's item, which has about a kilobyte."""
    metrics = {"epoch": 90.0, "train_loss": 1.8423, "validation_loss": 1.7312, "validation_top1": 0.7213}
    return {
        "state": state, "attempt": 1, "region": REGION, "name": "campaigns-oslo-2026-10", "line": 1, "ranks": 80,
        "regions": [REGION], "opened_at": timestamp(time.time() - 600), "updated_at": timestamp(time.time() - 600),
        "array_file": "jobs", "batch_child": "8f7c1c9e-5c5f-4d0f-9a53-3d9e4d0b7a11:1", "fingerprint": "0f" * 32,
        "training_job": "traingrid-0123abcd-1-1", "training_job_arn": "arn:aws:sagemaker:us-east-1:1:training-job/t",
        "phase": "Training", "epochs": 90, "progress": metrics, "metrics": metrics, "training_seconds": 4021,
        "billable_seconds": 3977, "artifact": f"s3://traingrid-output-123456789012-us-east-1/{'x' * 60}/model.tar.gz",
    }  # fmt: skip


class MeasuredTable:
    """A table in memory that counts calls and read units. The jobs of the history share their fields.

    Attributes:
        calls: The number of calls by operation; a page counts as one.
        units: The number of read units.
    """

    def __init__(self) -> None:
        self.partitions: dict[str, dict[str, Item]] = {}
        self.calls: Counter[str] = Counter()
        self.units = 0.0

    def get(self, submission: str, item: str) -> Item | None:
        """See `Table.get`."""
        found = self.partitions.get(submission, {}).get(item)
        self._count("GetItem", _bytes(found) if found else 0)
        return {"submission": submission, "item": item, **found} if found else None

    def put(self, item: Item) -> None:
        """See `Table.put`."""
        self.calls["PutItem"] += 1
        self.partitions.setdefault(item["submission"], {})[item["item"]] = item

    def put_new(self, item: Item) -> bool:
        """See `Table.put_new`."""
        is_new = item["item"] not in self.partitions.get(item["submission"], {})
        self.calls["PutItem"] += 1
        if is_new:
            self.partitions.setdefault(item["submission"], {})[item["item"]] = item
        return is_new

    def query(self, submission: str, condition: str, value: str) -> Iterator[Item]:
        """See `Table.query`."""
        begins, read = condition.startswith("begins_with"), 0
        for item, found in self.partitions.get(submission, {}).items():
            if item.startswith(value) if begins else item >= value:
                read += _bytes(found)
                yield {**found, "submission": submission, "item": item}
        self._count("Query", read)

    def query_index(self, _index: str, _condition: str, _values: Item) -> Iterator[Item]:
        """See `Table.query_index`; only the index of submissions is queried."""
        heads = {name: items["submission"] for name, items in self.partitions.items() if "submission" in items}
        self._count("Query", sum(map(_bytes, heads.values())), share=0.5)
        yield from ({**head, "submission": name, "item": "submission"} for name, head in heads.items())

    def scan_page(self, condition: str, values: Item, after: Item | None) -> tuple[list[tuple[str, str]], Item | None]:
        """See `Table.scan_page`; here the last page has the rest of a submission."""
        holds, found, read = Condition(condition, values).holds, [], 0
        for name in sorted(name for name in self.partitions if after is None or name > after["submission"]):
            for item, fields in self.partitions[name].items():
                read += _bytes(fields)
                if item == "submission" or fields.get("state") != JobState.COMPLETED:
                    found += [(name, item)] if holds({**fields, "item": item}) else []
            if read >= PAGE_BYTES:
                self._count("Scan", read, share=0.5)
                return found, {"submission": name, "item": "submission"}
        self._count("Scan", read, share=0.5)
        return found, None

    def update(self, key: tuple[str, str], changes: Item, *_: Any, **__: Any) -> bool:
        """See `Table.update`; every condition holds."""
        self.calls["UpdateItem"] += 1
        self.partitions[key[0]][key[1]] = {**self.partitions[key[0]][key[1]], **changes}
        return True

    def delete(self, key: tuple[str, str], *_: Any) -> bool:
        """See `Table.delete`; every condition holds."""
        self.calls["DeleteItem"] += 1
        return self.partitions[key[0]].pop(key[1], None) is not None

    def _count(self, operation: str, read: int, share: float = 1.0) -> None:
        self.calls[operation] += max(math.ceil(read / PAGE_BYTES), 1)
        self.units += share * max(math.ceil(read / UNIT_BYTES), 1)


_SIZES: dict[int, int] = {}


def _bytes(fields: Item) -> int:
    """Return about the size of an item; items of the history are one object."""
    if id(fields) not in _SIZES:
        _SIZES[id(fields)] = 40 + sum(len(name) + len(str(value)) for name, value in fields.items())
    return _SIZES[id(fields)]


class LongHistory:
    """SageMaker with ended training jobs, and with those of the open lines."""

    def __init__(self, ended: int, running: list[str]) -> None:
        self.ended, self.running, self.pages = ended, running, 0

    def get_paginator(self, _: str) -> "LongHistory":
        """Return the paginator."""
        return self

    def paginate(self, **request: Any) -> Iterator[dict[str, Any]]:
        """Yield the pages: first the new jobs, then the history, whose pages are empty after the filter by state."""
        now = time.time()
        is_older = "CreationTimeBefore" in request
        wanted = self.running if request.get("StatusEquals", "InProgress") == "InProgress" and not is_older else []
        is_recent = request["CreationTimeAfter"].timestamp() > now - OLD_SECONDS
        count = len(self.running) + (0 if is_recent else self.ended)
        for number in range(max(math.ceil(count / 100), 1)):
            self.pages += 1
            shown = wanted[number * 100 : number * 100 + 100]
            more = {"NextToken": "more"} if (number + 1) * 100 < count else {}
            yield {"TrainingJobSummaries": [_summary(name, now) for name in shown], **more}


def _summary(name: str, now: float) -> dict[str, Any]:
    at = datetime.fromtimestamp(now - 500, UTC)
    return {"TrainingJobName": name, "TrainingJobArn": name, "TrainingJobStatus": "InProgress", "CreationTime": at}


class Running:
    """Batch's children: all run."""

    def of(self, _head: Any, lines: Mapping[int, Any]) -> dict[int, ChildStatus]:
        """See `Children.of`."""
        return {index: ChildStatus(id=f"array:{index}", status="RUNNING") for index in lines}


def filled(table: MeasuredTable, history: int) -> list[str]:
    """Write a history as a version without the index has, and an open submission; return its training jobs."""
    ended = a_job(JobState.COMPLETED)
    for number, start in enumerate(range(0, history, MAX_LINES)):
        lines = min(MAX_LINES, history - start)
        table.partitions[f"{number:08x}"] = dict.fromkeys(map(job_item, range(lines)), ended) | {
            "submission": _head(lines)
        }
    running = a_job(JobState.IN_PROGRESS)
    name = "ffffffff"
    table.partitions[name] = {job_item(index): running for index in range(OPEN_LINES)} | {
        "submission": _head(OPEN_LINES)
    }
    return [names.training_job("traingrid", name, index, 1) for index in range(OPEN_LINES)]


def _head(lines: int) -> Item:
    array = {"batch_job": "array", "file": "jobs.jsonl", "count": lines}
    facts = {"state": "Submitted", "manifest": "s3://m/manifests/a.csv", "jobs": lines, "batch_job": "array"}
    return {**facts, "claimed_at": timestamp(time.time() - 700), "arrays": [array]}


def measured(history: int) -> dict[str, Any]:
    """Return the figures of the passes over a history."""
    table = MeasuredTable()
    sagemaker = LongHistory(history, filled(table, history))
    with patch("traingrid.ledger.ledger.Table", lambda *_: table):
        ledger = Ledger("table")
    reconciler = a_reconciler(ledger, sagemaker)
    began, passes = time.perf_counter(), 0
    while not passes or len(ledger.open_marks()) > 1:  # the first passes complete the index, and settle the history
        reconciler.run_pass()
        passes += 1
    first = {"first_sweeps": passes, "first_seconds": round(time.perf_counter() - began, 2)}
    found = _run_pass(reconciler, table, sagemaker) | _reads(ledger, table, sagemaker)
    progress = ledger.history_scan()
    table.units = 0.0
    ledger.record_history_scan(type(progress)())
    reconciler.run_pass()
    daily = table.units - found["read_units"]
    return {**found, **first, "daily_pass_units": round(daily), "dollars_a_month": _dollars(daily)}


def _reads(ledger: Ledger, table: MeasuredTable, sagemaker: LongHistory) -> dict[str, Any]:
    """Return the calls and read units of the list of submissions, an audit, and a poll of the page."""
    plane: Any = SimpleNamespace(ledger=ledger)
    view = LedgerView(plane)
    view.read_all()

    def poll() -> None:
        view.read_open()
        view.read_changed()
        ledger.pause()
        view.shortages()
        view.rejections()

    reads: dict[str, Callable[[], object]] = {
        "list": lambda: list(ledger.submissions()),
        "audit": lambda: _audited(ledger, sagemaker),
        "page": poll,
    }
    figures: dict[str, Any] = {}
    for name, read in reads.items():
        table.calls.clear()
        table.units, sagemaker.pages = 0.0, 0
        read()
        figures |= {f"{name}_calls": sum(table.calls.values()) + sagemaker.pages, f"{name}_units": table.units}
    return figures


def _audited(ledger: Ledger, sagemaker: LongHistory) -> None:
    """Audit the open work."""
    deployment = sample_deployment()

    def inventory(_: object, region: str) -> SageMakerInventory:
        found = sagemaker if region == REGION else LongHistory(0, [])
        return SageMakerInventory(deployment, region, lambda *_: found)

    with ExitStack() as stack:
        for name, value in {
            "inventory_of": inventory,
            "Ledger": lambda *_: ledger,
            "Storage": lambda *_: None,
            "Children": lambda *_: Running(),
            "_batch_job_ids_by_name": lambda *_: {},
        }.items():
            stack.enter_context(patch(f"traingrid.audit.read_snapshot.{name}", value))
        world = read_world(deployment, is_complete=False)
    if len(world.submissions) != 1:
        raise RuntimeError(f"the audit has read {len(world.submissions)} submissions")


def _run_pass(reconciler: Reconciler, table: MeasuredTable, sagemaker: LongHistory) -> dict[str, Any]:
    """Return the figures of one pass: the best time of five."""
    seconds = []
    for _ in range(5):
        table.calls.clear()
        table.units, sagemaker.pages = 0.0, 0
        began = time.perf_counter()
        done = reconciler.run_pass()
        seconds.append(time.perf_counter() - began)
    if done.lines != {JobState.IN_PROGRESS: OPEN_LINES} or done.running != OPEN_LINES:
        raise RuntimeError(f"the pass has found {done.lines}, and {done.running} training jobs")
    calls, units = sum(table.calls.values()) + sagemaker.pages, table.units
    tracemalloc.start()
    reconciler.run_pass()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    table.units = units
    return {"calls": calls, "read_units": units, "seconds": round(min(seconds), 4), "peak_kib": peak // 1024}


def _dollars(daily_units: float) -> float:
    """Return the cost of the history in a month: that of the daily scans, because passes do not read it."""
    return round(daily_units * prices.HOURS / 24 * prices.READ.dollars, 3)


def a_reconciler(ledger: Ledger, sagemaker: LongHistory) -> Reconciler:
    """Return a reconciler of one Region, with all children alive."""
    deployment = sample_deployment()
    fake: Any = SimpleNamespace(find=lambda *_: None)
    children: Any = Running()
    return Reconciler(
        grid="traingrid",
        bucket=deployment.manifest_bucket,
        ledger=ledger,
        storage=fake,
        children=children,
        batch=fake,
        regions=[REGION],
        inventory=lambda region: SageMakerInventory(deployment, region, lambda *_: sagemaker),
        backend=lambda *_: fake,
        map_regions=map,
    )


def main() -> None:
    """Measure, and print a report."""
    machine = description()
    found = {history: measured(history) for history in HISTORIES}
    least, most = found[HISTORIES[1]], found[HISTORIES[-1]]
    sizes = f"{HISTORIES[-1]:,} ended jobs to {HISTORIES[1]:,}"
    figures = {"calls": "calls", "read_units": "read units", "peak_kib": "memory", "seconds": "time"}
    results = [
        _result(f"{what} of a sweep, {sizes}", round(most[name] / least[name], 3), 1.1, "times")
        for name, what in figures.items()
    ]
    results += [
        _result(f"calls of {what}, {sizes}", round(most[f"{name}_calls"] / least[f"{name}_calls"], 3), 1.1, "times")
        for name, what in {"list": "the list of submissions", "audit": "an audit", "page": "a poll of the page"}.items()
    ]
    results.append(_result(f"idle cost of {HISTORIES[-1]:,} ended jobs", most["dollars_a_month"], 1.0, "$ a month"))
    for history, measurement in found.items():
        print(f"{history:>9,} ended jobs: {measurement}")
    against = f"an in-memory AWS, not AWS; a sweep runs every {PASS_SECONDS} s"
    report(
        "history",
        results,
        machine=machine,
        against=against,
        details={str(history): figure for history, figure in found.items()},
    )


def _result(what: str, figure: float, aim: float, unit: str) -> Result:
    return Result(id="", what=what, measured=figure, comparison="<=", aim=aim, unit=unit)


if __name__ == "__main__":
    main()
