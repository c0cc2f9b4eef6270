"""A grid on in-memory AWS: its actors, their pending work, and how everything comes to rest."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import ClassVar

from traingrid import names
from traingrid.audit.audit import audit
from traingrid.audit.read_snapshot import read_world
from traingrid.audit.violation import Violation
from traingrid.aws.s3_uri import S3Uri
from traingrid.backoff import PASS_SECONDS
from traingrid.child.supervisor import LetGoError
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings
from traingrid.job.failures import SHORTAGE
from traingrid.job.state import UNLAUNCHED_STATES
from traingrid.ledger.items import job_item
from traingrid.ledger.shortages import CapacityPool, Shortage
from traingrid.submission.files import submission_id, submission_of_key
from traingrid.submission.intake import ManifestVersion
from verification.model.account import GRID, Account
from verification.model.actors import Actor
from verification.model.batch import BatchChild
from verification.model.programs import FUNCTION_SECONDS, Programs
from verification.model.sagemaker import TrainingJob

REGIONS = ("us-east-1", "eu-west-1")
INSTANCE_TYPE = "ml.p3.16xlarge"
ACCOUNT = "123456789012"
LAMBDA_TRIES = 3
ROUNDS, PASSES = 80, 8
"""More rounds than lines, attempts and children need to come to rest, and the limit of the reconciler's passes."""


def deployment() -> Deployment:
    """Return the deployment under test: two Regions, each with a data bucket and a cluster."""
    job = {"image": "resnet", "instance_type": INSTANCE_TYPE, "processes_per_host": 8}
    grid = GridSettings.model_validate(
        {
            "name": GRID,
            "home": REGIONS[0],
            "regions": {
                region: {"data_buckets": [f"data-{region}"], "eks": {"cluster": "research"}} for region in REGIONS
            },
            "images": {"resnet": {"repository": "training", "tag": "1"}},
            "job": job,
        }
    )
    bucket = names.manifest_bucket(GRID, ACCOUNT, REGIONS[0])
    return Deployment(
        grid=grid, account=ACCOUNT, table="ledger", manifest_bucket=bucket, job_queue="queue", job_definition="child"
    )


@dataclass(eq=False)
class Running:
    """A child's program.

    Attributes:
        line: The submission and the index of its line.
        is_seen: False once Batch considers its host lost.
        got_sigterm: True once it has received SIGTERM; it receives only one.
    """

    actor: Actor
    child: BatchChild
    line: tuple[str, int]
    is_seen: bool = True
    got_sigterm: bool = False

    def send_sigterm(self) -> None:
        """Send SIGTERM."""
        if not self.got_sigterm:
            self.got_sigterm = True
            self.actor.signal(LetGoError())


@dataclass(frozen=True, eq=False)
class Event:
    """An event on its way to a function.

    Attributes:
        label: Its name in error messages.
        tries: Lambda's remaining attempts. 0 for an event that can be lost; S3's events are kept until delivered.
    """

    label: str
    work: Callable[[], object]
    tries: int = 0


class ModelGrid:
    """A grid and its pending work.

    Attributes:
        seen: Totals over all grids that were run, for the facts of the experiment's row.
    """

    seen: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        self.deployment = deployment()
        self.account = Account(REGIONS, self._terminated)
        self.account.living = lambda *line: sum(program.line == line for program in self.running)
        self.turns = self.account.turns
        self.programs = Programs(self.deployment, self.turns)
        self.running: list[Running] = []
        self.functions: list[tuple[Actor, Event]] = []
        self.events: list[Event] = []
        self.manifests: list[ManifestVersion] = []
        self.until_started = False
        self.kills = 0
        self.corrections = 0
        self.deleted = 0
        self._stack = ExitStack()
        self._stack.enter_context(self.account.installed())

    # State.

    @property
    def submissions(self) -> list[str]:
        """Submissions that were claimed."""
        return sorted(submission for submission, item in self.account.table.items if item == "submission")

    @property
    def ended_badly(self) -> list[str]:
        """Submissions with failed or stopped lines."""
        items = self.account.table.items.items()
        return sorted({key[0] for key, item in items if item.get("state") in ("Failed", "Stopped")})

    @property
    def waiting(self) -> list[BatchChild]:
        """Children that Batch may start."""
        return [child for child in self.account.queue.children if child.status == "RUNNABLE"]

    @property
    def active(self) -> list[TrainingJob]:
        """Training jobs that have not ended."""
        return [job for job in self.account.training_jobs if job.active]

    @property
    def deletable(self) -> list[TrainingJob]:
        """Ended training jobs of SageMaker that the ledger has recorded; deleting any other one has no safeguard."""
        jobs = [job for region in self.account.regions.values() for job in region.jobs.values()]
        ended = [job for job in jobs if not job.active and self.turns.now - job.ended_at > 600.0]
        return [job for job in ended if self._has_seen(job.name)]

    @property
    def frozen(self) -> list[Actor]:
        """Children that do not run."""
        return [program.actor for program in self.running if program.actor.frozen]

    def _has_seen(self, training_job: str) -> bool:
        name = names.parse_training_job(GRID, training_job)
        item = self.account.table.items.get((name.submission, job_item(name.index))) if name else None
        if not name or not item:
            return False
        is_launched = item["state"] not in UNLAUNCHED_STATES or bool(item.get("training_job_arn"))
        return is_launched or bool(item["attempt"] > name.attempt)

    def actor_of(self, which: int) -> Actor:
        """Return an actor; the remainder of the number selects it."""
        return self.turns.actors[which % len(self.turns.actors)]

    # Actions.

    def end(self) -> None:
        """End all programs, and restore the real boto3 clients."""
        self.turns.end_all()
        self._stack.close()

    def announce(self, source: ManifestVersion) -> None:
        """Queue S3's event of a manifest for the intake."""
        self.events.append(Event("intake", partial(self.programs.intake, source), LAMBDA_TRIES))

    def start(self, child: BatchChild) -> Actor:
        """Start a child as Batch does, and return its program."""
        child.status = "RUNNING"
        child.tries += 1
        actor = self.turns.add(child.id, partial(self.programs.child, child, until_started=self.until_started))
        self.running.append(Running(actor, child, self._line(child)))
        return actor

    def corrected(self, submission: str) -> bytes:
        """Return a submission's manifest with every line changed, differently on each call."""
        self.corrections += 1
        (source,) = (
            manifest for manifest in self.manifests if submission_id(str(manifest.uri), manifest.version) == submission
        )
        content = self.account.bucket.objects[source.uri.bucket, source.uri.key][int(source.version) - 1]
        first, *lines = content.decode().splitlines()
        return "\n".join([f"{first},hp.corrected", *(f"{line},{self.corrections}" for line in lines)]).encode()

    def _line(self, child: BatchChild) -> tuple[str, int]:
        file = S3Uri.parse(child.file.partition("?")[0])
        lines = self.account.bucket.objects[file.bucket, file.key][-1].splitlines()
        return str(submission_of_key(file.key)), json.loads(lines[child.index or 0])["index"]

    def _terminated(self, child: BatchChild) -> None:
        for program in self.running:
            if program.child is child and program.is_seen:
                program.send_sigterm()

    def move(self, job: TrainingJob, reason: str = "") -> None:
        """Move a training job to its next state, and queue SageMaker's event; a cluster sends none."""
        if job.engine != "sagemaker":
            self.account.clusters[job.region].move(job, reason)
            return
        self.account.regions[job.region].move(job, reason)
        self.events.append(Event(f"event of {job.name}", partial(self.programs.record_event, job.name, job.region)))

    def find_capacity(self, region: str, seconds: int) -> None:
        """Record, as a child of another submission does, that a Region lacks capacity for some seconds, or has it."""
        now, pool = int(self.turns.now), CapacityPool(region=region, instance_type=INSTANCE_TYPE, spot=False)
        until = now + seconds if seconds else 0
        shortage = Shortage(
            pool=pool, until=until, since=now, failed_at=now, failures=1, training_job=f"{GRID}-other-0-1"
        )
        submission, item = pool.key
        self.account.table.put({"submission": submission, "item": item, **shortage.stored()})

    def tidy(self) -> None:
        """Let Batch and Lambda process the programs that have ended."""
        for program in [program for program in self.running if program.actor.ended]:
            self.running.remove(program)
            if program.is_seen:
                self.account.queue.ended(
                    program.child, program.actor.result if isinstance(program.actor.result, int) else 75
                )
        for actor, event in list(self.functions):
            if not actor.ended and self.turns.now - actor.began_at > FUNCTION_SECONDS:
                actor.kill()
            if actor.ended:
                self.functions.remove((actor, event))
                if not actor.returned and event.tries > 1:
                    self.events.append(replace(event, tries=event.tries - 1))

    def come_to_rest(self) -> None:
        """End all faults, run everything until nothing is left to do, without SageMaker's events, then run passes."""
        self._end_faults()
        for _ in range(ROUNDS):
            self.turns.rest()
            self.tidy()
            for source in self.manifests if not self.turns.actors else ():
                self._claimed_by_somebody(source)
            for child in self.waiting:
                self.start(child)
            for job in self.active:
                self.move(job)
            if not (self.turns.actors or self.active or self.waiting):
                break
            self.turns.pass_time(700.0)
        else:
            raise AssertionError(f"the grid does not come to rest: {[actor.label for actor in self.turns.actors]}")
        for _ in range(PASSES):
            self.turns.pass_time(PASS_SECONDS)
            if not self.programs.run_pass():
                return
            for job in self.active:
                self.move(job)
        raise AssertionError(f"each of {PASSES} passes still changed something")

    def _end_faults(self) -> None:
        self.account.throttled = set()
        for actor in self.frozen:
            actor.frozen = False
        for region in self.account.regions.values():
            region.lag, region.quota_is_used_up = 0.0, False

    def _claimed_by_somebody(self, source: ManifestVersion) -> None:
        """Redeliver a manifest's event from the dead-letter queue if the intake has not processed it."""
        if submission_id(str(source.uri), source.version) not in self._submitted:
            # A claim is extended once after a lost reply of Batch, and ends on a whole second.
            self.turns.now += 2 * FUNCTION_SECONDS + 1
            self.programs.intake(source)

    @property
    def _submitted(self) -> set[str]:
        items = self.account.table.items.items()
        return {key[0] for key, item in items if key[1] == "submission" and item["state"] == "Submitted"}

    def count(self) -> None:
        """Add this grid's totals to `seen`, to show that enough has happened."""
        totals = self.seen
        for (_, kind), item in self.account.table.items.items():
            if kind.startswith("job#"):
                totals[f"lines {item['state']}"] += 1
                totals["lines tried again"] += item["attempt"] > 1
                totals["moves because of a shortage"] += sum(
                    tried.get("failure") == SHORTAGE.name for tried in item.get("tried", ())
                )
                totals["waits for capacity given up"] += sum(
                    tried.get("reason", "").startswith("No capacity ") for tried in item.get("tried", ())
                )
                backends = [*(tried.get("backend", "") for tried in item.get("tried", ())), item.get("backend", "")]
                totals["moves to another engine"] += sum(
                    backend != next_backend for backend, next_backend in pairwise(backends)
                )
            totals["cancels"] += kind.startswith("cancel#")
            totals["retries"] += kind.startswith("array#")
        totals["training jobs"] += len(self.account.training_jobs)
        totals["manifests"] += len(self.manifests)
        totals["programs killed"] += self.kills
        totals["manifests corrected"] += self.corrections
        totals["training jobs deleted"] += self.deleted

    def audit(self) -> list[Violation]:
        """Return the violations after everything has come to rest."""
        return audit(read_world(self.deployment, details=True, at_rest=True, calls=self.account.calls))
