"""Fields that a plan reads or writes, and residency, which the intake enforces."""

import json
from typing import Any

import pytest

from tests.support.sample_deployment import sample_deployment
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings
from traingrid.grid.residency import common_residency, is_resident
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse

LINE: dict[str, Any] = {"region": "eu-west-1", "s3_uri": "s3://ragab-ml-dub/day1"}


@pytest.fixture(scope="module")
def deployment() -> Deployment:
    found = sample_deployment()
    grid = found.grid.model_copy(update={"instance_types": ("ml.p4d.24xlarge", "ml.g5.xlarge")})
    return Deployment(**{**found.__dict__, "grid": grid})


def errors(deployment: Deployment, *lines: dict[str, Any]) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        parse("".join(json.dumps(LINE | line) + "\n" for line in lines).encode(), deployment)
    return [str(error) for error in caught.value.errors]


def test_a_job_keeps_the_fields_of_its_plan(deployment: Deployment) -> None:
    line = {
        "residency": ["eu"],
        "finish_by": "2026-12-01T14:00:00+02:00",
        "estimated_dollars": 12.5,
        "budget_dollars": 100,
        "dollars_per_hour": 28,
        "spot_dollars_per_hour": 9.5,
        "estimated_runtime": "6h",
        "instance_types": ["ml.p4d.24xlarge"],
    }
    (job,) = jobs_of_lines(parse(json.dumps(LINE | line).encode(), deployment), deployment, "0" * 8)
    assert (job.residency, job.finish_by) == (("eu",), "2026-12-01T12:00:00Z")
    assert (job.estimated_dollars, job.budget_dollars) == (12.5, 100.0)
    assert (job.dollars_per_hour, job.spot_dollars_per_hour) == (28.0, 9.5)


def test_csv_has_the_same_fields(deployment: Deployment) -> None:
    text = "region,s3_uri,residency,finish_by,estimated_dollars\neu-west-1,s3://ragab-ml-dub/d,eu us,2026-12-01,7.25\n"
    (job,) = jobs_of_lines(parse(text.encode(), deployment), deployment, "0" * 8)
    assert (job.residency, job.finish_by, job.estimated_dollars) == (("eu", "us"), "2026-12-01T00:00:00Z", 7.25)


@pytest.mark.parametrize(
    ("fields", "max_wait"),
    [
        ({}, 36),
        ({"finish_by": "2026-12-01"}, 56 * 24),
        ({"finish_by": "2026-12-01", "max_wait": "20h"}, 20),
        ({"finish_by": "2026-12-01", "spot": False}, 0),
    ],
)
def test_a_spot_job_with_a_deadline_has_no_other_limit_of_its_wait(
    deployment: Deployment, fields: dict[str, Any], max_wait: int
) -> None:
    """Its child reduces the limit to the deadline (tests/unit/child/test_deadline.py)."""
    line = {**LINE, "spot": True, "max_runtime": "12h", **fields}
    (job,) = jobs_of_lines(parse(json.dumps(line).encode(), deployment), deployment, "0" * 8)
    assert job.max_wait_seconds == max_wait * 3600


@pytest.mark.parametrize("residency", [["us"], "us-east-1 us-west-2"])
def test_a_region_outside_of_the_residency_is_refused(deployment: Deployment, residency: object) -> None:
    (error,) = errors(deployment, {"residency": residency})
    assert "the data may only be in us" in error
    assert "eu-west-1" in error


def test_a_replica_outside_of_the_residency_is_refused(deployment: Deployment) -> None:
    (error,) = errors(deployment, {"residency": ["eu"], "replicas": {"us-east-1": "s3://ragab-ml/day1"}})
    assert "the line names us-east-1" in error


def test_lines_with_different_budgets_are_refused(deployment: Deployment) -> None:
    (error,) = errors(deployment, {"budget_dollars": 10}, {"budget_dollars": 20})
    assert "different values of budget_dollars" in error


def test_a_line_without_a_price_is_refused_if_the_file_has_a_budget(deployment: Deployment) -> None:
    (error,) = errors(deployment, {"budget_dollars": 10, "dollars_per_hour": 1}, {"budget_dollars": 10})
    assert "line 2" in error
    assert "a file with budget_dollars requires the price of an instance-hour on every line" in error
    assert "let `traingrid plan` write it" in error


def test_lines_to_plan_need_no_price(deployment: Deployment) -> None:
    text = json.dumps(LINE | {"budget_dollars": 10}).encode()
    (line,) = parse(text, deployment, to_plan=True)
    assert line.settings.budget_dollars == 10.0


def test_estimates_above_the_budget_are_refused(deployment: Deployment) -> None:
    line = {"budget_dollars": 10, "dollars_per_hour": 1, "estimated_dollars": 5.01}
    (error,) = errors(deployment, line, line)
    assert "the estimates of 2 lines are $10.02, and budget_dollars is $10.00" in error


def test_estimates_that_exceed_the_budget_by_their_rounding_are_accepted(deployment: Deployment) -> None:
    line = {"budget_dollars": 10, "dollars_per_hour": 1, "estimated_dollars": 3.33335}
    assert len(parse("".join(json.dumps(LINE | line) + "\n" for _ in range(3)).encode(), deployment)) == 3


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("residency", ["mars"], "neither a geography nor a Region"),
        ("residency", [], "must be a list of words"),
        ("residency", [1], "must be a list of words"),
        ("finish_by", "tomorrow", "must be a time"),
        ("finish_by", 20261201, "must be a time"),
        ("estimated_dollars", "12 USD", "must be a number"),
        ("estimated_dollars", -1, "out of range"),
        ("estimated_dollars", True, "must be a number"),
        ("budget_dollars", 1e12, "out of range"),
        ("dollars_per_hour", "free", "must be a number"),
        ("estimated_runtime", "long", "a duration is a whole number"),
        ("instance_types", ["ml.unknown.large"], "does not allow this instance type"),
        ("instance_types", ["ml.g5.xlarge"], "ml.g5.xlarge has 1 accelerators"),
    ],
)
def test_an_invalid_value_is_refused_with_its_field(
    deployment: Deployment, field: str, value: object, reason: str
) -> None:
    (error,) = errors(deployment, {field: value})
    assert field in error
    assert reason in error


def test_a_geography_has_the_regions_with_its_prefix() -> None:
    assert is_resident("eu-central-1", ["eu"])
    assert not is_resident("eusc-de-east-1", ["eu"])
    assert not is_resident("us-east-1", ["eu", "us-west-2"])
    assert is_resident("us-west-2", ["eu", "us-west-2"])
    assert is_resident("ap-south-1", [])


class TestResidencyOfRegions:
    """`residency` of a Region in grid.yaml, which no line can extend."""

    @pytest.fixture
    def limited(self) -> Deployment:
        found = sample_deployment()
        described = found.grid.model_dump(exclude_defaults=True)
        described["regions"]["eu-west-1"]["residency"] = ["eu"]
        return Deployment(**{**found.__dict__, "grid": GridSettings.model_validate(described)})

    def test_a_line_in_the_region_is_accepted(self, limited: Deployment) -> None:
        replicas = {"eu-central-1": "s3://ragab-ml-fra/day1"}
        (line,) = parse(json.dumps(LINE | {"replicas": replicas}).encode(), limited)
        assert (line.region, list(line.replicas)) == ("eu-west-1", ["eu-central-1"])

    @pytest.mark.parametrize("own", [{}, {"residency": ["eu", "us"]}])
    def test_a_replica_elsewhere_is_refused(self, limited: Deployment, own: dict[str, Any]) -> None:
        (error,) = errors(limited, own | {"replicas": {"us-east-1": "s3://ragab-ml/day1"}})
        assert "replicas 'us-east-1': grid.yaml allows the data of eu-west-1 only in eu, but the line also" in error
        assert "names us-east-1" in error

    def test_the_data_of_a_replica_may_not_be_elsewhere_either(self, limited: Deployment) -> None:
        replicas = {"eu-west-1": LINE["s3_uri"], "us-west-2": "s3://ragab-ml-pdx/day1"}
        line = {"region": "us-east-1", "s3_uri": "s3://ragab-ml/day1", "replicas": replicas}
        first, second = errors(limited, line)
        assert "region 'us-east-1': grid.yaml allows the data of eu-west-1 only in eu" in first
        assert "replicas 'us-west-2': grid.yaml allows the data of eu-west-1 only in eu" in second

    def test_the_residency_of_a_line_can_be_narrower(self, limited: Deployment) -> None:
        replicas = {"eu-central-1": "s3://ragab-ml-fra/day1"}
        (error,) = errors(limited, {"residency": ["eu-west-1"], "replicas": replicas})
        assert "the data may only be in eu-west-1, but the line names eu-central-1" in error


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        ((), (), ()),
        (("eu",), (), ("eu",)),
        ((), ("us-east-1",), ("us-east-1",)),
        (("eu",), ("eu-west-1", "us"), ("eu-west-1",)),
        (("eu", "us"), ("us", "eu"), ("eu", "us")),
        (("us-east-1", "eu"), ("us", "ap"), ("us-east-1",)),
    ],
)
def test_two_residencies_have_in_common_what_both_allow(
    first: tuple[str, ...], second: tuple[str, ...], both: tuple[str, ...]
) -> None:
    assert common_residency(first, second) == both
