"""Poller: reads the ledger periodically, in a thread, and publishes it."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.errors import TraingridError
from traingrid.job.failures import FAILURES
from traingrid.metrics.ranking import LOWER_IS_BETTER
from traingrid.ui.access import EXPIRED, RENEW, lacks_credentials
from traingrid.ui.campaigns import Campaigns
from traingrid.ui.view import LedgerView

if TYPE_CHECKING:
    from collections.abc import Callable

    from traingrid.api.control_plane import ControlPlane
    from traingrid.catalog.campaign_facts import CampaignFacts
    from traingrid.ui.feed import Feed

logger = logging.getLogger(__name__)
SHORTEST_SECONDS, SHORTEST_LOOK_SECONDS, SHORTEST_FULL_SECONDS = 2.0, 10.0, 600.0
"""The shortest times between two reads of open submissions, between two looks for other submissions, the pause and
shortages, and between two lists of all submissions."""
UNMARKED_FULL_SECONDS = 30.0
"""The shortest time between two lists of all submissions if the index of open work is not complete yet."""
_MOST_DAMAGED, _MOST_REJECTIONS = 5, 5
_SHARE = 10
"""Reads take at most one tenth of the time, however many jobs the ledger has."""


class Poller:
    """Reads the ledger and publishes it; a read that fails becomes a notice on the page.

    Args:
        writes: True if the page may cancel and retry jobs.
        read_facts: Reads the catalog; returns None if the grid has none.
        renew: Called after a read with expired credentials; it may `use` another control plane.
    """

    def __init__(
        self,
        plane: ControlPlane,
        feed: Feed,
        *,
        writes: bool = False,
        read_facts: Callable[[], CampaignFacts | None] = lambda: None,
        renew: Callable[[], None] = lambda: None,
    ) -> None:
        self._view, self._feed, self._writes = LedgerView(plane), feed, writes
        self._woken, self._stopped = threading.Event(), False
        self._errors: dict[str, str] = {}
        self._ledger_error, self._is_expired, self._renew = "", False, renew
        self._pause = ""
        self._shortages: dict[str, list[str]] = {}
        self._rejections: list[str] = []
        self.campaigns = Campaigns(plane, self._view, read_facts, self._show_campaigns)
        self._thread = threading.Thread(target=self._run, name="poller", daemon=True)

    def start(self) -> None:
        """Start the threads."""
        self._thread.start()
        self.campaigns.start()

    def stop(self) -> None:
        """End the threads after their current reads."""
        self._stopped = True
        self._woken.set()
        self.campaigns.stop()

    def wake(self) -> None:
        """Read at once, for example after a cancel."""
        self._woken.set()

    def use(self, plane: ControlPlane) -> None:
        """Use another control plane of the same grid from the next read on."""
        self._view.plane = plane
        self.campaigns.use(plane)

    def note_region(self, region: str, error: str) -> None:
        """Record whether a Region has answered, for its lane.

        Args:
            error: The error of the last request; empty if it has answered.
        """
        earlier_error = self._errors.get(region, "")
        if error != earlier_error:
            self._errors[region] = error
            self._feed.publish_head(regions=self._regions())

    def full_seconds(self) -> float:
        """Return the shortest time between two lists of all submissions."""
        return SHORTEST_FULL_SECONDS if self._view.finds_changes else UNMARKED_FULL_SECONDS

    def read(self, *, everything: bool, look: bool = True) -> None:
        """Read the ledger once, and publish it, or the error of the read.

        Args:
            everything: List all submissions; otherwise read only the open ones.
            look: Look for new and retried submissions, the pause and shortages, too.
        """
        try:
            if everything:
                self._view.read_all()
            else:
                self._view.read_open()
            if look:
                self._look(is_listed=everything)
            self._ledger_error, self._is_expired = "", False
        except (BotoCoreError, ClientError, TraingridError) as error:
            if str(error) != self._ledger_error:
                logger.warning("the ledger cannot be read now: %s", error)
            self._ledger_error, self._is_expired = str(error), lacks_credentials(error)
            if self._is_expired:
                self._renew()
        self._feed.publish(self._view.all_rows(), self._head())

    def _look(self, *, is_listed: bool) -> None:
        """Read everything but jobs; `is_listed` is True if all submissions have been listed."""
        if not is_listed:
            self._view.read_changed()
        pause = self._view.plane.ledger.pause()
        self._pause = pause.sentence if pause else ""
        self._shortages = self._view.shortages()
        self._rejections = self._view.rejections()

    def _run(self) -> None:
        try:
            self._poll()
        except Exception as error:  # the thread has no other boundary
            logger.debug("the poller has ended", exc_info=True)
            why = f"unexpected {type(error).__name__}: {error}"
            text = f"The page is no longer updated: {why}. Start `traingrid ui` again."
            self._feed.publish_head(notices=[{"kind": "error", "text": text}])

    def _poll(self) -> None:
        next_full = next_look = 0.0
        while not self._stopped:
            began = time.monotonic()
            everything, look = began >= next_full, began >= min(next_look, next_full)
            self.read(everything=everything, look=look)
            took = time.monotonic() - began
            if everything and not self._ledger_error:
                next_full = began + max(self.full_seconds(), _SHARE * took)
            if look and not self._ledger_error:
                next_look = began + max(SHORTEST_LOOK_SECONDS, _SHARE * took)
            if self._woken.wait(max(SHORTEST_SECONDS, _SHARE * took)):
                next_look = 0.0
            self._woken.clear()

    def _show_campaigns(self) -> None:
        self._feed.publish_head(campaigns=self.campaigns.value)

    def _head(self) -> dict[str, Any]:
        grid = self._view.plane.deployment.grid
        return {
            "grid": grid.name,
            "home": grid.home,
            "writes": self._writes,
            "regions": self._regions(),
            "campaigns": self.campaigns.value,
            "submissions": self._view.submissions(),
            "notices": self._notices(),
            "lower_is_better": LOWER_IS_BETTER,
            "failures": {
                name: {"sentence": failure.sentence, "next_step": failure.next_step}
                for name, failure in FAILURES.items()
            },
        }

    def _regions(self) -> list[dict[str, Any]]:
        return [
            {"name": name, "error": self._errors.get(name, ""), "shortages": self._shortages.get(name, [])}
            for name in self._view.plane.deployment.grid.regions
        ]

    def _notices(self) -> list[dict[str, str]]:
        notices = []
        if self._is_expired:
            notices.append({"kind": "error", "text": f"{EXPIRED} States may be out of date. {RENEW}"})
        elif self._ledger_error:
            home = self._view.plane.deployment.grid.home
            text = f"The ledger in {home} cannot be read, so states may be out of date. {self._ledger_error}"
            notices.append({"kind": "error", "text": text})
        if self._pause:
            notices.append({"kind": "warning", "text": self._pause})
        notices += [{"kind": "rejection", "text": text} for text in self._rejections[:_MOST_REJECTIONS]]
        if len(self._rejections) > _MOST_REJECTIONS:
            more = len(self._rejections) - _MOST_REJECTIONS
            text = f"{more} more manifests were rejected; `traingrid status` lists them."
            notices.append({"kind": "rejection", "text": text})
        damaged = [part for parts in self._view.damaged.values() for part in parts]
        notices += [{"kind": "error", "text": str(part)} for part in damaged[:_MOST_DAMAGED]]
        if len(damaged) > _MOST_DAMAGED:
            text = f"{len(damaged) - _MOST_DAMAGED} more parts cannot be read; `traingrid audit` lists them."
            notices.append({"kind": "error", "text": text})
        if self._view.left_out:
            text = f"{self._view.left_out} older submissions are not shown; `traingrid status` lists them."
            notices.append({"kind": "information", "text": text})
        return notices
