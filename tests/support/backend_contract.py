"""Backend contract: the rules of docs/backends.md that every backend meets, each as a function of one service."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from traingrid.backends.base import Backend, LaunchError, ReadableLogs
from traingrid.backends.inventory import Inventory, ListingTimeoutError, Window
from traingrid.backends.training_job import TrainingJob
from traingrid.job.failures import CONFLICT, OTHER_REQUEST
from traingrid.job.job import Job
from traingrid.job.observed import TrainingJobDescription
from traingrid.job.ownership import tags_of
from traingrid.job.state import FINAL_STATES, JobState

NAME, NEXT_NAME = "traingrid-0123abcd-0-1", "traingrid-0123abcd-0-2"


@dataclass(frozen=True, kw_only=True)
class ServiceInTest:
    """A backend with its inventory, and a service that a test controls.

    Attributes:
        backend: The backend, in the Region of the job.
        inventory: The inventory of that Region.
        logs: The logs of that Region.
        job: A job that it can run.
        without_replies: While it is entered, creations take effect, but their replies are lost.
        complete: Lets the training job `NAME` end without an error.
        write: Adds a line to the log of the training job `NAME`.
    """

    backend: Backend
    inventory: Inventory
    logs: ReadableLogs
    job: Job
    without_replies: Callable[[], AbstractContextManager[Any]]
    complete: Callable[[], None]
    write: Callable[[str], None]

    def start(self, job: Job | None = None, grid: str = "traingrid", name: str = NAME) -> TrainingJobDescription | None:
        """Start a job as a child of a grid does."""
        job = job or self.job
        return self.backend.start(name, job, tags_of(grid, "0123abcd", 0, self.backend.fingerprint(name, job)))

    def launch_error(self) -> LaunchError | None:
        """Start the job, and return the error; None without one."""
        try:
            self.start()
        except LaunchError as error:
            return error
        return None

    @property
    def other_job(self) -> Job:
        """A job with another request."""
        return self.job.model_copy(update={"hyperparameters": {"epochs": "9"}})

    def listed(self, **selection: Any) -> list[TrainingJob]:
        """Return the listed training jobs."""
        return list(self.inventory.listed(**selection))


def a_name_is_created_once_and_then_attached_to(service: ServiceInTest) -> None:
    """`start` returns None for a new training job, and the description of an existing one."""
    assert service.backend.describe(NAME) is None
    assert service.backend.attach(NAME, service.job, {}) is None
    assert service.start() is None
    training_job = service.start()
    assert training_job is not None
    assert not training_job.has_ended
    assert [job.name for job in service.listed()] == [NAME]


def a_creation_without_a_reply_is_not_repeated(service: ServiceInTest) -> None:
    """A lost reply is unresolved, and the next call finds the training job by its name."""
    with service.without_replies():
        error = service.launch_error()
    assert error is None or error.unresolved
    assert service.start() is not None
    assert [job.name for job in service.listed()] == [NAME]


def a_name_with_another_request_is_a_conflict(service: ServiceInTest) -> None:
    """No backend attaches to a training job of another request, or of another grid."""
    service.start(service.other_job)
    for call in (service.start, partial(service.backend.attach, NAME, service.job, {})):
        with pytest.raises(LaunchError) as refused:
            call()
        assert (refused.value.failure, refused.value.unresolved) == (OTHER_REQUEST, False)


def a_training_job_of_another_grid_is_a_conflict(service: ServiceInTest) -> None:
    """The tags show the grid."""
    service.start(service.other_job, grid="another")
    error = service.launch_error()
    assert error is not None
    assert error.failure is CONFLICT
    assert not any(map(service.inventory.has_our_tag, service.listed()))


def the_fingerprint_is_that_of_the_request(service: ServiceInTest) -> None:
    """It is the same before and after the creation, and another one for another request."""
    service.start()
    training_job = service.backend.describe(NAME)
    assert training_job is not None
    assert training_job.fingerprint == service.backend.fingerprint(NAME, service.job)
    assert training_job.fingerprint != service.backend.fingerprint(NAME, service.other_job)


def the_tags_of_the_creation_are_returned(service: ServiceInTest) -> None:
    """Both protocols recognise a training job of the grid."""
    service.start()
    training_job = service.backend.describe(NAME)
    assert training_job is not None
    expected = tags_of("traingrid", "0123abcd", 0, training_job.fingerprint)
    assert expected.items() <= (service.backend.tags(training_job) or {}).items()
    assert all(map(service.inventory.has_our_tag, service.listed()))


def a_stop_is_a_request_that_may_be_repeated(service: ServiceInTest) -> None:
    """A stop of an unknown name has no effect."""
    service.backend.stop(NAME)
    service.start()
    for _ in range(2):
        service.backend.stop(NAME)
    training_job = service.backend.describe(NAME)
    assert training_job is None or training_job.state in (JobState.STOPPING, JobState.STOPPED)


def a_stop_does_not_change_an_ended_training_job(service: ServiceInTest) -> None:
    """Its end stays Completed."""
    service.start()
    service.complete()
    service.backend.stop(NAME, "capacity")
    training_job = service.backend.describe(NAME)
    assert training_job is not None
    assert training_job.state == JobState.COMPLETED


def a_list_selects_by_state_and_submission(service: ServiceInTest) -> None:
    """The name gives submission, index and attempt."""
    service.start()
    (job,) = service.listed(state="InProgress", submission="0123abcd")
    assert (job.line, job.identity.attempt, job.is_active) == (("0123abcd", 0), 1, True)
    assert service.listed(submission="ffffffff") == []
    assert service.listed(state="Stopping") == []
    service.complete()
    assert service.listed(state="InProgress") == []


def a_list_within_a_time_limit_is_complete_or_refused(service: ServiceInTest) -> None:
    """A list that is cut off silently would make the reconciler close lines whose training jobs run."""
    for name in (NAME, NEXT_NAME):
        service.start(name=name)
    try:
        jobs = service.listed(window=Window(deadline=0.0))
    except ListingTimeoutError:
        return
    assert {job.name for job in jobs} == {NAME, NEXT_NAME}


def an_inventory_stops_what_it_has_listed(service: ServiceInTest) -> None:
    """Also twice; the details show the state."""
    service.start()
    (job,) = service.listed()
    for _ in range(2):
        service.inventory.stop(job)
    details = service.inventory.details(job)
    assert details is None or details.state in (JobState.IN_PROGRESS, JobState.STOPPING, JobState.STOPPED)


def an_ended_training_job_is_released_only_once_it_has_ended(service: ServiceInTest) -> None:
    """A service that keeps all training jobs yields none of them, and releases nothing."""
    service.start()
    (job,) = service.listed()
    assert list(service.inventory.ended()) == []
    assert not service.inventory.release(job)
    service.complete()
    for ended_job in service.inventory.ended():
        assert ended_job.state in FINAL_STATES
        assert service.inventory.release(ended_job)


def a_log_is_read_once(service: ServiceInTest) -> None:
    """The position is the caller's, so another reader begins anew."""
    service.start()
    service.write("epoch=1")
    position: dict[str, str] = {}
    assert list(service.backend.log_lines(NAME, position)) == [("algo-1", "epoch=1")]
    assert list(service.backend.log_lines(NAME, position)) == []
    service.write("epoch=2")
    assert list(service.backend.log_lines(NAME, position)) == [("algo-1", "epoch=2")]
    (stream,) = [stream for name in service.logs.log_names(NAME) for stream in service.logs.log_streams(name)]
    pages = list(service.logs.log_pages(stream, {}, 100))
    assert [event.message for page in pages for event in page] == ["epoch=1", "epoch=2"]
    assert service.logs.log_host(stream) == "algo-1"


Rule = Callable[[ServiceInTest], None]
RULES: tuple[Rule, ...] = (
    a_name_is_created_once_and_then_attached_to,
    a_creation_without_a_reply_is_not_repeated,
    a_name_with_another_request_is_a_conflict,
    a_training_job_of_another_grid_is_a_conflict,
    the_fingerprint_is_that_of_the_request,
    the_tags_of_the_creation_are_returned,
    a_stop_is_a_request_that_may_be_repeated,
    a_stop_does_not_change_an_ended_training_job,
    a_list_selects_by_state_and_submission,
    a_list_within_a_time_limit_is_complete_or_refused,
    an_inventory_stops_what_it_has_listed,
    an_ended_training_job_is_released_only_once_it_has_ended,
)
LOG_RULES: tuple[Rule, ...] = (a_log_is_read_once,)
