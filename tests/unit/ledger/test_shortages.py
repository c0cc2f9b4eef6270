"""Shortages: the states of a capacity pool, and their items in DynamoDB."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.shortages import OTHER_JOB, recorded, short
from tests.support.training_jobs import FIRST_MOMENT
from traingrid.job.job import Job
from traingrid.ledger.errors import ItemError
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.shortages import (
    FIRST_SECONDS,
    FORGOTTEN_SECONDS,
    MAX_SECONDS,
    PROBE_SECONDS,
    CapacityPool,
    Shortage,
    after_failure,
    claimed,
    ended,
    given_up,
)

POOL = CapacityPool(region="us-east-1", instance_type="ml.p3.16xlarge", spot=True)
PROBE = "traingrid-0123abcd-0-1"


def test_the_first_failure_opens_a_shortage_for_a_few_seconds() -> None:
    new = after_failure(None, POOL, PROBE, FIRST_MOMENT + 0.9)
    assert new == short(POOL, until=FIRST_MOMENT + FIRST_SECONDS, training_job=PROBE)
    assert not new.is_due(FIRST_MOMENT + FIRST_SECONDS - 1)
    assert new.is_due(FIRST_MOMENT + FIRST_SECONDS)


def test_failures_of_jobs_that_were_launched_before_do_not_extend_a_shortage() -> None:
    assert after_failure(short(POOL), POOL, PROBE, FIRST_MOMENT + 50) is None
    assert after_failure(short(POOL), POOL, PROBE, FIRST_MOMENT + 150) is None
    assert after_failure(short(POOL, probe="another"), POOL, PROBE, FIRST_MOMENT + 50) is None


def test_each_failed_probe_doubles_the_wait_up_to_a_maximum() -> None:
    shortage, now, waits = after_failure(None, POOL, PROBE, FIRST_MOMENT), FIRST_MOMENT, []
    for _ in range(9):
        assert shortage
        waits.append(shortage.until - now)
        now = shortage.until
        shortage = after_failure(claimed(shortage, PROBE, now), POOL, PROBE, now)
    assert waits == [10, 20, 40, 80, 160, 320, 600, 600, 600]
    assert shortage is not None
    assert (shortage.since, shortage.failures, shortage.probe) == (FIRST_MOMENT, 10, "")


def test_a_failure_after_the_end_of_a_shortage_opens_a_new_one() -> None:
    for old in (ended(short(POOL, failures=9)), short(POOL, failures=9, until=FIRST_MOMENT - FORGOTTEN_SECONDS)):
        new = after_failure(old, POOL, PROBE, FIRST_MOMENT + 7)
        assert new
        assert (new.failures, new.since, new.until) == (1, FIRST_MOMENT + 7, FIRST_MOMENT + 7 + FIRST_SECONDS)


def test_a_shortage_that_no_job_has_probed_is_forgotten() -> None:
    until = short(POOL).until
    assert not short(POOL).is_over(until + FORGOTTEN_SECONDS - 1)
    assert short(POOL).is_over(until + FORGOTTEN_SECONDS)
    assert ended(short(POOL)).is_over(FIRST_MOMENT)


def test_a_lost_probe_delays_the_next_one_by_its_time() -> None:
    probed = claimed(short(POOL), PROBE, FIRST_MOMENT + 100)
    assert (probed.probe, probed.until) == (PROBE, FIRST_MOMENT + 100 + PROBE_SECONDS)
    assert not probed.is_due(FIRST_MOMENT + 100 + PROBE_SECONDS - 1)
    assert probed.is_due(FIRST_MOMENT + 100 + PROBE_SECONDS)


def test_a_probe_that_ended_without_a_result_delays_nothing() -> None:
    assert given_up(claimed(short(POOL), PROBE, FIRST_MOMENT + 100), FIRST_MOMENT + 130).is_due(FIRST_MOMENT + 130)


@pytest.mark.parametrize("skew", [-30, 30])
def test_clocks_that_differ_by_seconds_only_shift_the_probe(skew: int) -> None:
    longest = short(POOL, until=FIRST_MOMENT + max(MAX_SECONDS, PROBE_SECONDS))
    assert not longest.is_due(FIRST_MOMENT + skew)
    assert longest.is_due(longest.until + abs(skew))


def test_a_time_that_no_correct_clock_has_written_does_not_prevent_a_probe() -> None:
    assert short(POOL, until=FIRST_MOMENT + 86_400).is_due(FIRST_MOMENT)


@given(now=st.integers(0, 5_000), until=st.integers(-5_000, 5_000))
def test_a_shortage_never_holds_launches_for_longer_than_its_maximum(now: int, until: int) -> None:
    shortage = short(POOL, until=FIRST_MOMENT + until)
    later = FIRST_MOMENT + now + max(MAX_SECONDS, PROBE_SECONDS) + 60
    assert shortage.is_due(FIRST_MOMENT + now) or shortage.is_due(later) or shortage.is_over(later)


def test_sentences_name_the_pool_the_job_and_the_time() -> None:
    assert short(POOL).sentence() == (
        "No capacity for ml.p3.16xlarge (spot) in us-east-1 since 2026-09-21T14:13:20Z, last seen by "
        f"{OTHER_JOB}. One job tests at 2026-09-21T14:15:00Z if there is capacity again."
    )
    assert short(POOL, probe=PROBE).sentence() == (
        f"No capacity for ml.p3.16xlarge (spot) in us-east-1 since 2026-09-21T14:13:20Z. {PROBE} tests until "
        "2026-09-21T14:15:00Z at the latest if there is capacity again."
    )


def test_a_shortage_is_stored_for_its_region_type_and_option(ledger: Ledger) -> None:
    on_demand = CapacityPool(region="us-east-1", instance_type="ml.p3.16xlarge", spot=False)
    assert ledger.shortage(POOL) is None
    assert recorded(ledger, short(POOL, probe=PROBE)) == ledger.shortage(POOL)
    assert ledger.shortage(on_demand) is None
    recorded(ledger, short(on_demand))
    assert ledger.shortages() == [short(on_demand), short(POOL, probe=PROBE)]


def test_a_shortage_that_changed_meanwhile_is_not_replaced(ledger: Ledger) -> None:
    read = recorded(ledger, short(POOL))
    assert not ledger.replace_shortage(None, short(POOL, failures=5))
    assert ledger.replace_shortage(read, claimed(read, PROBE, FIRST_MOMENT + 100))
    for late in (claimed(read, "another", FIRST_MOMENT + 100), ended(read), given_up(read, FIRST_MOMENT)):
        assert not ledger.replace_shortage(read, late)
    assert ledger.shortage(POOL) == claimed(read, PROBE, FIRST_MOMENT + 100)


def test_shortages_are_no_submissions_jobs_or_cancels(ledger: Ledger, job: Job) -> None:
    recorded(ledger, short(POOL))
    assert list(ledger.everything()) == []
    assert list(ledger.submissions()) == []
    ledger.open_job("0123abcd", job)
    assert [item.submission for item in ledger.everything()] == ["0123abcd"]


@pytest.mark.parametrize(
    ("item", "field"),
    [
        ({"item": "us-east-1#ml.m5.large#spot"}, "until"),
        ({"item": "us-east-1"}, "item .us-east-1.. has a key that is not a Region"),
    ],
)
def test_an_incomplete_item_is_an_error_that_names_it(item: dict[str, str], field: str) -> None:
    with pytest.raises(ItemError, match=field):
        Shortage.from_item({"submission": "capacity", **item})
