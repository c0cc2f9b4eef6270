"""keep_alive: instances that SageMaker keeps for the next job, which grid.yaml must allow."""

import json
from dataclasses import replace
from typing import Any

import pytest
from botocore.session import get_session
from botocore.validate import validate_parameters

from stacks.training_job_permissions import never
from tests.support.sample_deployment import SAMPLE_BUCKETS, sample_deployment
from traingrid.backends.sagemaker.request import fingerprint, training_job_request
from traingrid.grid.deployment import Deployment
from traingrid.grid.training import Training
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse

ROLE = "arn:aws:iam::123456789012:role/x-y-z"


def allowing(seconds: int | None) -> Deployment:
    """Return the sample deployment with a maximum of `keep_alive`."""
    made = sample_deployment()
    training = made.grid.training.model_copy(update={"max_keep_alive": seconds})
    return replace(made, grid=made.grid.model_copy(update={"training": training}))


def request(deployment: Deployment, **line: Any) -> dict[str, Any]:
    made = {"region": "us-east-1", "s3_uri": f"s3://{SAMPLE_BUCKETS['us-east-1']}/x", **line}
    (job,) = jobs_of_lines(parse(json.dumps(made).encode(), deployment), deployment, "0123abcd")
    return training_job_request("traingrid-0123abcd-0-1", job, ROLE, {})


def test_without_the_field_the_request_has_no_period() -> None:
    assert "KeepAlivePeriodInSeconds" not in request(allowing(1800))["ResourceConfig"]


def test_the_period_is_in_a_request_that_the_service_model_accepts() -> None:
    made = request(allowing(1800), keep_alive="30m")
    shape = get_session().get_service_model("sagemaker").operation_model("CreateTrainingJob").input_shape
    assert shape is not None
    validate_parameters(made, shape)
    assert made["ResourceConfig"]["KeepAlivePeriodInSeconds"] == 1800
    assert fingerprint(made) == fingerprint(request(allowing(1800)))  # it does not change the training


@pytest.mark.parametrize(
    ("longest", "line", "expected"),
    [
        (None, {"keep_alive": "1m"}, "this grid keeps no instances"),
        (600, {"keep_alive": "11m"}, "must be at most 600 s, the limit of this grid"),
        (600, {"keep_alive": "1m", "spot": True}, "SageMaker keeps no spot instances"),
        (
            600,
            {"keep_alive": "1m", "budget_dollars": 5, "dollars_per_hour": 1},
            "a budget does not count the cost of kept instances",
        ),
        (600, {"keep_alive": "1m", "launch": "queued"}, "not supported in a service queue"),
        (3600, {"keep_alive": "61m"}, "out of range"),
    ],
)
def test_a_period_that_could_cost_money_unseen_is_refused(
    longest: int | None, line: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ManifestError) as error:
        request(allowing(longest), **line)
    assert expected in [found.reason for found in error.value.errors if found.field == "keep_alive"]


@pytest.mark.parametrize(("longest", "denied"), [(None, "0"), (1800, "1800")])
def test_children_are_denied_a_longer_period_than_the_grid_allows(longest: int | None, denied: str) -> None:
    conditions = [condition for _actions, condition in never(allowing(longest).grid)]
    assert {"NumericGreaterThan": {"sagemaker:KeepAlivePeriod": denied}} in conditions


def test_a_grid_cannot_allow_more_than_an_hour() -> None:
    with pytest.raises(ValueError, match="less than or equal to 3600"):
        Training.model_validate({"max_keep_alive": "61m"})
