"""Algorithm resources: lines with `algorithm`, against the rules that DescribeAlgorithm returns."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.sample_deployment import sample_deployment
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings
from traingrid.manifest import algorithm_resources
from traingrid.manifest.errors import LineError
from traingrid.manifest.parse import parse

TREES = "arn:aws:sagemaker:{region}:123456789012:algorithm/trees"
RANGE = {"IntegerParameterRangeSpecification": {"MinValue": "1", "MaxValue": "8"}}
RULES = {
    "TrainingImage": "image",
    "SupportedHyperParameters": [{"Name": "depth", "Type": "Integer", "Range": RANGE}],
    "SupportedTrainingInstanceTypes": ["ml.p3.16xlarge"],
    "SupportsDistributedTraining": True,
    "TrainingChannels": [
        {"Name": name, "SupportedContentTypes": [], "SupportedInputModes": ["File"], "IsRequired": True}
        for name in ("train", "validation")
    ],
}


@dataclass
class FakeSageMaker:
    """DescribeAlgorithm of all Regions.

    Attributes:
        status: The status of every algorithm.
        error: The code of the error that every call raises; empty for none.
        asked: The Region and algorithm of each call.
    """

    status: str = "Completed"
    error: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)

    def client(self, _service: str, region: str, _role: object = None) -> "RegionalClient":
        return RegionalClient(self, region)


@dataclass
class RegionalClient:
    """The client of one Region."""

    fake: FakeSageMaker
    region: str

    def describe_algorithm(self, **asked: str) -> dict[str, Any]:
        self.fake.asked.append((self.region, asked["AlgorithmName"]))
        if self.fake.error:
            message = "Requested resource not found."
            raise ClientError({"Error": {"Code": self.fake.error, "Message": message}}, "DescribeAlgorithm")
        return {"AlgorithmName": "trees", "AlgorithmStatus": self.fake.status, "TrainingSpecification": RULES}


@pytest.fixture
def sagemaker(monkeypatch: pytest.MonkeyPatch) -> FakeSageMaker:
    fake = FakeSageMaker()
    monkeypatch.setattr(algorithm_resources, "client", fake.client)
    return fake


def deployment() -> Deployment:
    sample = sample_deployment()
    described = sample.grid.model_dump(mode="json", exclude_defaults=True) | {"algorithms": [TREES]}
    return replace(sample, grid=GridSettings.model_validate(described))


def errors_of(*lines: dict[str, Any]) -> list[LineError]:
    there = deployment()
    plain = {"region": "us-east-1", "s3_uri": "s3://ragab-ml/x", "algorithm": TREES}
    content = "\n".join(json.dumps({**plain, **line}) for line in lines)
    return algorithm_resources.wrong_resources(parse(content.encode(), there), there)


def test_valid_lines_are_described_once_for_each_region(sagemaker: FakeSageMaker) -> None:
    there = {"replicas": {"us-west-2": "s3://ragab-ml-pdx/x"}}
    assert errors_of({"hyperparameters": {"depth": 3}}, {}, there) == []
    assert sagemaker.asked == [(region, TREES.format(region=region)) for region in ("us-east-1", "us-west-2")]


@pytest.mark.usefixtures("sagemaker")
def test_a_wrong_hyperparameter_is_reported_with_line_and_field() -> None:
    (error,) = errors_of({}, {"hyperparameters": {"depth": 9}})
    assert str(error) == (
        "line 2, hyperparameters.depth '9': out of range. Write a whole number of at least 1 and at most 8."
    )


@pytest.mark.usefixtures("sagemaker")
def test_a_rule_that_is_broken_in_two_regions_is_reported_once() -> None:
    replicas = {"replicas": {"us-west-2": "s3://ragab-ml-pdx/x"}}
    (error,) = errors_of({"hyperparameters": {"size": 9}, **replicas})
    assert "trees has no hyperparameter of this name" in error.reason


def test_an_algorithm_that_does_not_exist_is_reported(sagemaker: FakeSageMaker) -> None:
    sagemaker.error = "ValidationException"
    (error,) = errors_of({})
    assert error.field == "algorithm"
    assert "finds no such algorithm in us-east-1 (Requested resource not found)" in error.reason


def test_an_algorithm_that_is_not_ready_is_reported(sagemaker: FakeSageMaker) -> None:
    sagemaker.status = "Failed"
    (error,) = errors_of({})
    assert "is in status Failed" in error.reason


def test_an_algorithm_that_the_user_may_not_describe_is_not_checked(sagemaker: FakeSageMaker) -> None:
    sagemaker.error = "AccessDeniedException"
    assert errors_of({"hyperparameters": {"depth": 9}}) == []


def test_lines_without_an_algorithm_ask_nothing(sagemaker: FakeSageMaker) -> None:
    there = deployment()
    lines = parse(b"us-east-1,s3://ragab-ml/x\n", there)
    assert algorithm_resources.wrong_resources(lines, there) == []
    assert sagemaker.asked == []
