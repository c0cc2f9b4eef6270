"""The ledger changes by conditional writes only."""

import pytest

from tests.domain.deployments import SAMPLE
from traingrid.deployment import Deployment
from traingrid.job import Job
from traingrid.ledger import Ledger
from traingrid.manifest import parse
from traingrid.submission import jobs_of_lines


@pytest.fixture
def job(deployment: Deployment) -> Job:
    return jobs_of_lines(parse(SAMPLE.encode(), deployment), deployment, "0123abcd")[2]


def test_a_submission_is_claimed_by_one_of_many(ledger: Ledger) -> None:
    answers = [ledger.claim_submission("0123abcd", f"owner-{n}", {"jobs": 4}) for n in range(3)]
    assert answers[0] is None
    assert [answer["owner"] for answer in answers[1:] if answer] == ["owner-0", "owner-0"]


def test_only_the_claim_that_was_seen_is_taken_over(ledger: Ledger) -> None:
    ledger.claim_submission("0123abcd", "a", {"jobs": 4})
    former = ledger.submission("0123abcd")
    assert former is not None
    assert not ledger.take_over_submission("0123abcd", "c", former | {"owner": "b"})
    assert ledger.take_over_submission("0123abcd", "b", former)
    assert not ledger.take_over_submission("0123abcd", "c", former)


def test_opening_a_job_twice_keeps_what_is_known(ledger: Ledger, job: Job) -> None:
    assert ledger.open_job("0123abcd", job)["state"] == "Pending"
    ledger.record_job("0123abcd", job.index, 1, {"state": "InProgress"})
    assert ledger.open_job("0123abcd", job)["state"] == "InProgress"


@pytest.mark.parametrize("final", ["Completed", "Failed", "Stopped"])
def test_a_job_that_has_ended_never_changes(ledger: Ledger, job: Job, final: str) -> None:
    ledger.open_job("0123abcd", job)
    assert ledger.record_job("0123abcd", job.index, 1, {"state": final, "metrics": {"top1": 0.75, "epoch": 3}})
    assert not ledger.record_job("0123abcd", job.index, 1, {"state": "InProgress"})
    item = ledger.job("0123abcd", job.index)
    assert item is not None
    assert (item["state"], item["metrics"]) == (final, {"top1": 0.75, "epoch": 3})


def test_news_of_another_attempt_changes_nothing(ledger: Ledger, job: Job) -> None:
    ledger.open_job("0123abcd", job)
    assert not ledger.record_job("0123abcd", job.index, 2, {"state": "Completed"})


def test_news_of_a_job_that_nobody_opened_changes_nothing(ledger: Ledger) -> None:
    assert not ledger.record_job("0123abcd", 7, 1, {"state": "Completed"})
    assert ledger.job("0123abcd", 7) is None


def test_items_of_a_submission_come_in_the_order_of_the_manifest(ledger: Ledger, job: Job) -> None:
    ledger.claim_submission("0123abcd", "a", {"jobs": 4})
    for index in (10, 2, 9_999):
        ledger.open_job("0123abcd", job.model_copy(update={"index": index}))
    items = [item["item"] for item in ledger.items("0123abcd")]
    assert items == ["job#00002", "job#00010", "job#09999", "submission"]
