"""E4: hypothesis chooses events, kills, losses and the time of a grid on AWS in memory.

The programs are traingrid's own (`verification.model.programs`). After every step, nothing may be duplicated, no final
state changed, and nothing created after a cancel. When everything has come to rest and the reconciler has swept, the
audit must find nothing.
"""

from __future__ import annotations

import time

from botocore.exceptions import BotoCoreError, ClientError
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from traingrid.audit.violation import Violation
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import TraingridError
from traingrid.submission.intake import ManifestVersion
from verification.faults.faulty_grid import FaultyGrid
from verification.faults.table import Outcome
from verification.model.grid import REGIONS, ModelGrid

SECONDS, EXAMPLES_AT_ONCE = 360.0, 250
EXPECTED = (TraingridError, BotoCoreError, ClientError)
"""Exceptions that may end a function or a command, but never a child."""
FAILURES = (
    "CapacityError: Unable to provision requested ML compute capacity.",
    "AlgorithmError: rank 1 died",
    "InternalServerError: We encountered an internal error.",
    "ClientError: No S3 objects found under S3 URL",
)
_BACKENDS = st.sampled_from(["", "", "eks", "eks sagemaker", "sagemaker eks"])
CAPACITY_WAIT = "10m"
_ANY = st.integers(0, 999)
"""Selects one of the existing items: its remainder is the index."""


class GridMachine(ModelGrid, RuleBasedStateMachine):
    """Hypothesis rules for everything that can happen to a grid."""

    def __init__(self) -> None:
        RuleBasedStateMachine.__init__(self)
        ModelGrid.__init__(self)

    # Actions of people.

    @initialize(
        lines=st.integers(1, 3),
        retries=st.integers(0, 1),
        replicas=st.booleans(),
        backends=_BACKENDS,
        under_way=st.sampled_from(["", "submitted", "submitted", "failed"]),
        until_started=st.booleans(),
        as_asked=st.booleans(),
    )
    def a_first_manifest(  # noqa: PLR0913  # Hypothesis passes every choice as a keyword
        self,
        *,
        lines: int,
        retries: int,
        replicas: bool,
        under_way: str,
        until_started: bool,
        as_asked: bool,
        backends: str = "",
    ) -> None:
        """Begin with a manifest that is uploaded, submitted, or whose lines have failed while their children sleep."""
        self.until_started = until_started
        for region in self.account.regions.values():  # optionally, SageMaker describes jobs with extra hyperparameters
            region.defaults = {} if as_asked else {"seed": "0"}
        self.upload(lines, retries, replicas, backends)
        if under_way:  # otherwise the intake has not run yet
            self.deliver(0, again=False, turns=0)
            self.turns.rest()
            self.start_children(3, turns=0)
        if under_way == "failed":
            self.turns.rest()
            for job in self.active:
                self.move(job, FAILURES[1])
            while self.events:
                self.deliver(0, again=False, turns=100)

    @precondition(lambda self: len(self.manifests) < 2)
    @rule(lines=st.integers(1, 3), retries=st.integers(0, 1), replicas=st.booleans(), backends=_BACKENDS)
    def upload(self, lines: int, retries: int, replicas: bool, backends: str) -> None:
        """Upload another manifest."""
        wait = CAPACITY_WAIT if replicas or " " in backends else ""
        rows = ["region,s3_uri,retries,backend,capacity_wait," + ",".join(f"replica.{region}" for region in REGIONS)]
        for number in range(lines):
            home, other_region = REGIONS[number % 2], REGIONS[(number + 1) % 2]
            cells = [f"s3://data-{other_region}/x" if replicas and region == other_region else "" for region in REGIONS]
            rows.append(",".join([home, f"s3://data-{home}/{number}", str(retries), backends, wait, *cells]))
        uri = S3Uri(self.deployment.manifest_bucket, f"manifests/{len(self.manifests)}.csv")
        body = "\n".join(rows).encode()
        reply = self.account.bucket.put_object(Bucket=uri.bucket, Key=uri.key, Body=body)
        source = ManifestVersion(uri=uri, version=reply["VersionId"])
        self.manifests.append(source)
        self.announce(source)

    @precondition(lambda self: self.submissions)
    @rule(which=_ANY, index=st.none() | st.integers(0, 2), region=st.sampled_from(["", "", *REGIONS]))
    def cancel(self, which: int, index: int | None, region: str) -> None:
        """A user cancels a submission, one of its lines, or its lines in a Region."""
        submission = self.submissions[which % len(self.submissions)]
        region = "" if index is not None else region
        self.turns.add(f"cancel {submission}", lambda: self.programs.cancel(submission, index, region))

    @precondition(lambda self: self.ended_badly)
    @rule(which=_ANY, corrected=st.booleans())
    def retry(self, which: int, corrected: bool) -> None:
        """A user retries failed or stopped lines, with the original or with a corrected manifest."""
        submission = self.ended_badly[which % len(self.ended_badly)]
        lines = self.corrected(submission) if corrected else None
        self.turns.add(f"retry {submission}", lambda: self.programs.retry(submission, lines))

    # Actions of AWS.

    @precondition(lambda self: self.manifests)
    @rule(which=_ANY)
    def announce_again(self, which: int) -> None:
        """S3 delivers an event again, as another invocation of the intake."""
        self.announce(self.manifests[which % len(self.manifests)])

    @precondition(lambda self: self.events)
    @rule(which=_ANY, again=st.booleans(), turns=st.integers(0, 8))
    def deliver(self, which: int, again: bool, turns: int) -> None:
        """Deliver an event, in any order, and perhaps again later."""
        event = self.events[which % len(self.events)]
        if not again:  # Lambda may run one invocation twice, even concurrently
            self.events.remove(event)
        actor = self.turns.add(event.label, event.work)
        self.functions.append((actor, event))
        self.turns.give(actor, turns)

    @precondition(lambda self: any(not event.tries for event in self.events))
    @rule(which=_ANY)
    def drop(self, which: int) -> None:
        """A SageMaker event is lost."""
        may = [event for event in self.events if not event.tries]
        self.events.remove(may[which % len(may)])

    @precondition(lambda self: self.waiting)
    @rule(most=st.integers(1, 3), turns=st.sampled_from([0, 12, 24, 60]))
    def start_children(self, most: int, turns: int) -> None:
        """Batch starts children."""
        for child in self.waiting[:most]:
            self.turns.give(self.start(child), turns)

    @precondition(lambda self: self.active)
    @rule(which=_ANY, reason=st.sampled_from(["", "", "", *FAILURES]))
    def training_goes_on(self, which: int, reason: str) -> None:
        """A training job advances, completes, stops or fails."""
        job = self.active[which % len(self.active)]
        self.move(job, reason)

    @precondition(lambda self: self.deletable)
    @rule(which=_ANY)
    def clean_up(self, which: int) -> None:
        """A user's script deletes an old training job."""
        job = self.deletable[which % len(self.deletable)]
        self.account.regions[job.region].delete_training_job(TrainingJobName=job.name)
        self.deleted += 1

    @rule()
    def run_pass(self) -> None:
        """The reconciler's schedule starts a pass."""
        self.turns.add("reconciler", self.programs.run_pass)

    @rule(service=st.sampled_from(["", "", "dynamodb", "sagemaker", "batch"]))
    def throttle(self, service: str) -> None:
        """A service throttles all calls, or all services recover."""
        self.account.throttled = {service} if service else set()

    @rule(region=st.sampled_from(REGIONS), lag=st.sampled_from([0.0, 0.0, 3.0, 20.0]), used_up=st.booleans())
    def change_region(self, region: str, lag: float, used_up: bool) -> None:
        """A Region exhausts its quota, or shows new training jobs late."""
        self.account.regions[region].lag = lag
        self.account.regions[region].quota_is_used_up = used_up

    @rule(region=st.sampled_from(REGIONS), seconds=st.sampled_from([0, 30, 600]))
    def change_capacity(self, region: str, seconds: int) -> None:
        """A job of another submission finds no capacity in a Region, or finds capacity again."""
        self.find_capacity(region, seconds)

    @rule(seconds=st.sampled_from([1.0, 5.0, 70.0, 130.0, 700.0, 100_000.0]))
    def time_passes(self, seconds: float) -> None:
        """The clock jumps."""
        self.turns.pass_time(seconds)

    # Turns, kills and signals.

    @precondition(lambda self: self.turns.actors)
    @rule(which=_ANY, turns=st.integers(1, 12))
    def act(self, which: int, turns: int) -> None:
        """Give one actor some turns."""
        self.turns.give(self.actor_of(which), turns)

    @rule(turns=st.integers(1, 60))
    def all_act(self, turns: int) -> None:
        """Give every actor some turns."""
        self.turns.rest(turns)

    @precondition(lambda self: self.turns.actors)
    @rule(which=_ANY)
    def lose_reply(self, which: int) -> None:
        """The reply to an actor's next call is lost."""
        self.actor_of(which).loses_reply = True

    @precondition(lambda self: self.turns.actors)
    @rule(which=_ANY, for_good=st.booleans())
    def kill(self, which: int, for_good: bool) -> None:
        """Kill an actor; Batch either retries a killed child or not."""
        actor = self.actor_of(which)
        actor.kill()
        self.kills += 1
        for program in self.running:
            if program.actor is actor and program.is_seen:
                program.is_seen = False
                self.account.queue.ended(program.child, 1 if for_good else 137)

    @precondition(lambda self: self.running)
    @rule(which=_ANY)
    def lose_sight(self, which: int) -> None:
        """Batch considers a host lost, although the child on it continues to run."""
        program = self.running[which % len(self.running)]
        if program.is_seen:
            program.is_seen = False
            self.account.queue.ended(program.child, 137)

    @precondition(lambda self: self.running)
    @rule(which=_ANY)
    def freeze(self, which: int) -> None:
        """A child does not run any more, until `thaw`."""
        self.running[which % len(self.running)].actor.frozen = True
        self.seen["children frozen"] += 1

    @precondition(lambda self: self.frozen)
    @rule(which=_ANY, turns=st.sampled_from([1, 12, 60]))
    def thaw(self, which: int, turns: int) -> None:
        """A frozen child continues."""
        actor = self.frozen[which % len(self.frozen)]
        actor.frozen = False
        self.turns.give(actor, turns)

    @precondition(lambda self: self.running)
    @rule(which=_ANY)
    def send_sigterm(self, which: int) -> None:
        """Send SIGTERM to a child."""
        self.running[which % len(self.running)].send_sigterm()

    @invariant()
    def nothing_is_wrong(self) -> None:
        """Check for duplicates, changed final states, creates after a cancel, and crashed programs."""
        self.tidy()
        if self.account.wrong:
            raise AssertionError(self.account.wrong)
        crashes = [pair for pair in self.turns.errors if not isinstance(pair[1], EXPECTED)]
        if crashes:
            raise AssertionError(f"{crashes[0][0]} ended with {crashes[0][1]!r}") from crashes[0][1]

    def teardown(self) -> None:
        """Let everything come to rest and audit it; always end all actors."""
        try:
            self.turns.current = None
            if not self.account.wrong:
                self.come_to_rest()
                self.nothing_is_wrong()
                if violations := self.audit():
                    raise AssertionError([str(violation) for violation in violations])
                self.count()
        finally:
            self.end()


def played(examples: int, steps: int, number: int, *, shortest: bool = True) -> None:
    """Run examples of the state machine.

    Args:
        steps: Number of steps per example.
        number: The seed.
        shortest: True to shrink a failing example.

    Raises:
        AssertionError: A check failed. Hypothesis has printed the steps that lead to it.
    """
    machine = seed(number)(type("SeededMachine", (GridMachine,), {}))
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink] if shortest else [Phase.generate],
            print_blob=False,
        ),
    )


def state_machine(grid: FaultyGrid, examples: int, steps: int) -> Outcome:
    """E4: run examples of `steps` steps in batches, for at most `SECONDS`; the volume counts the completed ones."""
    started, done, violations = time.monotonic(), 0, list[Violation]()
    GridMachine.seen.clear()
    while done < examples and time.monotonic() - started < SECONDS:
        now = min(EXAMPLES_AT_ONCE, examples - done)
        try:
            played(now, steps, grid.seed * examples + done)
        except AssertionError as error:
            notes = "; ".join([str(error), *getattr(error, "__notes__", ())])
            violations.append(Violation(invariant="E4", kind="other", submission="", what=notes[:2000]))
        done += now
    return Outcome(volume=f"{done} x {steps} steps", violations=violations, facts=dict(GridMachine.seen))
