"""Job lines: dictionaries and DataFrames become the lines of a manifest."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from tests.support.sample_deployment import SAMPLE_BUCKETS
from traingrid.api.job_lines import manifest_of
from traingrid.errors import UsageError
from traingrid.grid.deployment import Deployment
from traingrid.manifest.parse import parse

JOB = {"region": "us-east-1", "s3_uri": f"s3://{SAMPLE_BUCKETS['us-east-1']}/x"}


@dataclass
class Frame:
    """The part of a DataFrame that is used."""

    rows: list[dict[str, Any]]

    def to_dict(self, orient: str) -> list[dict[str, Any]]:
        assert orient == "records"
        return self.rows


class Scalar:
    def item(self) -> float:
        return 0.25


def lines(manifest: bytes) -> list[Any]:
    declared, *rest = manifest.decode().splitlines()
    assert declared == f"# jobs: {len(rest)}"
    return [json.loads(line) for line in rest]


def test_dictionaries_become_lines_that_the_intake_accepts(deployment: Deployment) -> None:
    manifest = manifest_of([JOB | {"hyperparameters": {"lr": 0.1}}, JOB | {"hp.epochs": 3, "name": "second"}])
    first, second = parse(manifest, deployment)
    assert first.settings.hyperparameters["lr"] == "0.1"
    assert (second.name, second.settings.hyperparameters["epochs"]) == ("second", "3")


def test_empty_cells_of_a_data_frame_are_left_out() -> None:
    frame = Frame([JOB | {"name": "a", "priority": float("nan")}, JOB | {"name": None, "priority": Scalar()}])
    assert lines(manifest_of(frame)) == [JOB | {"name": "a"}, JOB | {"priority": 0.25}]


def test_a_generator_of_jobs_is_read_once() -> None:
    assert len(lines(manifest_of(JOB | {"name": f"job-{number}"} for number in range(3)))) == 3


@pytest.mark.parametrize(
    ("jobs", "text"),
    [
        ([], "There are no jobs to submit"),
        (JOB, "The jobs are a dict, not a list of dictionaries"),
        (b"us-east-1,s3://x", "The jobs are a bytes, not a list"),
        (7, "The jobs are a int, not a list"),
        ([JOB, "us-east-1"], "Job 1 is a str, not a dictionary"),
        ([JOB | {"priority": Decimal(1)}], "job 0, priority: '1' is a Decimal"),
        ([JOB | {"hyperparameters": {"lr": float("inf")}}], r"job 0, hyperparameters\.lr: 'inf' is a float"),
    ],
)
def test_anything_else_is_an_error_that_names_the_job(jobs: Iterable[Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        manifest_of(jobs)
