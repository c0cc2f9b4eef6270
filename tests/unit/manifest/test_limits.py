"""Manifest limits: they are read from SageMaker's service model."""

import json
import sys
import unicodedata
from copy import deepcopy
from typing import Any

import pytest

from tests.support.sample_deployment import sample_deployment
from traingrid.job.accelerators import accelerators
from traingrid.job.ownership import tags_of
from traingrid.manifest import limits as manifest_limits
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.limits import choices, limit_problem, most
from traingrid.manifest.parse import parse

NAMES = {
    "AlgorithmImage": 255,
    "HyperParameterKey": 256,
    "HyperParameterValue": 2_500,
    "HyperParameters": 100,
    "InputDataConfig": 20,
    "MetricDefinitionList": 40,
    "MetricRegex": 500,
    "S3Uri": 1_024,
    "TagList": 50,
    "TagValue": 256,
    "TrainingEnvironmentMap": 100,
    "TrainingEnvironmentValue": 512,
}


@pytest.mark.parametrize(("shape", "greatest"), NAMES.items())
def test_limits_are_those_of_the_service_model(shape: str, greatest: int) -> None:
    assert most(shape) == greatest


@pytest.mark.parametrize("shape", ["HyperParameterValue", "TrainingEnvironmentValue", "TagValue", "ChannelName"])
def test_a_text_of_maximum_length_passes_and_a_longer_one_does_not(shape: str) -> None:
    assert limit_problem(shape, "x" * most(shape)) is None
    assert "at most" in (limit_problem(shape, "x" * (most(shape) + 1)) or "")


def forget() -> None:
    for remembered in (manifest_limits.most, manifest_limits._limit):
        remembered.cache_clear()


def test_a_changed_limit_in_the_model_applies(monkeypatch: pytest.MonkeyPatch) -> None:
    line = b'{"region": "us-east-1", "s3_uri": "s3://ragab-ml/x", "hyperparameters": {"a": "12345"}}'
    assert len(parse(line, sample_deployment())) == 1
    shapes: dict[str, Any] = deepcopy(manifest_limits._shapes())
    shapes["HyperParameterValue"]["max"] = 4
    forget()
    monkeypatch.setattr(manifest_limits, "_shapes", lambda: shapes)
    try:
        with pytest.raises(ManifestError, match="must have at most 4 characters, SageMaker's limit; got 5"):
            parse(line, sample_deployment())
    finally:
        forget()


def test_a_line_has_room_for_the_tags_of_the_grid() -> None:
    def manifest(tags: int) -> bytes:
        named = {f"tag{number}": "x" for number in range(tags)}
        return json.dumps({"region": "us-east-1", "s3_uri": "s3://ragab-ml/x", "tags": named}).encode()

    ours = len(tags_of("traingrid", "0123abcd", 0, "fingerprint"))
    assert len(parse(manifest(most("TagList") - ours), sample_deployment())) == 1
    with pytest.raises(
        ManifestError, match="with those of the grid, there are 51 entries, and SageMaker allows at most 50"
    ):
        parse(manifest(most("TagList") - ours + 1), sample_deployment())


def test_the_tag_pattern_has_its_java_meaning() -> None:
    for code in range(32, sys.maxunicode + 1):
        sign = chr(code)
        meant = unicodedata.category(sign)[0] in "LNZ" or sign in "_.:/=+-@"
        assert (limit_problem("TagValue", sign) is None) == meant, hex(code)


@pytest.mark.parametrize("sign", ["\x00", "\x1b", "\x7f", "\x85", "\x9b", "\ud800"])
def test_control_characters_are_refused_everywhere(sign: str) -> None:
    for shape in ("HyperParameterValue", "TrainingEnvironmentValue", "TagValue", "S3Uri"):
        assert limit_problem(shape, f"s3://b/{sign}x")


def test_only_variables_may_have_several_lines() -> None:
    assert limit_problem("TrainingEnvironmentValue", "one\ntwo\tthree") is None
    assert limit_problem("HyperParameterValue", "one\ttwo") is None
    assert limit_problem("HyperParameterValue", "one\ntwo") == "must be a single line"


def test_every_type_with_accelerators_is_counted() -> None:
    known = {name: accelerators(name, -1) for name in choices("TrainingInstanceType")}
    assert known["ml.p4d.24xlarge"] == known["ml.g5.48xlarge"] == 8
    assert known["ml.g5.xlarge"] == 1
    assert known["ml.m5.large"] == known["ml.c7i-flex.xlarge"] == known["ml.r8i.96xlarge"] == 0
