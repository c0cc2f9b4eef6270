"""Outage: temporary errors are retried, and permanent errors are raised."""

from typing import Any

import boto3
import pytest
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
)

from tests.support.recorded_log import Log
from tests.support.training_jobs import FakeTime
from traingrid.aws.outage import patient

URL = "https://dynamodb.us-east-1.amazonaws.com"


def answer(code: str, status: int = 400) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "GetItem")  # type: ignore[typeddict-item]


class Service:
    """A service that fails with the given errors, one after the other, before it answers."""

    def __init__(self, errors: list[Exception]) -> None:
        self.errors = errors

    def ask(self, question: str) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return f"answer to {question}"


@pytest.mark.parametrize(
    "error",
    [
        answer("ThrottlingException"),
        answer("ProvisionedThroughputExceededException"),
        answer("InternalServerError", 500),
        answer("503", 503),
        EndpointConnectionError(endpoint_url=URL),
        ConnectTimeoutError(endpoint_url=URL),
        ReadTimeoutError(endpoint_url=URL),
        CredentialRetrievalError(provider="container-role", error_msg="timed out"),
    ],
)
def test_an_outage_is_waited_out_without_a_limit(error: Exception) -> None:
    time, log = FakeTime(), Log()
    service = patient(lambda: Service([]), log, time.sleep)
    assert service.ask("x") == "answer to x"
    assert time.naps == []
    broken = Service([error] * 500)
    service = patient(lambda: broken, log, time.sleep)
    assert service.ask("x") == "answer to x"
    assert time.seconds > 4 * 3600
    assert max(time.naps) <= 60
    called = error.response["Error"]["Code"] if isinstance(error, ClientError) else type(error).__name__
    assert "Retrying in" in log.records[0]["message"]
    assert {(record["event"], record["failure"]) for record in log.records} == {("outage", called)}


@pytest.mark.parametrize(
    "error", [answer("AccessDeniedException"), answer("ValidationException"), NoCredentialsError()]
)
def test_permanent_errors_are_raised(error: Exception) -> None:
    with pytest.raises(type(error)):
        patient(lambda: Service([error]), Log(), FakeTime().sleep).ask("x")


@pytest.mark.parametrize("code", ["ExpiredToken", "ExpiredTokenException", "RequestExpired"])
def test_expired_credentials_are_renewed_at_once(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """New clients are created, from a session without the old credentials."""
    time, sessions = FakeTime(), []
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)

    def make() -> Any:
        sessions.append(boto3.DEFAULT_SESSION)
        return Service([answer(code)] if len(sessions) == 1 else [])

    assert patient(make, Log(), time.sleep).ask("x") == "answer to x"
    assert len(sessions) == 2
    assert sessions[1] is not None
    assert time.seconds == 0
