"""`make bench-ui`: measures the page of `traingrid ui` with 10,000 jobs in Chromium.

The page is served by another process, whose ledger is in memory and changes 200 jobs at once, as at the end of an
epoch. The browser and the server share the machine, as they do for a user. An update is the time in which the page's
functions process an event; the browser's layout and painting follow.
"""

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

from playwright.sync_api import Browser, sync_playwright
from playwright.sync_api import Page as Tab

from bench.machine import description, peak_memory_mib
from bench.report import Result, report
from bench.size import size
from traingrid.api.control_plane import ControlPlane
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings
from traingrid.ledger.grid_items import HistoryScan
from traingrid.ledger.items import JobItem, job_item
from traingrid.ledger.ledger import LedgerItem
from traingrid.ledger.open_marks import OpenMark
from traingrid.ledger.submission_item import SubmissionItem
from traingrid.metrics.history import MetricHistory
from traingrid.metrics.points import MetricPoint
from traingrid.ui.server import Page, listening_socket

JOBS, CHANGED, UPDATES, VISITS = size((10_000, 200, 10, 15), (100, 10, 1, 1))
REGIONS = [f"{area}-{number}" for area in ("us-east", "eu-west", "ap-south", "sa-east") for number in range(1, 6)]
_DRAWN = "performance.getEntriesByName('traingrid-update', 'measure')"
_SUBMISSION = "0123abcd"
_HEAD = {
    "submission": _SUBMISSION,
    "state": "Submitted",
    "manifest": "s3://m/bench.csv",
    "claimed_at": "2026-11-01T00:00:00Z",
}


class _Ledger:
    """A ledger in memory: a tenth of the jobs trains, and each read finds the next epoch of `CHANGED` jobs."""

    def __init__(self) -> None:
        self._head = SubmissionItem.from_item({**_HEAD, "jobs": JOBS})
        self._items = [JobItem.from_item(self._stored(index)) for index in range(JOBS)]
        self._reads = 0

    def history_scan(self) -> HistoryScan:
        return HistoryScan(completed_at=1)

    def open_marks(self) -> dict[str, OpenMark]:
        return {}

    def submissions(self) -> Iterator[SubmissionItem]:
        yield self._head

    def items(self, _: str, _first: int = 0) -> Iterator[LedgerItem]:
        self._reads += 1
        for index in range(CHANGED):
            self._items[index] = JobItem.from_item(self._stored(index, epoch=self._reads))
        yield from self._items
        yield self._head

    def cancels(self, _: str) -> dict[str, Any]:
        return {}

    def shortages(self) -> list[Any]:
        return []

    def rejections(self) -> list[Any]:
        return []

    def pause(self) -> None:
        return None

    def _stored(self, index: int, epoch: int = 0) -> dict[str, Any]:
        metrics = {
            "epoch": float(epoch),
            "train_loss": 2 / (epoch + 1),
            "validation_top1": 0.9,
            "images_per_second": 1e4,
        }
        return {
            "submission": _SUBMISSION, "item": job_item(index), "attempt": 1, "name": f"campaign {index}",
            "state": "InProgress" if index < JOBS // 10 else "Completed", "region": REGIONS[index % len(REGIONS)],
            "opened_at": "2026-11-01T00:00:00Z", "ranks": 8, "epochs": 90, "epoch_seconds": 45.0, "progress": metrics,
            "training_job": f"bench-{index}", "training_started_at": int(time.time()) - 100,
        }  # fmt: skip


def _curve(index: int) -> list[MetricPoint]:
    """Return the values of 90 epochs."""
    return [
        MetricPoint(
            index=index, region=REGIONS[0], attempt=1, metric=metric, value=scale / epoch, step=None, epoch=epoch,
            time=datetime.fromtimestamp(1e9 + epoch, UTC),
        )
        for epoch in range(1, 91)
        for metric, scale in (("train_loss", 2.0), ("validation_top1", 0.9), ("images_per_second", 1e4))
    ]  # fmt: skip


def serve() -> None:
    """Serve the page until the standard input ends; then print the peak memory. It runs in another process."""
    nothing: Any = None
    grid = {
        "name": "bench", "home": "us-east-1", "regions": {"us-east-1": {}},
        "images": {"resnet": {"repository": "training", "tag": "1"}},
        "job": {"image": "resnet", "instance_type": "ml.m5.large"},
    }  # fmt: skip
    deployment = Deployment(
        grid=GridSettings.model_validate(grid), account="123456789012", table="ledger", manifest_bucket="m"
    )
    ledger: Any = _Ledger()
    page = Page(
        plane=ControlPlane(deployment=deployment, ledger=ledger, batch=nothing, storage=nothing), grid_file=Path()
    )
    curves = patch.object(MetricHistory, "read", lambda _, index: _curve(index))
    with listening_socket(0) as listening, patch("traingrid.ui.poller.SHORTEST_FULL_SECONDS", 3600.0), curves:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/?token={page.secrets.token}", flush=True)
        with suppress(KeyboardInterrupt):  # not raised if the shell that started the benchmark ignores SIGINT
            page.serve(listening)
    print(f"{peak_memory_mib('self'):.0f}", flush=True)


def visit(tab: Tab, address: str) -> tuple[float, float]:
    """Open the page, and return the milliseconds until its first paint and until its rows are in the document."""
    tab.goto(address)
    tab.locator(".rows .row").first.wait_for()
    drawn = tab.evaluate(f"{_DRAWN}.map(one => one.startTime + one.duration)")[0]
    paint = tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    return round(paint), round(drawn)


def measured(browser: Browser, address: str) -> dict[str, Any]:
    """Return the milliseconds of all visits and updates; the first visit, to a server without rows, does not count."""
    visits = []
    for number in range(VISITS + 1):
        tab = browser.new_page(viewport={"width": 1440, "height": 1000})
        visits.append(visit(tab, address))
        if number < VISITS:
            tab.close()
    while len(drawn := tab.evaluate(f"{_DRAWN}.map(one => one.duration)")) <= UPDATES:
        time.sleep(1)
    return {
        "paints": [paint for paint, _ in visits[1:]],
        "rows": [rows for _, rows in visits[1:]],
        "first": round(drawn[0], 1),
        "updates": [round(one, 1) for one in drawn[1:]],
        "rows_in_document": tab.locator(".rows .row").count(),
        "load": os.getloadavg()[0],
    }


def main() -> None:
    """Measure, and print a report."""
    chromium, machine = shutil.which("chromium") or shutil.which("google-chrome"), description()
    server = subprocess.Popen([sys.executable, "-m", "bench.ui", "--serve"], stdout=subprocess.PIPE, text=True)
    try:
        if server.stdout is None:
            raise RuntimeError("the server has no standard output")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            found = measured(browser, server.stdout.readline().strip())
            browser.close()
        server.send_signal(2)
        found["server_mib"] = float(server.stdout.readline())
    finally:
        server.kill()
        server.wait()
    aims = [("first paint, median", "paints", 200.0), ("update, median", "updates", 50.0)]
    results = [
        Result(id="", what=what, measured=statistics.median(found[name]), comparison="<=", aim=aim, unit="ms")
        for what, name, aim in aims
    ]
    print(
        f"rows drawn after {statistics.median(found['rows']):.0f} ms (median of {VISITS}), "
        f"{found['rows_in_document']} of them in the document, server {found['server_mib']:.0f} MiB, "
        f"load average {found['load']:.1f}"
    )
    report("ui", results, machine=machine, against="a ledger in memory", details=found)


if __name__ == "__main__":
    serve() if "--serve" in sys.argv else main()
