"""An in-memory AWS account for traingrid's classes, and the invariants that must hold in it at every moment."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from botocore.exceptions import ReadTimeoutError

from traingrid import names
from traingrid.job.failures import STOPPED_BY_USER, TAKEN_NAMES
from traingrid.job.state import FINAL_STATES
from traingrid.late_request import SIGNATURE_SECONDS, raise_if_late
from traingrid.ledger.user_requests import is_cancelled
from verification.model.actors import Actor, Turns
from verification.model.batch import BatchChild, BatchQueue
from verification.model.cluster import CLUSTER, ClusterInventory, cluster_backend
from verification.model.refusals import refusal
from verification.model.sagemaker import SageMakerRegion, TrainingJob
from verification.model.storage import Bucket
from verification.model.table import Item, ModelTable

GRID = "traingrid"
START = 1_800_000_000.0
_CLOCKED = (
    "ledger.field_types",
    "ledger.timestamps",
    "reconciler.active_jobs",
    "reconciler.unwatched_lines",
    "reconciler.reconciler",
    "reconciler.stops",
    "reconciler.line_closer",
    "reconciler.open_work",
    "submission.intake",
    "submission.retry_plan",
    "audit.read_snapshot",
)
"""Modules of traingrid that read the time."""


class Account:
    """The account.

    Attributes:
        turns: The actors and the clock.
        regions: SageMaker by Region.
        clusters: The clusters of EKS by Region.
        calls: Accepted create calls, in the form of `traingrid.audit.snapshot.World.calls`.
        throttled: Services that throttle every call.
        living: Returns the number of running children of a line, including those that Batch considers dead.
    """

    def __init__(self, regions: tuple[str, ...], on_terminate: Callable[[BatchChild], None]) -> None:
        self.turns = Turns(START)
        self.queue = BatchQueue(self.now, self._submitted, on_terminate)
        self.regions = {region: SageMakerRegion(region, self.now, self._created) for region in regions}
        self.clusters = {region: SageMakerRegion(region, self.now, self._created, CLUSTER) for region in regions}
        self.bucket = Bucket()
        self.table = ModelTable(self.call, self._written)
        self.calls: list[dict[str, Any]] = []
        self.throttled: set[str] = set()
        self.wrong: list[str] = []
        self.living: Callable[[str, int], int] = lambda *_: 0
        self._cancels: dict[str, set[str]] = {}
        self._submitters: dict[str, Actor | None] = {}
        self._retriers: dict[tuple[str, int], Actor | None] = {}
        self._late: Counter[tuple[str, str, int]] = Counter()

    def now(self) -> float:
        """Return the current time."""
        return self.turns.now

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Make all of traingrid in this process use this account and its clock."""
        clock = SimpleNamespace(
            time=self.now,
            gmtime=lambda seconds=None: time.gmtime(self.now() if seconds is None else seconds),
            strftime=time.strftime,
            strptime=time.strptime,
        )
        with ExitStack() as stack:
            stack.enter_context(patch("traingrid.aws.clients._shared_client", self._client))
            stack.enter_context(patch("traingrid.ledger.ledger.Table", lambda *_: self.table))
            for module in _CLOCKED:
                stack.enter_context(patch(f"traingrid.{module}.time", clock))
            stack.enter_context(patch("traingrid.backends.eks.backend.Eks", cluster_backend))
            stack.enter_context(patch("traingrid.backends.eks.inventory.EksInventory", ClusterInventory))
            yield

    def call(self, service: str, action: str, effect: Callable[[], Any], *, once: bool = False) -> Any:
        """Execute a call as the current actor, which pauses, and may be killed, before and after it.

        Args:
            once: True if the client does not retry, so that it reports a lost reply to its caller.
        """
        actor = self.turns.current
        if actor is None:
            return effect()
        while True:
            if once:
                raise_if_late()
            signed_at = self.now()
            actor.pause()
            if self.now() - signed_at > SIGNATURE_SECONDS:
                raise refusal("InvalidSignatureException", "Signature expired: it is too old.")
            if service in self.throttled:
                raise refusal("ThrottlingException", "Rate exceeded")
            try:
                answer = effect()
            finally:
                actor.pause()
            if not actor.loses_reply:
                return answer
            actor.loses_reply = False
            if once:
                raise ReadTimeoutError(endpoint_url=f"{service}:{action}")

    def _client(self, service: str, region: str | None, _role: None, config: Any) -> Any:
        once = config.retries["total_max_attempts"] == 1
        engines = {"sagemaker": self.regions, CLUSTER: self.clusters}
        target = {"s3": self.bucket, "batch": self.queue}.get(service)
        target = engines[service].get(region or "") if service in engines else target
        return _Client(self, service, target, once=once)

    def _submitted(self, name: str) -> None:
        self._accepted("batch", "SubmitJob", {"jobName": name})
        self._submitters[name] = self.turns.current
        if self._times("SubmitJob", "jobName", name) > 1:
            self.wrong.append(f"{name} was submitted twice")

    def _created(self, job: TrainingJob) -> None:
        """Check a training job that was just accepted."""
        self._accepted("sagemaker", "CreateTrainingJob", {"TrainingJobName": job.name})
        name = names.parse_training_job(GRID, job.name)
        if name is None:
            self.wrong.append(f"{job.name} is not a valid name of a training job")
            return
        of_line = f"{GRID}-{name.submission}-{name.index}-"
        alive = [
            other_job.name
            for other_job in self.training_jobs
            if other_job.name.startswith(of_line) and other_job.active
        ]
        if len(alive) > 1:
            self.wrong.append(f"{' and '.join(alive)} are active at the same time")
        if self._times("CreateTrainingJob", "TrainingJobName", job.name) > 1:
            self.wrong.append(f"{job.name} was accepted twice")
        self._judge_child(job.name, (name.submission, name.index))
        for scope in self._cancels.get(name.submission, ()):
            if is_cancelled({scope}, name.index, job.region):
                self._late[name.submission, scope, name.index] -= 1
                if self._late[name.submission, scope, name.index] < 0:
                    self.wrong.append(f"{job.name} was created after the cancel {scope}")

    def _judge_child(self, training_job: str, line: tuple[str, int]) -> None:
        """Check that a retried line is trained only by a child of the latest retry's array."""
        child, retrier = self.turns.current, self._retriers.get(line)
        if child and retrier:
            array = self.queue.jobs[child.label.partition(":")[0]].name
            if self._submitters[array] is not retrier:
                self.wrong.append(
                    f"{training_job} was created by a child of {array}, but another array retries its line"
                )

    @property
    def training_jobs(self) -> list[TrainingJob]:
        """All training jobs of all Regions, on both engines."""
        engines = (*self.regions.values(), *self.clusters.values())
        return [job for engine in engines for job in engine.jobs.values()]

    def _accepted(self, service: str, action: str, parameters: Mapping[str, Any]) -> None:
        entry = {"service": service, "action": action, "region": "", "time": self.now(), "parameters": parameters}
        self.calls.append(entry)

    def _times(self, action: str, field: str, name: str) -> int:
        return sum(call["action"] == action and call["parameters"][field] == name for call in self.calls)

    def _written(self, before: Item, after: Item) -> None:
        """Check a write to the ledger."""
        kind, _, name = str(after["item"]).partition("#")
        if kind == "cancel":
            self._cancelled(after["submission"], name)
        if (
            kind == "job"
            and after.get("failure") == STOPPED_BY_USER.name
            and not self._cancels.get(after["submission"])
        ):
            self.wrong.append(f"job {name} of {after['submission']} is recorded as stopped by a user, but was not")
        if kind == "job" and after.get("failure") in TAKEN_NAMES:
            self.wrong.append(
                f"job {name} of {after['submission']} failed because of a foreign training job, but none exists"
            )
        if kind != "job" or before.get("state") not in FINAL_STATES:
            return
        reopened = after["attempt"] == before["attempt"] + 1 and after["tried"][-1].get("reopened")
        if reopened:
            self._retriers[after["submission"], int(name)] = self.turns.current
        same = (after["attempt"], after["state"]) == (before["attempt"], before["state"])
        if not (same or (reopened and before["state"] != "Completed")):
            change = f"{before['state']} at attempt {before['attempt']} became {after['state']} at {after['attempt']}"
            self.wrong.append(f"job {name} of {after['submission']}: {change}")

    def _cancelled(self, submission: str, scope: str) -> None:
        """Record a cancel. From now on, each living child may finish one create call that is under way."""
        if scope in self._cancels.setdefault(submission, set()):
            return
        self._cancels[submission].add(scope)
        submission_item = self.table.items.get((submission, "submission"), {})
        for index in range(submission_item.get("jobs", 0)):
            self._late[submission, scope, index] = self.living(submission, index)


class _Client:
    """A boto3 client of an in-memory service."""

    exceptions = Bucket.exceptions

    def __init__(self, account: Account, service: str, target: Any, *, once: bool) -> None:
        self._account, self._service, self._target, self._once = account, service, target, once

    def __getattr__(self, action: str) -> Callable[..., Any]:
        operation = getattr(self._target, action)
        call = self._account.call
        return lambda **request: call(self._service, action, lambda: operation(**request), once=self._once)

    def get_paginator(self, action: str) -> Any:
        """Return a paginator; all pages together are one call."""

        def paginate(**request: Any) -> Iterator[Any]:
            if self._target is None:  # CloudWatch Logs: no log events exist
                return iter(())
            operation = getattr(self._target, f"pages_of_{action}", None) or getattr(self._target, action)
            return iter(self._account.call(self._service, action, lambda: list(operation(**request))))

        return SimpleNamespace(paginate=paginate)
