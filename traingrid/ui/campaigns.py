"""Campaigns: the campaign of each job, and the copies of data that jobs will make, if the grid has a catalog.

A separate thread reads the catalog, so that a database that does not answer delays nothing else.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.deploy.prices import GIGABYTE
from traingrid.errors import TraingridError
from traingrid.job.state import FINAL_STATES
from traingrid.ledger.damage import readable, warn
from traingrid.ledger.moves import Moves
from traingrid.submission.submitted_jobs import last_submitted_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from traingrid.api.control_plane import ControlPlane
    from traingrid.catalog.campaign_facts import CampaignFacts
    from traingrid.job.job import Job
    from traingrid.ledger.moves import MoveItem
    from traingrid.ledger.submission_item import SubmissionItem
    from traingrid.ui.view import LedgerView

logger = logging.getLogger(__name__)
SECONDS = 30.0
"""The time between two reads of the catalog."""
MOST_MOVES = 200


@dataclass(frozen=True)
class _Labels:
    """The campaigns of the jobs of a submission, and its jobs that copy data.

    Attributes:
        campaigns: The campaign of each job, by index; empty for a job without one.
        copying: The jobs with `copy_from`.
    """

    campaigns: Mapping[int, str]
    copying: tuple[Job, ...] = ()


class Campaigns:
    """Reads the catalog periodically.

    Args:
        read_facts: Reads the catalog; returns None if the grid has none.
        changed: Called after each read.

    Attributes:
        value: The campaigns as the page gets them; None if the grid has no catalog.
    """

    def __init__(
        self,
        plane: ControlPlane,
        view: LedgerView,
        read_facts: Callable[[], CampaignFacts | None],
        changed: Callable[[], None],
    ) -> None:
        self.value: dict[str, Any] | None = None
        self._plane, self._view, self._read_facts, self._changed = plane, view, read_facts, changed
        self._moves = Moves(plane.deployment.table, plane.deployment.grid.home)
        self._jobs: dict[str, tuple[int, dict[int, Job]]] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="campaigns", daemon=True)

    def use(self, plane: ControlPlane) -> None:
        """Use another control plane of the same grid from the next read on."""
        self._plane, self._moves = plane, Moves(plane.deployment.table, plane.deployment.grid.home)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after its current read."""
        self._stopped.set()

    def read(self) -> None:
        """Read the catalog once; an error becomes a marker beside the last campaigns."""
        try:
            facts = self._read_facts()
            self.value = None if facts is None else self._page_data(facts)
        except (TraingridError, BotoCoreError, ClientError) as error:
            self._mark(str(error))
        except Exception as error:  # an unknown error of the database's driver must not end the thread
            logger.debug("the catalog cannot be read", exc_info=True)
            self._mark(f"Unexpected {type(error).__name__}: {error}")
        self._changed()

    def _mark(self, error: str) -> None:
        self.value = {**(self.value or {"names": [], "jobs": {}, "runs": {}, "moves": []}), "error": error}

    def _run(self) -> None:
        seconds = 1.0  # until the ledger has been read first
        while not self._stopped.wait(seconds):
            self.read()
            seconds = SECONDS if self._view.heads else 1.0

    def _page_data(self, facts: CampaignFacts) -> dict[str, Any]:
        items = dict(self._view.heads)
        self._jobs = {submission: cached for submission, cached in self._jobs.items() if submission in items}
        labels_by_submission = {submission: self._labels(item, facts) for submission, item in items.items()}
        used = {campaign for labels in labels_by_submission.values() for campaign in labels.campaigns.values()}
        campaigns = sorted((used | set(facts.runs)) - {""})
        # "jobs" refers to campaigns by their position in "names".
        numbers = {campaign: number for number, campaign in enumerate(campaigns)}
        return {
            "names": campaigns,
            "jobs": {
                submission: _compact(labels.campaigns, numbers) for submission, labels in labels_by_submission.items()
            },
            "runs": {
                campaign: {"runs": runs, "dollars": round(dollars, 4)}
                for campaign, (runs, dollars) in facts.runs.items()
            },
            "moves": self._planned_moves(labels_by_submission.values(), facts),
            "error": "",
        }

    def _labels(self, submission_item: SubmissionItem, facts: CampaignFacts) -> _Labels:
        """Return the campaigns of a submission: from its runs after its end, otherwise from its lines."""
        name = submission_item.submission
        rows = self._view.rows.get(name, {}).values()
        job_labels = facts.jobs.get(name, {})
        if all(row["state"] in FINAL_STATES for row in rows) and len(job_labels) == submission_item.jobs:
            self._jobs.pop(name, None)
            return _Labels(job_labels)
        if self._jobs.get(name, (None,))[0] != len(submission_item.arrays):
            jobs = last_submitted_jobs(
                self._plane.storage, self._plane.deployment.manifest_bucket, submission_item, warn
            )
            self._jobs[name] = len(submission_item.arrays), jobs
        jobs = self._jobs[name][1]
        copying = tuple(job for job in jobs.values() if job.copy_from and not self._has_ended(name, job.index))
        return _Labels({index: _campaign_of(job, facts) for index, job in jobs.items()}, copying)

    def _has_ended(self, submission: str, index: int) -> bool:
        row = self._view.rows.get(submission, {}).get(f"{submission}/{index}")
        return row is not None and row["state"] in FINAL_STATES

    def _planned_moves(self, labels_of_submissions: Iterable[_Labels], facts: CampaignFacts) -> list[dict[str, Any]]:
        """Return the copies that open jobs need, by campaign."""
        jobs_by_target: dict[str, list[Job]] = defaultdict(list)
        for labels in labels_of_submissions:
            for job in labels.copying:
                jobs_by_target[job.copy_to].append(job)
        if not jobs_by_target:
            return []
        item_by_target = {item.target: item for item in readable(self._moves.all(), warn)}
        moves = [_move(jobs, item_by_target.get(target), facts) for target, jobs in jobs_by_target.items()]
        return sorted(moves, key=lambda move: (move["campaign"], move["target"]))[:MOST_MOVES]


def _campaign_of(job: Job, facts: CampaignFacts) -> str:
    """Return the campaign of a job's data, or of the data that it copies."""
    uris = [job.copy_from, *(channel.location for channel in job.inputs.values())]
    places = (facts.place_of(uri) for uri in uris[:2] if uri)
    return next((place.campaign for place in places if place), "")


def _move(jobs: list[Job], item: MoveItem | None, facts: CampaignFacts) -> dict[str, Any]:
    job, place = jobs[0], facts.place_of(jobs[0].copy_from)
    size = item.bytes if item and item.bytes else place.bytes if place else None
    origin = item.from_region if item else place.region if place else ""
    price = facts.transfer_prices.get((origin, job.region))
    return {
        "campaign": _campaign_of(job, facts),
        "source": job.copy_from,
        "target": job.copy_to,
        "from": origin,
        "to": job.region,
        "bytes": size,
        "dollars": round(size / GIGABYTE * price, 4) if size is not None and price is not None else None,
        "state": item.state if item and item.state in ("copying", "copied") else "planned",
        "percent": item.percent if item else 0,
        "jobs": len(jobs),
    }


def _compact(campaigns: Mapping[int, str], numbers: Mapping[str, int]) -> int | list[int]:
    """Return the numbers of the campaigns by index; one number if it is that of all jobs, and -1 for none."""
    if not campaigns:
        return -1
    indexes = [numbers.get(campaigns.get(index, ""), -1) for index in range(max(campaigns) + 1)]
    return indexes[0] if _all_same(indexes) else indexes


def _all_same(values: Iterable[int]) -> bool:
    return len(set(values)) == 1
