"""Algorithm resources: created and described through the API, and trained by name or ARN."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.integration.localcloud.compute import ACCOUNT, image
from tests.integration.localcloud.training_side import SageMaker

PRINTS = "print('loss=0.25;')"


def specification(sagemaker: SageMaker, **changes: Any) -> dict[str, Any]:
    depth = {"IntegerParameterRangeSpecification": {"MinValue": "1", "MaxValue": "8"}}
    return {
        "TrainingImage": image(sagemaker.ecr, "forest", PRINTS),
        "SupportedHyperParameters": [
            {"Name": "depth", "Type": "Integer", "Range": depth, "IsRequired": True, "DefaultValue": "3"},
            {"Name": "comment", "Type": "FreeText"},
        ],
        "SupportedTrainingInstanceTypes": ["ml.c5.xlarge"],
        "SupportsDistributedTraining": False,
        "MetricDefinitions": [{"Name": "loss", "Regex": "loss=([0-9.]+);"}],
        "TrainingChannels": [
            {"Name": "train", "IsRequired": True, "SupportedContentTypes": [], "SupportedInputModes": ["File"]}
        ],
        **changes,
    }


@pytest.fixture(scope="module")
def arn(sagemaker: SageMaker) -> str:
    made = sagemaker.api.create_algorithm(AlgorithmName="forest", TrainingSpecification=specification(sagemaker))
    return str(made["AlgorithmArn"])


@pytest.mark.parametrize("by_name", [True, False])
def test_an_algorithm_trains_its_image_with_its_metrics(sagemaker: SageMaker, arn: str, by_name: bool) -> None:
    asked = {"AlgorithmName": "forest" if by_name else arn, "TrainingInputMode": "File"}
    job = sagemaker.run(AlgorithmSpecification=asked, HyperParameters={"depth": "4"})
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert job["AlgorithmSpecification"] == asked
    assert [(metric["MetricName"], metric["Value"]) for metric in job["FinalMetricDataList"]] == [("loss", 0.25)]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"HyperParameters": {"depth": "9"}}, "hyperparameters depth 9: out of range"),
        ({"HyperParameters": {}}, "hyperparameters depth: forest requires it"),
        ({"HyperParameters": {"depth": "4", "size": "1"}}, "no hyperparameter of this name"),
        (
            {"ResourceConfig": {"InstanceType": "ml.c5.xlarge", "InstanceCount": 2, "VolumeSizeInGB": 5}},
            "trains on one instance only",
        ),
        (
            {"ResourceConfig": {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 5}},
            "does not train on this instance type",
        ),
    ],
)
def test_a_job_that_breaks_a_rule_is_refused(
    sagemaker: SageMaker, arn: str, changes: dict[str, Any], reason: str
) -> None:
    asked = {"AlgorithmName": arn, "TrainingInputMode": "File"}
    with pytest.raises(ClientError, match=reason):
        sagemaker.create(AlgorithmSpecification=asked, **{"HyperParameters": {"depth": "4"}, **changes})


def test_a_job_without_a_required_channel_is_refused(sagemaker: SageMaker, arn: str) -> None:
    asked = {"AlgorithmName": arn, "TrainingInputMode": "File"}
    channels = [sagemaker.channel("other")]
    with pytest.raises(ClientError, match="forest requires the channel train"):
        sagemaker.create(AlgorithmSpecification=asked, HyperParameters={"depth": "4"}, InputDataConfig=channels)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"TrainingImage": f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/forest:v1"}, "excludes TrainingImage"),
        ({"MetricDefinitions": [{"Name": "a", "Regex": "(.)"}]}, "defines its own metrics"),
        ({"AlgorithmName": "other"}, "Requested resource not found"),
    ],
)
@pytest.mark.usefixtures("arn")
def test_an_invalid_specification_is_refused(sagemaker: SageMaker, asked: dict[str, Any], reason: str) -> None:
    with pytest.raises(ClientError, match=reason):
        sagemaker.create(AlgorithmSpecification={"AlgorithmName": "forest", "TrainingInputMode": "File", **asked})


def test_an_algorithm_is_described_until_it_is_deleted(sagemaker: SageMaker, arn: str) -> None:
    asked = specification(sagemaker)
    for name in ("forest", arn):
        described = sagemaker.api.describe_algorithm(AlgorithmName=name)
        assert (described["AlgorithmArn"], described["AlgorithmStatus"]) == (arn, "Completed")
        assert described["TrainingSpecification"] == asked
    sagemaker.api.create_algorithm(AlgorithmName="second", TrainingSpecification=asked)
    with pytest.raises(ClientError, match="already exists"):
        sagemaker.api.create_algorithm(AlgorithmName="second", TrainingSpecification=asked)
    sagemaker.api.delete_algorithm(AlgorithmName="second")
    with pytest.raises(ClientError, match="not found"):
        sagemaker.api.describe_algorithm(AlgorithmName="second")


def test_an_algorithm_needs_an_existing_image(sagemaker: SageMaker) -> None:
    absent = specification(sagemaker, TrainingImage=f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/absent:1")
    with pytest.raises(ClientError, match="Cannot find the requested image"):
        sagemaker.api.create_algorithm(AlgorithmName="third", TrainingSpecification=absent)
