"""Estimate: hours, merges and copies of the rounds that follow, and the copy of all data to one Region."""

from dataclasses import replace

from traingrid.rounds.estimate import JobEstimate, RoundsEstimate

GB = 2**30
REGIONS = ("us-east-1", "us-west-2", "eu-west-1")
TRAININGS = [
    JobEstimate(region=region, instances=2, seconds=1800.0, hourly_dollars=4.0, data_bytes=100 * GB)
    for region in REGIONS
]
MERGE = JobEstimate(region="eu-west-1", seconds=360.0, hourly_dollars=0.5)
ESTIMATE = RoundsEstimate(rounds=4, trainings=TRAININGS, merge=MERGE, weights_bytes=GB, begins_alone=False)


def sentences(estimate: RoundsEstimate) -> dict[str, str]:
    parts = (sentence.partition(": ") for sentence in list(estimate.sentences())[1:])
    return {name.strip(): text for name, _, text in parts}


def test_hours_merges_and_copies_are_those_of_all_rounds() -> None:
    assert next(iter(ESTIMATE.sentences())) == "Estimate for 4 more rounds, at list prices on demand:"
    found = sentences(ESTIMATE)
    assert found["trainings"] == "12.00 instance-hours, $24.00"
    assert found["merges"] == "0.40 instance-hours, $0.20"
    assert found["weights across borders"] == "16 copies of 1.07 GB, 17.2 GB, $0.32 at $0.02 per GB"


def test_the_first_round_copies_no_global_model() -> None:
    assert replace(ESTIMATE, begins_alone=True).copies == 14
    assert replace(ESTIMATE, begins_alone=True, rounds=1).copies == 2


def test_the_lines_of_a_region_share_the_copy_of_the_global_model() -> None:
    assert replace(ESTIMATE, trainings=[*TRAININGS, TRAININGS[0]]).copies == 4 * (2 + 3)


def test_unknown_facts_are_reported_with_the_next_step() -> None:
    unknown = [replace(TRAININGS[0], seconds=None, data_bytes=None), *TRAININGS[1:]]
    found = sentences(RoundsEstimate(rounds=2, trainings=unknown, merge=JobEstimate(region="eu-west-1")))
    assert found["trainings"].startswith("not known; write estimated_runtime into the lines")
    assert found["merges"] == "not known before the first one"
    assert found["weights across borders"] == "6 copies of a model, whose size is not known before the first round"
    assert found["in one place instead"] == "not known, as the size of the data in us-east-1 is not"
    no_price = [replace(training, hourly_dollars=None) for training in TRAININGS]
    assert sentences(replace(ESTIMATE, trainings=no_price))["trainings"] == "12.00 instance-hours, price not known"


def test_the_cheapest_region_has_the_most_data_unless_its_instances_cost_more() -> None:
    trainings = [replace(TRAININGS[0], data_bytes=300 * GB), *TRAININGS[1:]]
    found = sentences(replace(ESTIMATE, trainings=trainings))["in one place instead"]
    assert found.startswith("215 GB of 537 GB would be copied to us-east-1, $4.00 at $0.02 per GB")
    expensive = [replace(trainings[0], hourly_dollars=40.0), *trainings[1:]]
    assert (
        "would be copied to us-west-2, $8.00"
        in sentences(replace(ESTIMATE, trainings=expensive))["in one place instead"]
    )
