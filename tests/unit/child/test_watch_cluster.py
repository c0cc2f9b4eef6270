"""A watch without events: it describes a training job of a cluster when that changes, and every minute otherwise."""

from dataclasses import replace

import pytest

from tests.support.supervised_job import supervisor
from tests.support.training_jobs import COMPLETED, TRAINING, FakeBackend, FakeTime
from traingrid.job.job import Job
from traingrid.ledger.ledger import Ledger


class Cluster(FakeBackend):
    """A service without events, which trains for a while and knows when a training job has changed."""

    def __init__(self, time: FakeTime, ends_at: float, *, announces: bool) -> None:
        super().__init__(TRAINING)
        self.time, self.ends_at, self.announces = time, ends_at, announces
        self.described: list[float] = []

    def has_news(self, _name: str) -> bool:
        return self.announces and self.script[0] is not COMPLETED and self.time.seconds >= self.ends_at

    def describe(self, name: str) -> object:  # type: ignore[override] # the fake's own type
        if self.time.seconds >= self.ends_at:
            self.script = [COMPLETED]
        if name in self.created:
            self.described.append(self.time.seconds)
        return super().describe(name)


@pytest.mark.parametrize(("announces", "latest"), [(True, 3.0), (False, 75.0)])
def test_an_end_is_noticed_at_once_or_within_a_minute(job: Job, ledger: Ledger, announces: bool, latest: float) -> None:
    time = FakeTime()
    cluster = Cluster(time, 7200.0, announces=announces)
    wanted = job.model_copy(update={"backends": ("eks",)})
    item = supervisor(wanted, cluster, ledger, time).run()
    assert (item.state, item.backend) == ("Completed", "eks")
    assert cluster.described[-1] - 7200.0 <= latest
    assert len(cluster.described) < 200


def test_the_log_has_each_reason_of_a_wait_once(job: Job, ledger: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    pending = replace(TRAINING, phase="Pending", reason="The pod has no node: too small.")
    other = replace(pending, reason="The pod has no node: too far.")
    caplog.set_level("INFO", logger="traingrid")
    backend = FakeBackend(pending, pending, other, TRAINING, COMPLETED)
    supervisor(job.model_copy(update={"backends": ("eks",)}), backend, ledger, FakeTime()).run()
    states = [record for record in caplog.records if getattr(record, "event", "") == "state"]
    assert [(record.getMessage().partition(": ")[2], getattr(record, "reason", "")) for record in states] == [
        ("InProgress (Starting)", ""),
        (f"InProgress (Pending): {pending.reason}", pending.reason),
        (f"InProgress (Pending): {other.reason}", other.reason),
        ("InProgress (Training)", ""),
    ]


class Gone(Cluster):
    """A cluster in which a training job is deleted after some seconds."""

    def describe(self, name: str) -> object:  # type: ignore[override] # the fake's own type
        if self.time.seconds < self.ends_at:
            return super().describe(name)
        self.announces = False
        return None


def test_a_training_job_that_is_gone_is_recorded_at_once(job: Job, ledger: Ledger) -> None:
    time = FakeTime()
    cluster = Gone(time, 20.0, announces=True)
    item = supervisor(job.model_copy(update={"backends": ("eks",)}), cluster, ledger, time).run()
    assert (item.state, item.failure) == ("Failed", "deleted")
    assert time.seconds <= 25
