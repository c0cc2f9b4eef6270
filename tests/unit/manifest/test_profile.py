"""profile: the steps of which the training image writes a profile."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.sample_deployment import SAMPLE_BUCKETS, sample_deployment
from traingrid.backends.sagemaker.request import PROFILE, training_job_request
from traingrid.grid.deployment import Deployment
from traingrid.job.job import Job
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse
from training_container.contract.profiled_steps import VARIABLE, ProfiledSteps

HERE = "us-east-1"
URI = f"s3://{SAMPLE_BUCKETS[HERE]}/x"


def job_of(deployment: Deployment, **line: Any) -> Job:
    made = json.dumps({"region": HERE, "s3_uri": URI, **line})
    (job,) = jobs_of_lines(parse(made.encode(), deployment), deployment, "0123abcd")
    return job


def environment(job: Job) -> dict[str, str]:
    request = training_job_request("traingrid-0123abcd-0-1", job, "arn:aws:iam::123456789012:role/x-y-z", {})
    found: dict[str, str] = request["Environment"]
    return found


def changed(**grid: Any) -> Deployment:
    made = sample_deployment()
    document = made.grid.model_dump(exclude_unset=True) | grid
    return replace(made, grid=type(made.grid).model_validate(document))


def reason(deployment: Deployment, **line: Any) -> str:
    with pytest.raises(ManifestError) as error:
        job_of(deployment, **line)
    (found,) = error.value.errors
    assert found.field == "profile"
    return found.reason


def test_the_steps_reach_the_training_image_in_the_variable_that_it_reads(deployment: Deployment) -> None:
    found = environment(job_of(deployment, profile={"steps": "100-110"}))
    assert PROFILE == VARIABLE
    steps = ProfiledSteps.from_environment(found)
    assert steps is not None
    assert (steps.first, steps.last) == (100, 110)


def test_a_line_without_the_field_sets_no_variable(deployment: Deployment) -> None:
    assert PROFILE not in environment(job_of(deployment))


def test_the_steps_have_a_column_in_csv(deployment: Deployment) -> None:
    content = f"region,s3_uri,profile.steps\n{HERE},{URI},5-9\n{HERE},{URI},\n".encode()
    jobs = jobs_of_lines(parse(content, deployment), deployment, "0123abcd")
    assert [job.profile for job in jobs] == ["5-9", ""]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("10-5", "the last step, 5, is before the first one, 10"),
        ("0-5", "the first step of a training has number 1"),
        ("-1-5", "steps must be two step numbers, FIRST-LAST"),
        ("5", "steps must be two step numbers, FIRST-LAST"),
        ("5-", "steps must be two step numbers, FIRST-LAST"),
        (5, "steps must be two step numbers, FIRST-LAST"),
        ("1-2000", "the profile of 2,000 steps would be too large; at most 1,000 are allowed"),
    ],
)
def test_another_form_is_refused_at_plan_time(deployment: Deployment, steps: object, expected: str) -> None:
    assert reason(deployment, profile={"steps": steps}) == expected


def test_a_field_that_is_no_object_is_refused(deployment: Deployment) -> None:
    assert reason(deployment, profile="5-9") == "must be an object with the key steps"


def test_an_unknown_key_is_refused(deployment: Deployment) -> None:
    found = reason(deployment, profile={"steps": "5-9", "memory": True})
    assert found == "unknown key 'memory'; the only key is steps"


def test_only_the_grids_own_image_writes_a_profile() -> None:
    images = {"resnet": {"framework": "pytorch", "version": "2.4.0", "target": "gpu"}}
    found = reason(changed(images=images), profile={"steps": "5-9"})
    assert found == "only the grid's own training image writes a profile"


def test_an_algorithm_writes_no_profile() -> None:
    images = {"resnet": {"algorithm": "xgboost", "version": "1.7-1"}}
    with pytest.raises(ManifestError) as error:
        job_of(changed(images=images), profile={"steps": "5-9"})
    assert "only the grid's own training image writes a profile" in [found.reason for found in error.value.errors]


def test_a_container_without_a_network_cannot_upload_a_profile() -> None:
    found = reason(changed(training={"network_isolation": True}), profile={"steps": "5-9"})
    assert found == "with network isolation, the container cannot upload a profile"
