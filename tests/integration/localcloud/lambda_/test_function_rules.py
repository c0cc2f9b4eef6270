"""Configurations of functions that Lambda refuses, and the nearest that it accepts."""

from typing import Any

import pytest
from moto.awslambda.exceptions import LambdaClientError

from localcloud.lambda_ import function_rules

ROLE = "arn:aws:iam::123456789012:role/function"
ARN = "arn:aws:lambda:us-east-1:123456789012:function:f"


def trust(service: str, **condition: Any) -> dict[str, Any]:
    allowed = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    return {"Statement": [{**allowed, "Condition": condition}]}


def check(monkeypatch: pytest.MonkeyPatch, document: dict[str, Any], **request: Any) -> None:
    monkeypatch.setattr(function_rules, "trust_of", lambda _role, _account: document)
    function_rules.check_function("UpdateFunctionConfiguration", {"FunctionName": "f", **request}, ROLE, ARN)


def variables(**values: str) -> dict[str, Any]:
    return {"Variables": values}


@pytest.mark.parametrize(
    ("request_", "refusal"),
    [
        ({"Timeout": 901}, "Value '901' at 'timeout' failed .* less than or equal to 900"),
        ({"MemorySize": 10_241}, "at 'memorySize' failed .* less than or equal to 10240"),
        ({"MemorySize": 64}, "at 'memorySize' failed .* greater than or equal to 128"),
        ({"Environment": variables(**{"1A": "x"})}, "failed to satisfy constraint"),
        ({"Environment": variables(AWS_REGION="x", BB="y")}, "Reserved keys used in this request: AWS_REGION"),
        ({"Environment": variables(AA="x" * 4088)}, "exceeded the 4KB limit"),
    ],
)
def test_a_configuration_beyond_lambdas_limits_is_refused(
    monkeypatch: pytest.MonkeyPatch, request_: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(LambdaClientError, match=refusal):
        check(monkeypatch, trust("lambda.amazonaws.com"), **request_)


def test_a_configuration_at_lambdas_limits_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    at_the_limit = {"Timeout": 900, "MemorySize": 10_240, "Environment": variables(AA="x" * 4087)}
    check(monkeypatch, trust("lambda.amazonaws.com"), **at_the_limit)
    check(monkeypatch, trust("lambda.amazonaws.com", StringEquals={"aws:SourceAccount": "123456789012"}))


@pytest.mark.parametrize(
    "document",
    [
        {},
        trust("batch.amazonaws.com"),
        trust("lambda.amazonaws.com", StringEquals={"aws:SourceAccount": "210987654321"}),
    ],
)
def test_a_role_that_lambda_may_not_assume_is_refused(
    monkeypatch: pytest.MonkeyPatch, document: dict[str, Any]
) -> None:
    with pytest.raises(LambdaClientError, match="cannot be assumed by Lambda"):
        check(monkeypatch, document)
