"""Described algorithms: the rules in the reply of DescribeAlgorithm."""

from typing import Any

import pytest
from botocore.session import get_session
from botocore.validate import validate_parameters

from traingrid.algorithms.algorithm import ChannelUse, Use
from traingrid.algorithms.described import described

DEPTH = {"IntegerParameterRangeSpecification": {"MinValue": "1", "MaxValue": "8"}}
RATE = {"ContinuousParameterRangeSpecification": {"MinValue": "0.0", "MaxValue": "1.0"}}
KIND = {"CategoricalParameterRangeSpecification": {"Values": ["oak", "fir"]}}
TRAINING = {
    "TrainingImage": "123456789012.dkr.ecr.us-east-1.amazonaws.com/forest:1",
    "SupportedHyperParameters": [
        {"Name": "depth", "Type": "Integer", "Range": DEPTH, "IsRequired": True, "DefaultValue": "3"},
        {"Name": "rate", "Type": "Continuous", "Range": RATE},
        {"Name": "kind", "Type": "Categorical", "Range": KIND},
        {"Name": "comment", "Type": "FreeText"},
        {"Name": "free", "Type": "Integer"},
    ],
    "SupportedTrainingInstanceTypes": ["ml.m5.xlarge"],
    "SupportsDistributedTraining": False,
    "TrainingChannels": [
        {"Name": "train", "IsRequired": True, "SupportedContentTypes": ["text/csv"], "SupportedInputModes": ["File"]},
        {"Name": "extra", "SupportedContentTypes": [], "SupportedInputModes": ["File", "Pipe"]},
    ],
}
FOREST = described({"AlgorithmName": "forest", "TrainingSpecification": TRAINING})


def use(channels: dict[str, ChannelUse] | None = None, *, hosts: int = 1, **hyperparameters: str) -> Use:
    return Use(
        hyperparameters={"depth": "4", **hyperparameters},
        channels=channels if channels is not None else {"train": ChannelUse()},
        instance_type="ml.m5.xlarge",
        instance_count=hosts,
    )


def test_the_reply_of_this_test_has_the_form_of_the_service_model() -> None:
    shape = get_session().get_service_model("sagemaker").shape_for("TrainingSpecification")
    validate_parameters(TRAINING, shape)


@pytest.mark.parametrize(
    "valid",
    [
        use(),
        use(rate="0.5", kind="oak", comment="any text", free="-7"),
        use({"train": ChannelUse(content_type="text/csv"), "extra": ChannelUse(input_mode="Pipe", content_type="x/y")}),
    ],
)
def test_a_job_within_the_ranges_is_valid(valid: Use) -> None:
    assert FOREST.violations(valid) == []


@pytest.mark.parametrize(
    ("broken", "entry", "reason"),
    [
        (use(depth="9"), "depth", "out of range"),
        (use(rate="2"), "rate", "out of range"),
        (use(kind="elm"), "kind", "not a valid value"),
        (use(free="1.5"), "free", "must be a whole number"),
        (use(size="1"), "size", "no hyperparameter of this name"),
        (use({}), "", "requires the channel train"),
        (use({"train": ChannelUse(content_type="text/libsvm")}), "train", "another content_type"),
        (use({"train": ChannelUse(input_mode="Pipe")}), "train", "does not support the input mode Pipe"),
        (use(hosts=2), "", "one instance only"),
    ],
)
def test_a_job_outside_of_the_ranges_is_refused(broken: Use, entry: str, reason: str) -> None:
    (violation,) = FOREST.violations(broken)
    assert violation.entry == entry
    assert reason in violation.reason
    assert violation.next_step


def test_a_required_hyperparameter_must_be_set_despite_its_default() -> None:
    (violation,) = FOREST.violations(
        Use(hyperparameters={}, channels={"train": ChannelUse()}, instance_type="ml.m5.xlarge")
    )
    assert (violation.entry, violation.next_step) == (
        "depth",
        "Set depth to a whole number of at least 1 and at most 8.",
    )


def test_an_algorithm_without_hyperparameters_accepts_none() -> None:
    reply: dict[str, Any] = {key: value for key, value in TRAINING.items() if key != "SupportedHyperParameters"}
    bare = described({"AlgorithmName": "bare", "TrainingSpecification": reply})
    (violation,) = bare.violations(use())
    assert violation.entry == "depth"
