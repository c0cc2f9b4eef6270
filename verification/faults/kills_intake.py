"""E1: the deployed intake, killed before and after every call; Lambda's retries or a redrive process every manifest."""

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from localcloud.faults.plan import CallFault
from traingrid import names
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri
from traingrid.submission.files import submission_id
from traingrid.submission.intake import ManifestVersion
from verification.deployed_grid import until
from verification.faults.faulty_grid import FaultyGrid, settled
from verification.faults.kills import KILLS, kills_of, otherwise_ended, states
from verification.faults.table import Outcome

_TRIES = 3
"""Lambda's attempts for an asynchronous event before it becomes a dead letter (stacks/event_function.py)."""

_MAX_REDRIVES = 5

_STORM_SHARE = 0.1
"""Share of the calls in a storm that kill: it kills most attempts for a manifest, and all three for a few."""

_MANY = 40
"""Number of kills from which a storm, and the wait for the claims that it leaves, is worthwhile."""

_LIFE_SECONDS = 8
"""The function's timeout here. In AWS it is one minute, and a killed function's claim holds for as long."""


def of_intake(grid: FaultyGrid, kills: int) -> Outcome:
    """E1: kill the intake before and after each of its calls, then at random calls for many manifests; redrive all.

    Args:
        kills: Number of kills; below `_MANY`, only some of the boundaries are covered, and no storm runs.
    """
    with grid.short_lived_intake(_LIFE_SECONDS):
        return _killed_everywhere(_Intake(grid=grid), kills, random.Random(grid.seed))  # noqa: S311 - moments, no secrets


def _killed_everywhere(intake: "_Intake", kills: int, chance: random.Random) -> Outcome:
    intake.killed_at(_before("dynamodb", "PutItem"))
    calls = intake.calls()
    if kills >= _MANY:
        intake.killed_at(_before("dynamodb", "UpdateItem"))  # by then Batch has the array
        left = kills - len(intake.struck) - len(KILLS) * calls
        storm = [CallFault(effect=effect, share=_STORM_SHARE / 2, times=left // 2) for effect in KILLS]
        intake.killed_at(*storm, manifests=left)
    places = [(effect, nth) for nth in range(1, calls + 1) for effect in KILLS]
    for effect, nth in chance.sample(places, min(len(places), max(0, kills - len(intake.struck)))):
        intake.killed_at(CallFault(effect=effect, nth=nth))
    redriven = intake.redriven()
    return intake.outcome({"dead_letters_redriven": redriven})


def after_the_submit(grid: FaultyGrid, kills: int) -> Outcome:
    """E1: kill the intake right after Batch has accepted the array, before the intake can record it."""
    with grid.short_lived_intake(_LIFE_SECONDS):
        intake = _Intake(grid=grid)
        intake.killed_at(CallFault(effect="kill_after", action="SubmitJob", times=kills), manifests=kills)
        return intake.outcome({})


def _before(service: str, action: str) -> CallFault:
    return CallFault(effect="kill_before", service=service, action=action, times=_TRIES)


@dataclass(kw_only=True)
class _Intake:
    """The deployed intake, the manifests uploaded for it, and the kills of its processes.

    Attributes:
        uploaded: Ids of the submissions expected from the manifests.
        struck: The kills, each as the call that it preceded or followed.
        dead: The events in the dead-letter queue, by submission.
    """

    grid: FaultyGrid
    function: str = ""
    uploaded: list[str] = field(default_factory=list)
    struck: list[str] = field(default_factory=list)
    dead: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.function = self.grid.output("IntakeFunction")

    def killed_at(self, *faults: CallFault, manifests: int = 1) -> None:
        """Upload manifests while faults strike the intake, and wait until each is reported or a dead letter."""
        own = tuple(fault.model_copy(update={"caller": f"lambda/{self.function}"}) for fault in faults)
        self.grid.plan(stub_seconds=0.5, calls=own)
        self.uploaded += [self.grid.upload(1) for _ in range(manifests)]
        self._wait()
        self.struck += kills_of(self.grid)

    def calls(self) -> int:
        """Return the number of calls that the intake makes for one manifest."""
        self.killed_at(CallFault(effect="delay"))
        return len(self.grid.cloud.faults.struck_calls())

    def redriven(self) -> int:
        """Redrive all dead letters, as an operator does, until none is left; return how many were redriven."""
        self.grid.plan(stub_seconds=0.5)
        redriven, rounds = len(self.dead), 0
        while self.dead:
            rounds += 1
            if rounds > _MAX_REDRIVES:
                raise TimeoutError(f"still dead letters after {_MAX_REDRIVES} redrives: {sorted(self.dead)}")
            for event in self.dead.values():
                self._lambda.invoke(FunctionName=self.function, InvocationType="Event", Payload=json.dumps(event))
            self.dead.clear()
            self._wait()
        return redriven

    def outcome(self, facts: dict[str, Any]) -> Outcome:
        """Wait until every submission has ended, and return the outcome."""
        submissions = [self.grid.submitted(submission) for submission in self.uploaded]
        settled(self.grid, submissions)
        until(lambda: not self.grid.children_left(), "no array has a child left")
        return Outcome(
            volume=f"{len(self.struck)} kills, {len(self.uploaded)} manifests",
            struck=len(self.struck),
            violations=[
                *self.grid.audit(*self.uploaded),
                *otherwise_ended(self.grid, submissions, {"Completed"}),
            ],
            facts={
                "kills_by_call": dict(Counter(self.struck)),
                "states": states(self.grid, submissions),
                **facts,
            },
        )

    @property
    def _lambda(self) -> Any:
        return client("lambda", "us-east-1")

    def _wait(self) -> None:
        until(self._none_is_open, "every manifest is reported, or its event is a dead letter")

    def _none_is_open(self) -> bool:
        self._collect()
        return all(submission in self.dead or self._is_reported(submission) for submission in self.uploaded)

    def _is_reported(self, submission: str) -> bool:
        submission_item = self.grid.plane.ledger.submission(submission)
        if not submission_item or not submission_item.is_submitted:
            return False
        report = S3Uri.parse(submission_item.manifest + names.REPORT_SUFFIX)
        return self.grid.plane.storage.read_if_exists(report) is not None

    def _collect(self) -> None:
        """Move the messages of the dead-letter queue into `dead`."""
        sqs, queue = client("sqs", "us-east-1"), self.grid.output("IntakeDeadLetterQueue")
        while messages := sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                event = json.loads(message["Body"])["requestPayload"]
                source = ManifestVersion.from_event(event)
                if source:
                    self.dead[submission_id(str(source.uri), source.version)] = event
                sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
