"""E16: datasets register themselves while their events are repeated, late and out of order, and the function dies."""

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from localcloud.faults.plan import CallFault, EventFault
from traingrid import names
from traingrid.audit.violation import Violation
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri
from traingrid.ledger.damage import intact
from traingrid.ledger.datasets import DatasetItem, Datasets
from traingrid.submission.files import submission_id
from verification.faults.account import ACCOUNT
from verification.faults.faulty_grid import FaultyGrid, settled
from verification.faults.kills import KILLS, kills_of, otherwise_ended, states
from verification.faults.submissions import REGIONS
from verification.faults.table import Outcome

RULE = "all"
"""The rule of the grid under test (verification/faults/deployment.py): it matches every dataset."""

_SHARE = 0.06
"""Share of the function's calls that kill it, before and after. Lambda tries an event three times."""

_QUIET_SECONDS = 20.0
"""Seconds without a call after which markers are uploaded again: longer than a delay and a retry."""
_PATIENCE_SECONDS = 300.0
"""Seconds without a new replica after which the experiment fails. On a busy machine, a function starts in minutes."""


def registered(grid: FaultyGrid, datasets: int, copies: int) -> Outcome:
    """E16: upload each dataset to two Regions; a fifth of the markers is wrong at first.

    The events of markers arrive `copies` times, late and out of order, and the function is killed at its calls. Markers
    without a report are uploaded again, as docs/datasets.md advises. Every version must be registered once with both
    replicas, and have started exactly one training.

    Args:
        copies: Number of deliveries of a marker's event.
    """
    shuffled = EventFault(source="aws.s3", duplicate=1.0, copies=copies, delay=0.5, reorder=0.3, seconds=2.0)
    kills = tuple(CallFault(effect=effect, share=_SHARE) for effect in KILLS)
    return _under(grid, datasets, kills, (shuffled,), f"{2 * datasets} markers x {copies} events")


def after_the_write(grid: FaultyGrid, kills: int) -> Outcome:
    """E16: kill the function right after S3 has stored a rule's manifest, before it can record that.

    Args:
        kills: Number of kills and of datasets.
    """
    kill = CallFault(effect="kill_after", service="s3", action="PutObject", nth=1, times=kills)
    return _under(grid, kills, (kill,), (), f"{2 * kills} markers")


def _under(
    grid: FaultyGrid, datasets: int, kills: tuple[CallFault, ...], events: tuple[EventFault, ...], volume: str
) -> Outcome:
    uploads = _Uploads(grid=grid, names=[f"set-{number}-{int(time.time())}" for number in range(datasets)])
    function = f"lambda/{grid.output('RegisterFunction')}"
    own = tuple(kill.model_copy(update={"caller": function}) for kill in kills)
    grid.plan(stub_seconds=0.5, events=events, calls=own)
    uploads.all(random.Random(grid.seed))  # noqa: S311 - which markers are wrong, no secret
    rounds = _until_registered(uploads)
    struck = kills_of(grid)
    grid.plan(stub_seconds=0.5)
    grid.quiet()
    submissions = [grid.submitted(submission) for submission in uploads.submissions()]
    settled(grid, submissions)
    ids = [submission.id for submission in submissions]
    return Outcome(
        volume=f"{volume}, {len(struck)} kills",
        struck=len(struck),
        violations=[*uploads.violations(), *grid.audit(*ids), *otherwise_ended(grid, submissions, {"Completed"})],
        facts={
            "kills_by_call": dict(Counter(struck)),
            "states": states(grid, submissions),
            "submissions": len(ids),
            "rounds_of_uploads": rounds,
        },
    )


def _until_registered(uploads: "_Uploads") -> int:
    """Upload markers of unregistered replicas again until none is left; return the number of rounds."""
    rounds, left, since = 1, uploads.missing(), time.monotonic()
    while True:
        _until_quiet(uploads)
        missing = uploads.missing()
        if not missing:
            return rounds
        if len(missing) < len(left):
            left, since = missing, time.monotonic()
        if time.monotonic() > since + _PATIENCE_SECONDS:
            raise TimeoutError(f"not registered after {rounds} uploads: {missing}")
        for name, region in missing:
            uploads.mark(name, region)
        rounds += 1


def _until_quiet(uploads: "_Uploads") -> None:
    """Wait until every replica is registered, or the function has made no call for a while."""
    calls, since = -1, time.monotonic()
    while uploads.missing() and time.monotonic() < since + _QUIET_SECONDS:
        time.sleep(2.0)
        if (calls_now := uploads.calls()) != calls:
            calls, since = calls_now, time.monotonic()


@dataclass(frozen=True, kw_only=True)
class _Uploads:
    """The datasets of the experiment.

    Attributes:
        names: The names of the datasets.
        wrong: The replicas whose first marker was wrong.
    """

    grid: FaultyGrid
    names: list[str]
    wrong: list[tuple[str, str]] = field(default_factory=list)

    def all(self, chance: random.Random) -> None:
        """Upload every dataset to both Regions, a fifth of them with a wrong marker first."""
        for name in self.names:
            for region in REGIONS:
                for channel in ("train", "validation"):
                    key = f"{name}/{channel}/part"
                    client("s3", region).put_object(Bucket=_bucket(region), Key=key, Body=b"12345")
                if chance.random() < 0.2:
                    self.wrong.append((name, region))
                    self.mark(name, region, objects=3)
                self.mark(name, region)

    def mark(self, name: str, region: str, objects: int = 2) -> None:
        """Upload the marker of a replica."""
        marker = {"dataset": name, "version": "1", "bytes": 10, "objects": objects}
        client("s3", region).put_object(
            Bucket=_bucket(region), Key=f"{name}/{names.DATASET_MARKER}", Body=json.dumps(marker).encode()
        )

    def calls(self) -> int:
        """Return the number of calls of the function so far."""
        return len(self.grid.cloud.record.entries("s3", "GetObject"))

    def missing(self) -> list[tuple[str, str]]:
        """Return the replicas that are not registered, or whose rule has not run."""
        item_by_dataset = {item.dataset: item for item in self._items()}
        return [
            (name, region)
            for name in self.names
            for region in REGIONS
            if name not in item_by_dataset
            or region not in item_by_dataset[name].replicas
            or item_by_dataset[name].pending
        ]

    def submissions(self) -> list[str]:
        """Return the ids of the submissions of all manifests that the rule wrote."""
        manifests = [version for name in self.names for version in self._versions(name)]
        return [submission_id(str(S3Uri(self._manifests, key)), version) for key, version in manifests]

    def violations(self) -> Iterator[Violation]:
        """Yield a violation for each dataset that has no manifest or several, or other facts than its marker."""
        for item in self._items():
            if item.dataset not in self.names:
                continue
            if (item.bytes, item.objects, set(item.replicas)) != (10, 2, set(REGIONS)):
                yield Violation(invariant="E16", kind="other", submission="", what=f"{item} differs from its marker")
            started = len(self._versions(item.dataset))
            if started != 1:
                kind: Any = "duplicate" if started else "lost"
                sentence = f"{item.dataset} has {started} versions of its manifest"
                yield Violation(invariant="E16", kind=kind, submission="", what=sentence)

    def _versions(self, name: str) -> list[tuple[str, str]]:
        key = names.generated_manifest(RULE, name, "1")
        reply = client("s3", "us-east-1").list_object_versions(Bucket=self._manifests, Prefix=key)
        return [
            (version["Key"], version["VersionId"]) for version in reply.get("Versions", []) if version["Key"] == key
        ]

    def _items(self) -> list[DatasetItem]:
        return list(intact(Datasets(self.grid.plane.deployment.table, "us-east-1").all()))

    @property
    def _manifests(self) -> str:
        return self.grid.plane.deployment.manifest_bucket


def _bucket(region: str) -> str:
    return names.data_bucket("grid", ACCOUNT, region)
