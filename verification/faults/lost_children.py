"""Lost children: a grid without children, events and an intake, whose lines only the reconciler can close."""

from collections.abc import Iterator
from dataclasses import replace

from localcloud.faults.plan import CallFault, EventFault
from traingrid import names
from traingrid.audit.violation import Violation
from traingrid.backends import launching
from traingrid.backends.base import Backend
from traingrid.job.job import Job
from traingrid.job.state import FINAL_STATES
from traingrid.ledger.damage import intact
from traingrid.ledger.user_requests import CANCEL_ALL
from traingrid.submission.submitted_jobs import submitted_jobs
from verification.deployed_grid import until
from verification.faults.faulty_grid import ENDLESS_SECONDS, FaultyGrid, settled

EVENTS_LOST = (EventFault(source="aws.sagemaker", drop=1.0),)
_NOBODYS = "eeeeeeee"
"""Id of a submission that does not exist, although training jobs with its name run."""
_LINES = 3
_INTAKE_SECONDS = 8
"""The intake's timeout here, which is also how long its claim holds."""
_TRIES = 3
"""Lambda's attempts for an asynchronous event (stacks/event_function.py)."""


class LostChildren:
    """One submission for each kind of loss, and one healthy submission that must not be touched.

    Args:
        number: Ordinal of this lost world in the grid, from 0.
        intake_lost: True to kill an intake in all of its attempts after Batch has accepted its array.
    """

    def __init__(self, grid: FaultyGrid, number: int, *, intake_lost: bool) -> None:
        self._grid = grid
        grid.plan(stub_seconds=ENDLESS_SECONDS, events=EVENTS_LOST)
        self._living, self._cancelled = grid.upload(_LINES), grid.upload(_LINES)
        until(lambda: self._in(self._living, "InProgress") and self._in(self._cancelled, "InProgress"), "lines train")
        self._orphans = dict(self._started_by_nobody(number))
        grid.plan(stub_seconds=3.0, events=EVENTS_LOST)
        self._ended = grid.upload(_LINES)
        until(lambda: self._in(self._ended, "InProgress"), "lines train")
        for submission in (self._cancelled, self._ended):
            grid.lose_children(grid.submitted(submission))
        command_killed = {"by": "test", "reason": "and the command was killed"}
        grid.plane.ledger.request_cancel(self._cancelled, CANCEL_ALL, command_killed)
        self._unopened = self._never_opened()
        self._unrecorded = self._never_recorded() if intake_lost else ""
        lives = 2 * _LINES + len(self._orphans)
        # Fewer are active if the reconciler's own schedule has run meanwhile.
        until(lambda: len(grid.active()) <= lives, "only training jobs to be stopped or left alone are active")

    def at_rest(self) -> bool:
        """Return True if all lost work has ended, in the ledger and in SageMaker."""
        lost = filter(None, (self._cancelled, self._ended, self._unopened, self._unrecorded))
        return all(self._in(submission, *FINAL_STATES) for submission in lost) and len(self._grid.active()) == _LINES

    def wrong(self) -> Iterator[Violation]:
        """Yield a violation for each line or training job that the passes did not bring to its expected state."""
        state_by_submission = {self._living: "InProgress", self._cancelled: "Stopped", self._ended: "Completed"}
        state_by_submission |= {self._unopened: "Failed"} | (
            {self._unrecorded: "Completed"} if self._unrecorded else {}
        )
        for submission, state in state_by_submission.items():
            if not self._in(submission, state):
                sentence = f"jobs of {submission} are {self._grid.states(submission)}; all should be {state}"
                yield Violation(invariant="I1", kind="lost", submission=submission, what=sentence)
        for name, region in self._orphans.items():
            training_job = self._backend(region).describe(name)
            released = training_job is None and self._grid.engine.name == "eks"  # a pass deletes what no line owns
            if not released and (training_job is None or training_job.state != "Stopped"):
                state_now = training_job.state if training_job else "gone"
                sentence = f"{name} in {region} is an orphan, and should be Stopped; it is {state_now}"
                yield Violation(invariant="I3", kind="orphan", submission=_NOBODYS, what=sentence)

    def closed(self) -> list[str]:
        """Cancel the healthy submission too, and return all submissions for the audit."""
        living = self._grid.submitted(self._living)
        for index in range(living.lines):
            self._grid.cancel(living, index)
        settled(self._grid, [living], passes=2)
        return list(filter(None, (self._living, self._cancelled, self._ended, self._unopened, self._unrecorded)))

    def _in(self, submission: str, *states: str) -> bool:
        """Return True if all lines of a submission are in one of these states."""
        state_by_index = self._grid.states(submission)
        submission_item = self._grid.plane.ledger.submission(submission)
        return (
            submission_item is not None
            and len(state_by_index) == submission_item.jobs
            and set(state_by_index.values()) <= set(states)
        )

    def _started_by_nobody(self, number: int) -> Iterator[tuple[str, str]]:
        """Start a training job in every Region for a submission that is not in the ledger."""
        plane = self._grid.plane
        grid_name, bucket = plane.deployment.grid.name, plane.deployment.manifest_bucket
        submission_item = plane.ledger.submission(self._living)
        for line in intact(submitted_jobs(plane.storage, bucket, submission_item)) if submission_item else ():
            job = Job.model_validate_json(line.model_dump_json().replace(self._living, _NOBODYS))
            name = names.training_job(grid_name, _NOBODYS, job.index, number + 1)
            self._backend(job.region).start(name, job, {names.TAG_GRID: grid_name})
            yield name, job.region

    def _never_opened(self) -> str:
        """Submit lines whose children die at their first call, or right after they have opened their line."""
        die = (
            CallFault(effect="kill_before", caller="batch/*:0/*"),
            CallFault(effect="kill_after", action="PutItem", caller="batch/*"),
        )
        self._grid.plan(stub_seconds=3.0, events=EVENTS_LOST, calls=die)
        submission = self._grid.submit(_LINES)
        until(lambda: len(self._grid.states(submission.id)) == _LINES - 1, "all lines but one are opened")
        self._grid.lose_children(submission)
        return submission.id

    def _never_recorded(self) -> str:
        """Submit a manifest whose intake dies after Batch has accepted its array, before it can record that."""
        intake = f"lambda/{self._grid.output('IntakeFunction')}"
        dies = CallFault(effect="kill_before", service="dynamodb", action="UpdateItem", caller=intake, times=_TRIES)
        self._grid.plan(stub_seconds=3.0, events=EVENTS_LOST, calls=(dies,))
        with self._grid.short_lived_intake(_INTAKE_SECONDS):
            submission = self._grid.upload(1)
            until(lambda: len(self._grid.cloud.faults.struck_calls()) == _TRIES, "the intake has been killed")
        until(lambda: self._in(submission, *FINAL_STATES), "its children have ended its lines")
        self._grid.plan(stub_seconds=3.0, events=EVENTS_LOST)
        return submission

    def _backend(self, region: str) -> Backend:
        # A user's deployment has no image for pods, because users create no training jobs.
        deployment = replace(self._grid.plane.deployment, pod_image="stub")
        return launching(deployment, region, self._grid.engine.name, "direct")
