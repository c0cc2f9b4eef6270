"""Capacity: while a Region has no capacity, one job tests it, and the others wait or train in another Region."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from tests.support.ledger_items import job_key
from tests.support.recorded_log import RecordedLog
from tests.support.shortages import OTHER_JOB, pool_of, recorded, short
from tests.support.supervised_job import NAME, QUOTA_IS_USED_UP, known, supervisor
from tests.support.training_jobs import COMPLETED, FIRST_MOMENT, NO_CAPACITY, STOPPED, TRAINING, FakeBackend, FakeTime
from traingrid.backends.base import LaunchError
from traingrid.child.capacity import CAPACITY_CALLS, Capacity
from traingrid.child.supervisor import LetGoError
from traingrid.job.facts import JobFacts
from traingrid.job.failures import INVALID_REQUEST
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.ledger.facts import AttemptFacts
from traingrid.ledger.ledger import Ledger, PatientLedger
from traingrid.ledger.shortages import FIRST_SECONDS, PROBE_SECONDS, Shortage, claimed, ended
from traingrid.ledger.user_requests import CANCEL_ALL
from verification.model.table import ModelTable

NEXT = "traingrid-0123abcd-0-2"
PLAN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/november"


def ignored(_value: object) -> None:
    """Do nothing."""


def shortage_of(ledger: Ledger, job: Job, region: str = "") -> Shortage:
    found = ledger.shortage(pool_of(job, region))
    assert found is not None
    return found


def capacity_of(job: Job, ledger: Ledger, time: FakeTime, index: int = 0) -> Capacity:
    """Return the capacity as the first attempt of a line sees it."""
    line = job.model_copy(update={"index": index})
    child = supervisor(line, FakeBackend(TRAINING), ledger, time)
    return Capacity(attempt=child._attempt(ledger.open_job("0123abcd", line, line.regions)))


def test_a_failure_opens_a_shortage_that_names_the_training_job(job: Job, ledger: Ledger, log: RecordedLog) -> None:
    supervisor(job.model_copy(update={"retries": 0}), FakeBackend(NO_CAPACITY), ledger).run()
    found = shortage_of(ledger, job)
    assert (found.training_job, found.failures, found.probe) == (NAME, 1, "")
    assert found.until == found.failed_at + FIRST_SECONDS
    (line,) = log.of("capacity_missing")
    assert (line["region"], line["instance_type"], line["until"]) == (job.region, job.instance_type, found.until)


def test_a_line_without_replicas_waits_and_its_reason_names_the_shortage(
    job: Job, ledger: Ledger, log: RecordedLog
) -> None:
    shortage = recorded(ledger, short(pool_of(job)))
    backend, time, meanwhile = FakeBackend(TRAINING, COMPLETED), FakeTime(), list[Any]()
    time.on_sleep = lambda: meanwhile.append((time.seconds, known(ledger), list(backend.created)))
    item = supervisor(job, backend, ledger, time).run()
    waiting = [(item.state, item.reason, item.attempt, created) for at, item, created in meanwhile if at < 100]
    assert waiting
    assert all(one == ("Waiting", shortage.sentence(), 1, []) for one in waiting)
    assert (item.state, item.reason, item.failure, item.tried) == ("Completed", "", "", ())
    assert max(time.naps) <= 60
    assert len(log.of("capacity_wait")) == 1


def test_the_probe_that_trains_ends_the_shortage(job: Job, ledger: Ledger, log: RecordedLog) -> None:
    recorded(ledger, short(pool_of(job)))
    backend, time = FakeBackend(TRAINING, TRAINING, COMPLETED), FakeTime(seconds=100)
    seen_while_training = []
    time.on_sleep = lambda: seen_while_training.append(shortage_of(ledger, job).until)
    assert supervisor(job, backend, ledger, time).run().state == "Completed"
    assert seen_while_training[-1] == 0
    assert (len(log.of("capacity_probe")), len(log.of("capacity_found"))) == (1, 1)


def test_the_probe_that_finds_no_capacity_extends_the_shortage(job: Job, ledger: Ledger) -> None:
    recorded(ledger, short(pool_of(job)))
    time = FakeTime(seconds=100)
    supervisor(job.model_copy(update={"retries": 0}), FakeBackend(NO_CAPACITY), ledger, time).run()
    found = shortage_of(ledger, job)
    assert (found.failures, found.since, found.training_job, found.probe) == (2, FIRST_MOMENT, NAME, "")
    assert found.until == found.failed_at + 2 * FIRST_SECONDS


def test_a_line_with_replicas_trains_in_its_next_region_without_using_a_retry(
    roaming: Job, ledger: Ledger, log: RecordedLog
) -> None:
    shortage = recorded(ledger, short(pool_of(roaming)))
    backends = {region: FakeBackend(COMPLETED) for region in roaming.regions}
    item = supervisor(roaming, backends, ledger).run()
    assert [backend.created for backend in backends.values()] == [[], [NEXT], []]
    assert (item.state, item.attempt, item.region) == ("Completed", 2, "eu-west-1")
    assert log.of("capacity_wait") == []
    (previous,) = item.tried
    assert (previous.region, previous.state, previous.failure, previous.training_job) == (
        roaming.region,
        "Stopped",
        "shortage",
        "",
    )
    assert previous.reason == shortage.sentence()
    (line,) = log.of("next_attempt")
    assert (line["target"], line["failure"]) == ("eu-west-1", "shortage")


def test_a_region_is_still_tried_after_a_move_that_used_no_retry(roaming: Job, ledger: Ledger) -> None:
    recorded(ledger, short(pool_of(roaming), until=FIRST_MOMENT + 1))
    here, there = FakeBackend(COMPLETED), FakeBackend(NO_CAPACITY)
    backends = {"us-east-1": here, "eu-west-1": there, "us-west-2": FakeBackend(NO_CAPACITY)}
    item = supervisor(roaming, backends, ledger).run()
    assert [previous.failure for previous in item.tried] == ["shortage", "capacity", "capacity"]
    assert (item.state, item.region, here.created) == ("Completed", "us-east-1", ["traingrid-0123abcd-0-4"])


def test_a_line_waits_if_no_region_of_its_data_has_capacity(roaming: Job, ledger: Ledger) -> None:
    for region in roaming.regions:
        recorded(ledger, short(pool_of(roaming, region), until=FIRST_MOMENT + (200 if region == "us-west-2" else 500)))
    backends, time, states = {region: FakeBackend(COMPLETED) for region in roaming.regions}, FakeTime(), []
    time.on_sleep = lambda: states.append((time.seconds < 200, known(ledger).state, known(ledger).attempt))
    item = supervisor(roaming, backends, ledger, time).run()
    assert {(state, attempt) for early, state, attempt in states if early} == {("Waiting", 1)}
    assert (item.state, item.region, item.attempt) == ("Completed", "us-west-2", 2)
    assert shortage_of(ledger, roaming, "us-west-2").until == 0


@pytest.mark.parametrize("times", [0, 1, 2])
def test_a_line_that_found_no_capacity_before_lets_the_others_probe_first(job: Job, ledger: Ledger, times: int) -> None:
    item = ledger.open_job("0123abcd", job)
    failed: AttemptFacts = {"region": job.region, "state": JobState.FAILED, "failure": "capacity"}
    for attempt in range(1, times + 1):
        assert ledger.next_attempt(job_key(attempt=attempt), failed, job.region)
    capacity, item = capacity_of(job, ledger, FakeTime(seconds=95)), known(ledger)
    waits = [capacity.wait_seconds(item, short(pool_of(job))) for _ in range(200)]
    assert 5 + FIRST_SECONDS * times <= min(waits)
    assert max(waits) <= 5 + FIRST_SECONDS * (times + 1)
    assert max(capacity.wait_seconds(item, short(pool_of(job), until=FIRST_MOMENT + 600)) for _ in range(200)) <= 60


def test_other_types_and_options_are_not_affected(job: Job, ledger: Ledger, log: RecordedLog) -> None:
    recorded(ledger, short(pool_of(job.model_copy(update={"spot": not job.spot}))))
    recorded(ledger, short(pool_of(job.model_copy(update={"instance_type": "ml.c5.large"}))))
    backend = FakeBackend(COMPLETED)
    supervisor(job, backend, ledger).run()
    assert (backend.created, log.of("capacity_wait")) == ([NAME], [])


@pytest.mark.parametrize("difference", [{"launch": "queued"}, {"training_plan": PLAN}], ids=["queued", "training plan"])
def test_jobs_of_other_capacity_neither_read_nor_record_shortages(
    job: Job, ledger: Ledger, log: RecordedLog, difference: dict[str, str]
) -> None:
    other_job = job.model_copy(update={"retries": 0, **difference})
    recorded(ledger, short(pool_of(job)))
    backend = FakeBackend(COMPLETED)
    supervisor(other_job, backend, ledger).run()
    assert (backend.created, log.of("capacity_wait")) == ([NAME], [])
    ledger.replace_shortage(shortage_of(ledger, job), ended(short(pool_of(job))))
    second = other_job.model_copy(update={"index": 1})
    supervisor(second, FakeBackend(NO_CAPACITY), ledger).run()
    assert shortage_of(ledger, job).until == 0


# Races.


@pytest.fixture
def shared(ledger: Ledger, table: ModelTable, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """The ledger with atomic calls, for threads."""
    lock = threading.Lock()

    def atomic(_service: str, _action: str, effect: Any) -> Any:
        with lock:
            return effect()

    monkeypatch.setattr(table, "_call", atomic)
    return ledger


def test_of_many_children_that_read_a_due_shortage_together_exactly_one_probes(
    job: Job, shared: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    children, time = 40, FakeTime(seconds=100)
    recorded(shared, short(pool_of(job)))
    attempts = [capacity_of(job, shared, time, index) for index in range(children)]
    barrier, read = threading.Barrier(children, timeout=120), shared.shortage

    def read_together(pool: Any) -> Any:
        found = read(pool)
        barrier.wait()
        return found

    monkeypatch.setattr(shared, "shortage", read_together)
    with ThreadPoolExecutor(children) as threads:
        answers = list(threads.map(lambda one: one.shortage(), attempts))
    assert answers.count(None) == 1
    monkeypatch.undo()
    probe = attempts[answers.index(None)].attempt.name
    assert shortage_of(shared, job).probe == probe
    assert [one.shortage() is None for one in attempts].count(True) == 1  # the probe may ask again


def test_of_many_children_that_fail_together_one_opens_the_shortage(job: Job, shared: Ledger) -> None:
    time = FakeTime()
    attempts = [capacity_of(job, shared, time, index) for index in range(40)]
    with ThreadPoolExecutor(len(attempts)) as threads:
        list(threads.map(lambda one: one.missing(), attempts))
    assert shortage_of(shared, job).failures == 1


def test_after_a_lost_probe_another_job_probes(job: Job, ledger: Ledger) -> None:
    recorded(ledger, claimed(short(pool_of(job)), OTHER_JOB, FIRST_MOMENT))
    backend, time = FakeBackend(TRAINING, COMPLETED), FakeTime()
    item = supervisor(job, backend, ledger, time).run()
    assert item.state == "Completed"
    assert PROBE_SECONDS <= sum(time.naps) <= PROBE_SECONDS + 90
    assert shortage_of(ledger, job).until == 0


def of_probe(state: JobState, failure: str = "", billable_seconds: int = 0) -> AttemptFacts:
    facts: AttemptFacts = {"region": "us-east-1", "training_job": NAME, "state": state, "failure": failure}
    return {**facts, "billable_seconds": billable_seconds}


@pytest.mark.parametrize(
    ("end", "failures"),
    [
        (of_probe(JobState.FAILED, "capacity"), 2),
        (of_probe(JobState.FAILED, "training_error", billable_seconds=30), 1),
        (of_probe(JobState.COMPLETED, billable_seconds=30), 1),
        (of_probe(JobState.STOPPED, "stopped_by_user"), 1),
        (of_probe(JobState.FAILED, "invalid_request"), 1),
    ],
)
@pytest.mark.parametrize("goes_on", [False, True])
def test_other_children_report_a_probe_whose_child_did_not(
    job: Job, ledger: Ledger, end: AttemptFacts, failures: int, goes_on: bool
) -> None:
    ledger.open_job("0123abcd", job)
    recorded(ledger, claimed(short(pool_of(job)), NAME, FIRST_MOMENT))
    if goes_on:
        assert ledger.next_attempt(job_key(), end, "eu-west-1")
    else:
        end_of_line: JobFacts = {"state": end["state"], "failure": end["failure"], "training_job": NAME}
        assert ledger.record_job(job_key(), end_of_line | {"billable_seconds": end["billable_seconds"]})
    backend, time, at_create = FakeBackend(TRAINING, COMPLETED), FakeTime(), list[Shortage]()
    backend.on_create = lambda: at_create.append(shortage_of(ledger, job))
    other = job.model_copy(update={"index": 1, "name": "other"})
    assert supervisor(other, backend, ledger, time).run().state == "Completed"
    (shortage,) = at_create
    assert shortage.failures == failures
    waited = shortage.until - PROBE_SECONDS - FIRST_MOMENT if shortage.probe else 0
    least = 2 * FIRST_SECONDS if failures > 1 else 0
    assert least <= waited <= least + 2 * FIRST_SECONDS


def test_a_probe_that_its_line_does_not_use_is_given_up(roaming: Job, ledger: Ledger) -> None:
    ledger.open_job("0123abcd", roaming, roaming.regions)
    probed = recorded(ledger, claimed(short(pool_of(roaming, "eu-west-1")), NEXT, FIRST_MOMENT))
    waiting = capacity_of(roaming.model_copy(update={"region": "eu-west-1"}), ledger, FakeTime(), index=1)
    assert waiting.shortage() == probed, "its attempt may begin"
    assert ledger.next_attempt(job_key(), of_probe(JobState.STOPPED), "us-west-2")
    assert waiting.shortage() is None, "its attempt has begun elsewhere"


def test_a_probe_that_goes_on_is_waited_for(job: Job, ledger: Ledger) -> None:
    ledger.open_job("0123abcd", job)
    probed = recorded(ledger, claimed(short(pool_of(job)), NAME, FIRST_MOMENT))
    waiting = capacity_of(job, ledger, FakeTime(), index=1)
    for state in (JobState.PENDING, JobState.WAITING, JobState.IN_PROGRESS):
        ledger.record_job(job_key(), {"state": state, "training_job": NAME})
        assert waiting.shortage() == probed


def test_a_child_that_replaces_the_probes_child_reports_its_result(job: Job, ledger: Ledger) -> None:
    recorded(ledger, short(pool_of(job)))
    backend, time = FakeBackend(TRAINING), FakeTime(seconds=100)
    backend.script = [TRAINING]

    def killed_after_the_create() -> None:
        raise LetGoError

    backend.on_create = killed_after_the_create
    with pytest.raises(LetGoError):
        supervisor(job, backend, ledger, time).run()
    backend.created, backend.script = [NAME], [TRAINING, COMPLETED]  # SageMaker had accepted it
    assert supervisor(job, backend, ledger, FakeTime(seconds=110)).run().state == "Completed"
    assert shortage_of(ledger, job).until == 0


def test_a_late_success_of_an_earlier_probe_ends_the_shortage_unless_it_changed_meanwhile(
    job: Job, ledger: Ledger
) -> None:
    recorded(ledger, short(pool_of(job)))
    slow = capacity_of(job, ledger, FakeTime(seconds=100))
    assert slow.shortage() is None
    next_probe = capacity_of(job, ledger, FakeTime(seconds=100 + PROBE_SECONDS), index=1)
    assert next_probe.shortage() is None
    slow.record_instances()  # its instances exist now, although another job probes
    assert shortage_of(ledger, job).until == 0


def test_a_write_that_arrives_after_the_next_failure_has_no_effect(
    job: Job, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(ledger, short(pool_of(job)))
    slow, write = capacity_of(job, ledger, FakeTime(seconds=100)), ledger.replace_shortage
    assert slow.shortage() is None

    def arrives_late(read: Shortage | None, new: Shortage) -> bool:
        later = FIRST_MOMENT + 1000
        assert write(read, short(pool_of(job), failures=2, failed_at=later, until=later + 20))
        return write(read, new)

    monkeypatch.setattr(ledger, "replace_shortage", arrives_late)
    slow.record_instances()
    assert shortage_of(ledger, job).failures == 2
    assert shortage_of(ledger, job).until == FIRST_MOMENT + 1020


def test_a_cancelled_probe_lets_another_job_probe_at_once(job: Job, ledger: Ledger, log: RecordedLog) -> None:
    recorded(ledger, short(pool_of(job)))
    backend, time = FakeBackend(TRAINING), FakeTime(seconds=100)
    backend.refusals = [QUOTA_IS_USED_UP]
    time.on_sleep = lambda: ledger.request_cancel("0123abcd", CANCEL_ALL, {})
    assert supervisor(job, backend, ledger, time).run().state == "Stopped"
    found = shortage_of(ledger, job)
    assert (found.probe, found.is_due(time.clock.wall())) == ("", True)
    assert len(log.of("capacity_untested")) == 1


def test_a_probe_that_sagemaker_rejects_lets_another_job_probe_at_once(job: Job, ledger: Ledger) -> None:
    recorded(ledger, short(pool_of(job)))
    backend, time = FakeBackend(TRAINING), FakeTime(seconds=100)
    backend.refusals = [LaunchError(INVALID_REQUEST, "ValidationException: no such role.")]
    assert supervisor(job, backend, ledger, time).run().state == "Failed"
    assert shortage_of(ledger, job).is_due(time.clock.wall())


def test_a_probe_stopped_before_it_had_instances_lets_another_job_probe(job: Job, ledger: Ledger) -> None:
    recorded(ledger, short(pool_of(job)))
    time = FakeTime(seconds=100)
    assert supervisor(job, FakeBackend(STOPPED), ledger, time).run().state == "Stopped"
    assert shortage_of(ledger, job).is_due(time.clock.wall())


def test_a_waiting_line_can_be_cancelled(job: Job, ledger: Ledger) -> None:
    recorded(ledger, short(pool_of(job)))
    backend, time = FakeBackend(COMPLETED), FakeTime()
    time.on_sleep = lambda: ledger.request_cancel("0123abcd", CANCEL_ALL, {"by": "Ada"})
    item = supervisor(job, backend, ledger, time).run()
    assert (item.state, backend.created) == ("Stopped", [])


def test_a_job_whose_request_may_have_been_accepted_neither_moves_nor_waits(
    roaming: Job, ledger: Ledger, log: RecordedLog
) -> None:
    """The training job may exist: moving the line would train it twice, and waiting would not watch it."""
    here, there = FakeBackend(COMPLETED), FakeBackend(COMPLETED)
    here.loses_reply, here.unseen, time = True, 3, FakeTime()

    def opened_meanwhile() -> None:
        here.loses_reply = False
        if ledger.shortage(pool_of(roaming)) is None:
            recorded(ledger, short(pool_of(roaming)))

    time.on_sleep = opened_meanwhile
    item = supervisor(roaming, {"us-east-1": here, "eu-west-1": there}, ledger, time).run()
    assert (here.created, there.created) == ([NAME], [])
    assert (item.state, item.attempt, log.of("capacity_wait")) == ("Completed", 1, [])


@pytest.mark.parametrize("open_request", ["", "request-of-another-child"])
def test_a_job_whose_requests_were_all_refused_may_move(roaming: Job, ledger: Ledger, open_request: str) -> None:
    """The request of another child of the line, which is not answered yet, may create the training job."""
    here, there, time = FakeBackend(COMPLETED), FakeBackend(COMPLETED), FakeTime()
    here.refusals = [QUOTA_IS_USED_UP]

    def short_of_capacity() -> None:
        if not ledger.shortages():
            recorded(ledger, short(pool_of(roaming)))
            ledger.record_job(job_key(), {}, opens=open_request)

    time.on_sleep = short_of_capacity
    item = supervisor(roaming, {"us-east-1": here, "eu-west-1": there}, ledger, time).run()
    moved = not open_request
    assert (len(here.created), len(there.created), item.attempt) == ((0, 1, 2) if moved else (1, 0, 1))


def test_a_child_does_not_move_a_line_whose_other_child_is_launching_it(roaming: Job, ledger: Ledger) -> None:
    here, there = FakeBackend(TRAINING, COMPLETED), FakeBackend(COMPLETED)
    backends = {"us-east-1": here, "eu-west-1": there}
    stale = ledger.open_job("0123abcd", roaming, roaming.regions)
    ledger.record_job(job_key(), {"training_job": NAME, "phase": "Creating"})  # the other child sends the request now
    recorded(ledger, short(pool_of(roaming)))
    child = supervisor(roaming, backends, ledger)
    capacity = Capacity(attempt=child._attempt(stale))
    found = capacity.shortage()
    assert found
    assert capacity.move(stale, found)
    assert (known(ledger).attempt, known(ledger).region) == (1, roaming.region)
    assert child.run().attempt == 1
    assert (here.created, there.created) == ([NAME], [])


def test_two_children_of_one_waiting_line_move_it_once(roaming: Job, ledger: Ledger) -> None:
    recorded(ledger, short(pool_of(roaming)))
    backends = {region: FakeBackend(TRAINING, COMPLETED) for region in roaming.regions}
    other, ends, time = supervisor(roaming, backends, ledger), list[Any](), FakeTime()
    time.on_sleep = lambda: None if ends else ends.append(other.run().state)
    item = supervisor(roaming, backends, ledger, time).run()
    assert (item.state, ends, item.attempt) == ("Completed", ["Completed"], 2)
    assert [backend.created for backend in backends.values()] == [[], [NEXT], []]


class KillingLedger:
    """A ledger that ends its caller before or after the n-th call."""

    def __init__(self, ledger: Ledger, dies_at: int) -> None:
        self._ledger, self._calls_left = ledger, dies_at

    def __getattr__(self, name: str) -> Any:
        def called(*arguments: Any, **options: Any) -> Any:
            self._count()
            answer = getattr(self._ledger, name)(*arguments, **options)
            self._count()
            return answer

        return called

    def _count(self) -> None:
        self._calls_left -= 1
        if self._calls_left == 0:
            raise LetGoError


@pytest.mark.parametrize("dies_at", range(1, 50, 2))
def test_a_probe_killed_at_any_call_creates_one_training_job_and_ends(job: Job, ledger: Ledger, dies_at: int) -> None:
    recorded(ledger, short(pool_of(job)))
    backend, time = FakeBackend(TRAINING, TRAINING, COMPLETED), FakeTime(seconds=90)
    try:
        supervisor(job, backend, KillingLedger(ledger, dies_at), time).run()
    except LetGoError:
        backend.script = [TRAINING, COMPLETED]
        supervisor(job, backend, ledger, time).run()
    assert (known(ledger).state, known(ledger).attempt, backend.created) == ("Completed", 1, [NAME])


@pytest.mark.parametrize("dies_at", range(1, 40))
def test_a_child_killed_during_a_move_moves_once_without_a_duplicate(
    roaming: Job, ledger: Ledger, dies_at: int
) -> None:
    recorded(ledger, short(pool_of(roaming)))
    backends = {region: FakeBackend(TRAINING, COMPLETED) for region in roaming.regions}
    try:
        supervisor(roaming, backends, KillingLedger(ledger, dies_at)).run()
    except LetGoError:
        supervisor(roaming, backends, ledger).run()
    assert (known(ledger).state, known(ledger).attempt) == ("Completed", 2)
    assert [backend.created for backend in backends.values()] == [[], [NEXT], []]


# Outages of the ledger.

_REFUSED: Any = {"Error": {"Code": "AccessDeniedException"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
_THROTTLED: Any = {"Error": {"Code": "ThrottlingException"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
ERRORS = (
    ClientError(_REFUSED, "GetItem"),
    ClientError(_THROTTLED, "GetItem"),
    EndpointConnectionError(endpoint_url="https://dynamodb"),
)


class ForgetfulLedger:
    """A ledger whose items of shortages cannot be read or written."""

    def __init__(self, ledger: Ledger, error: Exception) -> None:
        self._ledger, self._error = ledger, error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def shortage(self, *_: Any) -> Any:
        raise self._error

    replace_shortage = shortage


@pytest.mark.parametrize("error", ERRORS)
def test_without_answer_about_shortages_a_child_launches_as_before(
    roaming: Job, ledger: Ledger, log: RecordedLog, error: Exception
) -> None:
    def no_wait(_seconds: float) -> None:
        raise AssertionError("the child waits for the items of shortages")

    without_shortages: Any = ForgetfulLedger(ledger, error)
    forgetful = PatientLedger(lambda: without_shortages, "us-east-1", no_wait, CAPACITY_CALLS)
    here, there = FakeBackend(NO_CAPACITY), FakeBackend(TRAINING, COMPLETED)
    item = supervisor(roaming, {"us-east-1": here, "eu-west-1": there}, forgetful).run()
    assert (item.state, item.attempt, here.created, there.created) == ("Completed", 2, [NAME], [NEXT])
    assert {line["level"] for line in log.of("capacity_unknown")} == {"WARNING"}
    assert ledger.shortages() == []


def test_an_unreadable_item_of_a_shortage_prevents_no_launch(job: Job, ledger: Ledger) -> None:
    submission, item = pool_of(job).key
    ledger._table.put({"submission": submission, "item": item})
    backend = FakeBackend(TRAINING, COMPLETED)
    assert supervisor(job, backend, ledger).run().state == JobState.COMPLETED
    assert backend.created == [NAME]


def test_expired_credentials_are_renewed_for_the_read_of_a_shortage(job: Job, ledger: Ledger) -> None:
    expired: Any = {"Error": {"Code": "ExpiredTokenException"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    shortage = recorded(ledger, short(pool_of(job)))
    ledgers: Iterator[Any] = iter([ForgetfulLedger(ledger, ClientError(expired, "GetItem")), ledger])
    careful = PatientLedger(lambda: next(ledgers), "us-east-1", lambda _: None, CAPACITY_CALLS)
    assert careful.shortage(pool_of(job)) == shortage
