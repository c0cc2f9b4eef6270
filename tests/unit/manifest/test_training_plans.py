"""Training plans: a line names plans that grid.yaml lists, in its own Regions, and the request contains them."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from botocore.session import get_session
from botocore.validate import validate_parameters

from tests.support.sample_deployment import ACCOUNT
from traingrid.backends.sagemaker.request import fingerprint, training_job_request
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings
from traingrid.job.job import Job, job_in_region
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse

EAST, WEST = "us-east-1", "us-west-2"
LINE: dict[str, Any] = {"region": EAST, "s3_uri": "s3://ragab-ml/x"}
REPLICATED = {**LINE, "replicas": {WEST: "s3://ragab-ml-pdx/x"}}


def arn(region: str = EAST, name: str = "november", account: str = ACCOUNT) -> str:
    return f"arn:aws:sagemaker:{region}:{account}:training-plan/{name}"


@pytest.fixture
def reserved(deployment: Deployment) -> Deployment:
    """A grid with two plans in one Region, and one in another."""
    settings = deployment.grid.model_dump(exclude_defaults=True)
    settings["regions"][EAST]["training_plans"] = ["november", "december"]
    settings["regions"][WEST]["training_plans"] = ["november"]
    return replace(deployment, grid=GridSettings.model_validate(settings))


def job_of(deployment: Deployment, text: str) -> Job:
    (job,) = jobs_of_lines(parse(text.encode(), deployment), deployment, "0123abcd")
    return job


def refused(deployment: Deployment, **line: Any) -> tuple[str, str]:
    with pytest.raises(ManifestError) as raised:
        parse(json.dumps(LINE | line).encode(), deployment)
    (error,) = raised.value.errors
    return error.field, f"{error.reason}. {error.next_step}"


def request(job: Job) -> dict[str, Any]:
    made = training_job_request("name", job, f"arn:aws:iam::{ACCOUNT}:role/execution", {})
    shape = get_session().get_service_model("sagemaker").operation_model("CreateTrainingJob").input_shape
    assert shape is not None
    validate_parameters(made, shape)
    return made


def test_a_plain_arn_is_the_plan_of_the_lines_own_region(reserved: Deployment) -> None:
    for text in (
        f"region,s3_uri,training_plan\n{EAST},s3://ragab-ml/x,{arn()}\n",
        json.dumps({**LINE, "training_plan": arn()}),
        json.dumps({**LINE, "training_plan": {EAST: arn()}}),
    ):
        job = job_of(reserved, text)
        assert job.training_plan == arn()
        assert request(job)["ResourceConfig"]["TrainingPlanArn"] == arn()


def test_each_region_of_a_line_has_its_own_plan(reserved: Deployment) -> None:
    job = job_of(reserved, json.dumps({**REPLICATED, "training_plan": {EAST: arn(name="december"), WEST: arn(WEST)}}))
    assert job.training_plan == arn(name="december")
    there = job_in_region(job, WEST)
    assert there.training_plan == arn(WEST)
    assert job_in_region(there, EAST).training_plan == arn(name="december")


def test_a_region_without_a_plan_trains_on_demand(reserved: Deployment) -> None:
    job = job_of(reserved, json.dumps({**REPLICATED, "training_plan": arn()}))
    assert "TrainingPlanArn" not in request(job_in_region(job, WEST))["ResourceConfig"]
    job = job_of(reserved, json.dumps({**REPLICATED, "training_plan": {WEST: arn(WEST)}}))
    assert job.training_plan == ""


def test_a_plan_does_not_change_the_fingerprint_of_a_training_job(reserved: Deployment) -> None:
    """The plan decides where the job's instances come from, not its work."""
    plain, planned = (job_of(reserved, json.dumps(LINE | more)) for more in ({}, {"training_plan": arn()}))
    assert fingerprint(request(plain)) == fingerprint(request(planned))


@pytest.mark.parametrize("absent", [None, "", {}])
def test_an_empty_value_is_no_plan(reserved: Deployment, absent: Any) -> None:
    assert job_of(reserved, json.dumps({**LINE, "training_plan": absent})).training_plan == ""


@pytest.mark.parametrize(
    ("plan", "field", "message"),
    [
        ("november", "training_plan", "not the ARN of a training plan"),
        (7, "training_plan", "must be an ARN"),
        (["a"], "training_plan", "must be an ARN"),
        (arn().replace("training-plan", "training-job"), "training_plan", "must match the pattern"),
        (arn(WEST), "training_plan", f"the plan is in {WEST}, but the job is in {EAST}"),
        (arn(account="210987654321"), "training_plan", "the plan is in account 210987654321"),
        (arn(name="decembre"), "training_plan", "does not allow this training plan.*Did you mean december"),
        ({EAST: arn(WEST)}, f"training_plan.{EAST}", f"the plan is in {WEST}"),
        ({WEST: arn(WEST)}, f"training_plan.{WEST}", "the line has no data in this Region"),
        ({"mars": arn()}, "training_plan.mars", "the line has no data in this Region"),
    ],
)
def test_an_invalid_plan_is_refused(reserved: Deployment, plan: Any, field: str, message: str) -> None:
    found = refused(reserved, training_plan=plan)
    assert found[0] == field
    assert re.search(message, found[1]), found[1]


def test_spot_instances_with_a_plan_are_refused(reserved: Deployment) -> None:
    field, message = refused(reserved, training_plan=arn(), spot=True)
    assert field == "training_plan"
    assert "a training plan has no spot instances" in message


def test_a_grid_without_plans_allows_none(deployment: Deployment) -> None:
    assert "It allows none; add others to training_plans in grid.yaml" in refused(deployment, training_plan=arn())[1]


def test_all_errors_of_a_mapping_are_reported(reserved: Deployment) -> None:
    line = {**REPLICATED, "training_plan": {EAST: "x", WEST: "y"}}
    with pytest.raises(ManifestError) as raised:
        parse(json.dumps(line).encode(), reserved)
    assert [error.field for error in raised.value.errors] == [f"training_plan.{EAST}", f"training_plan.{WEST}"]
