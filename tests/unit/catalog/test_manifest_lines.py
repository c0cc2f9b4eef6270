"""Manifests from the results of queries."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.support.sample_deployment import sample_deployment
from traingrid.catalog.manifest_lines import manifest_of
from traingrid.catalog.query import Result
from traingrid.errors import UsageError
from traingrid.job.job import Job
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse

PLACE: dict[str, Any] = {"region": "us-east-1", "s3_uri": "s3://ragab-ml/day1"}


def result(*rows: dict[str, Any]) -> Result:
    return Result(columns=tuple(rows[0]), rows=tuple(tuple(row.values()) for row in rows))


def jobs(text: str) -> list[Job]:
    deployment = sample_deployment()
    return jobs_of_lines(parse(text.encode(), deployment), deployment, "0a1b2c3d")


@pytest.mark.parametrize("as_csv", [False, True])
def test_a_result_becomes_a_manifest_that_the_intake_accepts(as_csv: bool) -> None:
    rows = [
        {
            **PLACE,
            "name": "first",
            "hp.epochs": 3,
            "hp.learning_rate": Decimal("0.5"),
            "spot": "true",
            "priority": None,
        },
        {**PLACE, "name": 'a, "b"', "hp.epochs": Decimal(4), "hp.learning_rate": None, "spot": None, "priority": 7},
    ]
    text = manifest_of(result(*rows), as_csv=as_csv)
    second, first = jobs(text)  # the second line has a higher priority
    assert (first.name, first.spot, second.name, second.spot) == ("first", True, 'a, "b"', False)
    assert first.hyperparameters == {"model": "resnet50", "epochs": "3", "learning_rate": "0.5"}
    assert second.hyperparameters == {"model": "resnet50", "epochs": "4"}
    assert text.startswith("# jobs: 2\n")


def test_an_entry_overrides_the_mapping_of_its_row() -> None:
    row = {**PLACE, "hp.epochs": 5, "hyperparameters": '{"epochs": 3, "mixup": true}', "tags": {}, "tag.team": "a"}
    (job,) = jobs(manifest_of(result(row)))
    assert job.hyperparameters == {"model": "resnet50", "epochs": "5", "mixup": "true"}
    assert job.tags == {"team": "a"}


def test_dates_become_text() -> None:
    row = {**PLACE, "tag.day": date(2026, 11, 23), "tag.time": datetime(2026, 11, 23, 7, tzinfo=UTC)}
    line = json.loads(manifest_of(result(row)).splitlines()[1])
    assert line["tags"] == {"day": "2026-11-23", "time": "2026-11-23T07:00:00+00:00"}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({**PLACE, "epochs": 3}, "The query's column 'epochs' is no field of a job."),
        ({**PLACE, "hp.": 3}, "The query's column 'hp.' is no field of a job."),
        ({**PLACE, "execution_role": "arn"}, "Remove it; `cdk deploy` creates the roles"),
        ({"s3_uri": "s3://b/c"}, "no column region, which every job requires"),
        ({"region": "us-east-1"}, "no column s3_uri, inputs or input.<channel>"),
        ({**PLACE, "hyperparameters": "[1]"}, "row 1: the column hyperparameters is not a JSON object: '[1]'"),
        ({**PLACE, "tags": "a=b"}, "row 1: the column tags is not a JSON object: 'a=b'"),
        ({**PLACE, "region": None}, "row 1: the column region is empty"),
        ({**PLACE, "s3_uri": None}, "row 1: no column has data"),
        ({**PLACE, "hp.x": float("inf")}, "row 1: the column hp.x is inf, which is not a finite number"),
        ({**PLACE, "hp.x": Decimal("NaN")}, "row 1: the column hp.x is NaN, which is not a finite number"),
        ({**PLACE, "hyperparameters": '{"a": NaN}'}, "row 1: the column hyperparameters is not a JSON object"),
        ({**PLACE, "name": b"\x00"}, "row 1: the column name is a bytes, which a manifest cannot hold"),
    ],
)
def test_a_result_that_is_no_manifest_is_refused(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError) as error:
        manifest_of(result(row))
    assert reason in str(error.value)


def test_a_column_that_occurs_twice_is_refused() -> None:
    twice = Result(columns=("region", "s3_uri", "region"), rows=(("a", "b", "c"),))
    with pytest.raises(UsageError, match="the column 'region' twice"):
        manifest_of(twice)


def test_csv_has_no_column_for_a_mapping() -> None:
    with pytest.raises(UsageError, match=r"no column hyperparameters\. Write JSON Lines"):
        manifest_of(result({**PLACE, "hyperparameters": "{}"}), as_csv=True)


def test_a_result_without_rows_is_refused() -> None:
    with pytest.raises(UsageError, match="The query returns no rows"):
        manifest_of(Result(columns=("region", "s3_uri"), rows=()))


@pytest.mark.parametrize(("value", "spot"), [(1, True), (0, False), (True, True), ("true", True), (None, False)])
def test_the_numbers_that_sqlite_has_for_booleans_are_booleans(value: object, spot: bool) -> None:
    (job,) = jobs(manifest_of(result({**PLACE, "spot": value})))
    assert job.spot == spot


def test_the_number_of_lines_is_limited() -> None:
    rows = Result(columns=("region", "s3_uri"), rows=(("us-east-1", "s3://ragab-ml/a"),) * 50_001)
    with pytest.raises(UsageError, match="50,001 rows, and a manifest has at most 50,000 lines"):
        manifest_of(rows)


def test_errors_are_limited() -> None:
    rows = [{**PLACE, "hyperparameters": "x"} for _ in range(50)]
    with pytest.raises(UsageError) as error:
        manifest_of(result(*rows))
    assert len(error.value.what.splitlines()) == 21
