"""Search for training jobs by properties, tags, hyperparameters and metrics."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.integration.localcloud.training_side import SageMaker


@pytest.fixture(scope="module")
def found(client: Callable[..., Any]) -> Callable[..., list[str]]:
    """Create two jobs, and return a function that returns the names of jobs that match filters."""
    sagemaker = SageMaker(client, "eu-north-1")
    algorithm = {"MetricDefinitions": [{"Name": "top1", "Regex": "top1=([0-9.]+)"}]}
    for name, rate, score in (("ab", "0.1", "0.9"), ("abc", "0.5", "0.7")):
        request = sagemaker.request(f"print('top1={score}')", TrainingJobName=name, HyperParameters={"rate": rate})
        request["AlgorithmSpecification"] |= algorithm
        sagemaker.api.create_training_job(**request, Tags=[{"Key": "name", "Value": name}])
        assert sagemaker.ended(name)["TrainingJobStatus"] == "Completed"

    def search(*filters: tuple[str, str, str], **more: Any) -> list[str]:
        listed = [
            {"Name": name, "Operator": kind} | ({"Value": value} if value else {}) for name, kind, value in filters
        ]
        expression = (
            {"SearchExpression": {"Filters": listed, "Operator": more.pop("operator", "And")}} if filters else {}
        )
        pages = sagemaker.api.get_paginator("search").paginate(Resource="TrainingJob", **expression, **more)
        return [one["TrainingJob"]["TrainingJobName"] for page in pages for one in page["Results"]]

    return search


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        (("TrainingJobStatus", "Equals", "Completed"), ["abc", "ab"]),
        (("TrainingJobStatus", "NotEquals", "Completed"), []),
        (("TrainingJobName", "Contains", "bc"), ["abc"]),
        (("TrainingJobName", "In", "ab,b"), ["ab"]),
        (("Tags.name", "Equals", "ab"), ["ab"]),
        (("HyperParameters.rate", "GreaterThan", "0.2"), ["abc"]),
        (("Metrics.top1", "GreaterThanOrEqualTo", "0.9"), ["ab"]),
        (("ResourceConfig.InstanceCount", "LessThan", "2"), ["abc", "ab"]),
        (("CreationTime", "LessThan", "2020-01-01T00:00:00"), []),
        (("FailureReason", "Exists", ""), []),
    ],
)
def test_one_filter_finds_the_jobs(
    found: Callable[..., list[str]], condition: tuple[str, str, str], names: list[str]
) -> None:
    assert found(condition) == names


def test_filters_are_combined_and_results_are_paged(found: Callable[..., list[str]]) -> None:
    both = (("Tags.name", "Equals", "ab"), ("Tags.name", "Equals", "abc"))
    assert found(*both) == []
    assert found(*both, operator="Or") == ["abc", "ab"]
    assert found(MaxResults=1) == ["abc", "ab"], "the last modified job comes first"
    assert found(SortBy="TrainingJobName", SortOrder="Ascending") == ["ab", "abc"]


@pytest.mark.parametrize("name", ["TrainingJobNames", "ResourceConfig.Instances", "Nothing.here"])
def test_an_unknown_property_is_refused(found: Callable[..., list[str]], name: str) -> None:
    with pytest.raises(ClientError, match=f"Unknown property name: {name}"):
        found((name, "Equals", "x"))
