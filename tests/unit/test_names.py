"""Names: AWS accepts them, and they identify the owner of a resource."""

import re
from functools import cache
from typing import Any

import pytest
from botocore.loaders import Loader
from hypothesis import given
from hypothesis import strategies as st

from traingrid import names
from traingrid.grid.model import NAME_LIMIT

SUBMISSIONS = st.text("0123456789abcdef", min_size=8, max_size=8)
GRIDS = st.from_regex(r"[a-z][a-z0-9]{0,7}(-[a-z0-9]{1,7}){0,2}", fullmatch=True).filter(
    lambda name: len(name) <= NAME_LIMIT
)


@cache
def sagemaker_shapes() -> dict[str, Any]:
    shapes: dict[str, Any] = Loader().load_service_model("sagemaker", "service-2")["shapes"]
    return shapes


@given(grid=GRIDS, submission=SUBMISSIONS, index=st.integers(0, 10**6), attempt=st.integers(0, 999))
def test_a_training_jobs_name_is_valid_and_identifies_its_line(
    grid: str, submission: str, index: int, attempt: int
) -> None:
    name = names.training_job(grid, submission, index, attempt)
    limits = sagemaker_shapes()["TrainingJobName"]
    assert re.fullmatch(limits["pattern"], name)
    assert len(name) <= limits["max"]
    parsed = names.parse_training_job(grid, name)
    assert parsed == names.TrainingJobName(submission=submission, index=index, attempt=attempt)


@pytest.mark.parametrize(
    "name",
    [
        "other-0123abcd-0-1",
        "traingrid",
        "traingrid-0123abcd-0",
        "traingrid-0123abcd-00-1",
        "traingrid-0123abcd-0-01",
        "traingrid-0123ABCD-0-1",
        "traingrid-0123abcd-0-1-2",
        "traingrid-0123abcd-٣-1",
        "traingrid-0123abcd-0-1\n",
        "traingrid-x-0123abcd-0-1",
    ],
)
def test_other_names_are_not_parsed_as_training_jobs(name: str) -> None:
    assert names.parse_training_job("traingrid", name) is None


def test_two_regions_of_one_account_have_no_bucket_or_role_in_common() -> None:
    for named in (
        names.execution_role("traingrid", "{}"),
        names.data_bucket("traingrid", "123456789012", "{}"),
        names.output_bucket("traingrid", "123456789012", "{}"),
        names.region_stack("traingrid", "{}"),
    ):
        assert named.format("us-east-1") != named.format("us-west-2")


def test_the_longest_bucket_name_has_63_characters_at_most() -> None:
    longest = names.manifest_bucket("a" * NAME_LIMIT, "123456789012", "ap-southeast-2")
    assert 55 < len(longest) <= 63


def test_images_and_roles_have_the_form_that_aws_gives_them() -> None:
    assert (
        names.image_uri("123456789012", "us-west-2", names.training_repository("traingrid"), "1")
        == "123456789012.dkr.ecr.us-west-2.amazonaws.com/traingrid/training:1"
    )
    assert (
        names.image_of_digest("123456789012", "us-east-1", names.orchestrator_repository("traingrid"), "sha256:7")
        == "123456789012.dkr.ecr.us-east-1.amazonaws.com/traingrid/orchestrator@sha256:7"
    )
    assert (
        names.execution_role_arn("traingrid", "123456789012", "eu-west-1")
        == "arn:aws:iam::123456789012:role/traingrid-execution-eu-west-1"
    )
