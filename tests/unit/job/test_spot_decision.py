"""Spot decision: never late, never elsewhere without time or pay, and the same for the same situation."""

import random
from dataclasses import replace

import pytest

from bench.spot.rules import RULES
from bench.spot.simulator import Job, Run
from traingrid.job.spot_decision import Choice, Instances, Situation, SpotPlace, decision, sentence

HOUR = 3600.0
RESTART, LOOK = 720.0, 60.0
SHARE = 0.6
NOW = Situation(
    left=10 * HOUR,
    until=20 * HOUR,
    restart=RESTART,
    look=LOOK,
    current=SpotPlace(name="us-east-1"),
    dollars_per_hour=4.0,
)
AFTER_HOURS = replace(NOW, use=Instances.ON_DEMAND, lasted=3 * HOUR)
LITTLE = SpotPlace(name="us-east-1", ran=5 * HOUR, waited=95 * HOUR)
ELSEWHERE = SpotPlace(name="us-west-2", transfer_seconds=60.0, transfer_dollars=0.01)


@pytest.mark.parametrize(
    ("situation", "choice"),
    [
        (NOW, Choice.SPOT),
        # The safety net: two restarts, two looks and the work since the last checkpoint.
        (replace(NOW, until=10 * HOUR + 1561), Choice.SPOT),
        (replace(NOW, until=10 * HOUR + 1560), Choice.ON_DEMAND),
        (replace(NOW, until=10 * HOUR + 1561, lost=2), Choice.ON_DEMAND),
        (replace(NOW, until=-1), Choice.ON_DEMAND),
        # Spot instances that train have had their restart.
        (replace(NOW, use=Instances.SPOT, until=10 * HOUR + 781), Choice.SPOT),
        (replace(NOW, use=Instances.SPOT, until=10 * HOUR + 779), Choice.ON_DEMAND),
        # Little capacity so far leaves a job that waits no hope, but not before it has waited.
        (replace(NOW, until=13 * HOUR, current=LITTLE), Choice.SPOT),
        (replace(NOW, until=13 * HOUR, current=LITTLE, lasted=RESTART), Choice.ON_DEMAND),
        (replace(NOW, until=200 * HOUR, current=LITTLE, lasted=RESTART), Choice.SPOT),
        # The return waits for ten restarts, for time for a vain try, and for a gain.
        (AFTER_HOURS, Choice.SPOT),
        (replace(AFTER_HOURS, lasted=1.9 * HOUR), Choice.ON_DEMAND),
        (replace(AFTER_HOURS, may_return=False), Choice.ON_DEMAND),
        (replace(AFTER_HOURS, until=10 * HOUR + 2399), Choice.ON_DEMAND),
        (replace(AFTER_HOURS, until=10 * HOUR + 2401), Choice.SPOT),
        (replace(AFTER_HOURS, left=1000), Choice.ON_DEMAND),
        (replace(AFTER_HOURS, current=SpotPlace(price=0.99)), Choice.ON_DEMAND),
        (replace(AFTER_HOURS, lasted=60, current=SpotPlace(has_capacity=True)), Choice.SPOT),
        (replace(AFTER_HOURS, current=SpotPlace(has_capacity=False)), Choice.ON_DEMAND),
        # Spot instances that are not cheaper, and a Region without capacity.
        (replace(NOW, current=SpotPlace(price=1.0)), Choice.ON_DEMAND),
        (replace(NOW, current=SpotPlace(has_capacity=False)), Choice.WAIT),
    ],
)
def test_the_choice_follows_from_the_situation(situation: Situation, choice: Choice) -> None:
    assert decision(situation).choice is choice


@pytest.mark.parametrize(
    ("asked", "place", "until", "moves"),
    [
        (600.0, ELSEWHERE, 20.0, True),
        (599.0, ELSEWHERE, 20.0, False),
        (600.0, replace(ELSEWHERE, missing_since=1800.0), 20.0, True),
        (600.0, replace(ELSEWHERE, missing_since=1799.0), 20.0, False),
        (600.0, replace(ELSEWHERE, has_capacity=False), 20.0, False),
        (600.0, replace(ELSEWHERE, transfer_dollars=5.0), 20.0, False),
        (600.0, replace(ELSEWHERE, transfer_seconds=9.8 * HOUR), 20.0, False),
        (600.0, replace(ELSEWHERE, price=1.2), 20.0, False),
        (600.0, ELSEWHERE, 10.5, False),
    ],
)
def test_a_job_that_waits_goes_elsewhere_in_time_and_for_a_gain(
    asked: float, place: SpotPlace, until: float, moves: bool
) -> None:
    missing = replace(NOW.current, missing_since=0.0)
    situation = replace(
        NOW, lasted=asked, request_age=asked, until=until * HOUR, current=missing, alternatives=(place,)
    )
    decided = decision(situation)
    expected = (Choice.ELSEWHERE, "us-west-2") if moves else (Choice.SPOT, "us-east-1")
    assert (decided.choice, decided.place) == expected
    assert decision(replace(situation)) == decided


@pytest.mark.parametrize(
    ("rounds", "asked", "missing", "moves"),
    [
        (1, 1199.0, 3600.0, False),
        (1, 1200.0, 3600.0, True),
        (1, 1200.0, 3599.0, False),
        (2, 2399.0, 7200.0, False),
        (50, 4 * HOUR, 4 * HOUR, True),
    ],
)
def test_a_job_becomes_more_patient_with_each_vain_round(
    rounds: int, asked: float, missing: float, moves: bool
) -> None:
    situation = replace(
        NOW,
        lasted=asked,
        request_age=asked,
        vain_rounds=rounds,
        until=200 * HOUR,
        current=replace(NOW.current, missing_since=0.0),
        alternatives=(replace(ELSEWHERE, missing_since=missing),),
    )
    assert (decision(situation).choice is Choice.ELSEWHERE) == moves


def test_the_sentence_states_work_and_time() -> None:
    net = replace(NOW, left=31 * HOUR, until=31.3 * HOUR)
    assert sentence(decision(net), net, "2026-12-01T12:00:00Z") == (
        "31.0 h of work left, 31.3 h until the deadline 2026-12-01T12:00:00Z: an interruption could cost "
        f"{net.needed_to_start / HOUR:.1f} h."
    )
    little = replace(NOW, until=13 * HOUR, current=LITTLE, lasted=RESTART)
    assert sentence(decision(little), little, "2026-12-01T12:00:00Z") == (
        "10.0 h of work left, 13.0 h until the deadline 2026-12-01T12:00:00Z: spot instances had capacity in about 13 "
        "% of the time, which is too little."
    )
    late = replace(NOW, until=-1)
    assert sentence(decision(late), late, "2026-12-01T12:00:00Z").startswith("Its deadline 2026-12-01T12:00:00Z has")


@pytest.mark.parametrize("places", [1, 3])
@pytest.mark.parametrize("sees", [False, True])
def test_no_job_is_late_whatever_the_capacity(places: int, sees: bool) -> None:
    """Capacity changes at random, with intervals from a minute to days, also while instances start."""
    rng = random.Random(places)  # not used for cryptography
    for _ in range(15):
        job = Job(
            work=rng.uniform(2, 30) * HOUR,
            deadline=0.0,
            restart=rng.choice([180.0, 720.0]),
            gap=120.0,
            checkpoint_every=rng.choice([0.0, 600.0, 3600.0]),
        )
        job = replace(job, deadline=job.work * rng.uniform(1, 2) + job.checkpoint_every + 2 * (job.restart + job.gap))
        samples, longest = int(job.deadline / job.gap) + 1000, rng.choice([2, 10, 60, 600])
        capacity = [capacity_of(rng, samples, longest) for _ in range(places)]
        assert (
            not Run(job=job, capacity=capacity, rule=decision, measured=replace(RULES["traingrid"], sees=sees))
            .run()
            .is_late
        )


def capacity_of(rng: random.Random, samples: int, longest: int) -> bytes:
    """Return spells with and without capacity, at random."""
    capacity = b""
    while len(capacity) < samples:
        capacity += bytes([rng.random() < SHARE]) * rng.randint(1, longest)
    return capacity
