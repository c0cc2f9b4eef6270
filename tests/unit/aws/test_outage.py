"""Outage: temporary errors are retried, and permanent errors are raised."""

from inspect import isfunction
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

from tests.support.recorded_log import RecordedLog
from tests.support.training_jobs import FakeTime
from traingrid.aws.outage import Patient, is_expired
from traingrid.aws.s3 import PatientStorage, Storage
from traingrid.aws.s3_copy import CopyStore, PatientCopyStore
from traingrid.backends.base import Backend
from traingrid.child.patient_backend import PatientBackend
from traingrid.job.observed import Describer
from traingrid.ledger.ledger import Ledger, PatientLedger
from traingrid.ledger.moves import Moves, PatientMoves
from traingrid.log import log_context

URL = "https://dynamodb.us-east-1.amazonaws.com"


def answer(code: str, status: int = 400) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "GetItem")  # type: ignore[typeddict-item]  # a reply in the stubs has all fields


class Service:
    """A service that fails with the given errors, one after the other, before it answers."""

    def __init__(self, errors: list[Exception]) -> None:
        self.errors = errors

    def ask(self, question: str) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return f"answer to {question}"


class PatientService(Patient[Service], Service):
    """A service whose calls wait out an outage."""


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
def test_an_outage_is_waited_out_without_a_limit(error: Exception, log: RecordedLog) -> None:
    time = FakeTime()
    service = PatientService(lambda: Service([]), "us-east-1", time.sleep)
    assert service.ask("x") == "answer to x"
    assert time.naps == []
    broken = Service([error] * 500)
    service = PatientService(lambda: broken, "us-east-1", time.sleep)
    assert service.ask("x") == "answer to x"
    assert time.seconds > 4 * 3600
    assert max(time.naps) <= 60
    called = error.response["Error"]["Code"] if isinstance(error, ClientError) else type(error).__name__
    assert "Retrying in" in log.messages[0]
    assert {(line["event"], line["failure"]) for line in log.lines} == {("outage", called)}


def test_an_outage_is_logged_with_its_region_and_not_that_of_the_attempt(log: RecordedLog) -> None:
    """A training Region is not the reason if the ledger, in the home Region, does not answer."""
    broken = Service([answer("ThrottlingException")] * 2)
    with log_context(region="eu-west-1", index=3):
        PatientService(lambda: broken, "us-east-1", FakeTime().sleep).ask("x")
    (line,) = log.of("outage")
    assert (line["region"], line["index"]) == ("us-east-1", 3)


@pytest.mark.parametrize(
    "error", [answer("AccessDeniedException"), answer("ValidationException"), NoCredentialsError()]
)
def test_permanent_errors_are_raised(error: Exception) -> None:
    with pytest.raises(type(error)):
        PatientService(lambda: Service([error]), "us-east-1", FakeTime().sleep).ask("x")


@pytest.mark.parametrize("code", ["ExpiredToken", "ExpiredTokenException", "RequestExpired"])
def test_expired_credentials_are_renewed_at_once(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """New clients are created, from a session without the old credentials."""
    time, sessions = FakeTime(), []
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)

    def make() -> Any:
        sessions.append(boto3.DEFAULT_SESSION)
        return Service([answer(code)] if len(sessions) == 1 else [])

    assert PatientService(make, "us-east-1", time.sleep).ask("x") == "answer to x"
    assert len(sessions) == 2
    assert sessions[1] is not None
    assert time.seconds == 0


def test_all_calls_use_the_same_client_until_its_credentials_expire() -> None:
    made: list[Service] = []

    def make() -> Service:
        made.append(Service([] if made else [answer("ThrottlingException")]))
        return made[-1]

    service = PatientService(make, "us-east-1", FakeTime().sleep)
    assert [service.ask("x"), service.ask("y")] == ["answer to x", "answer to y"]
    assert len(made) == 1


@pytest.mark.parametrize(
    ("code", "message", "expired"),
    [
        ("InvalidSignatureException", "Signature expired: 20261120T101500Z is now earlier than 20261120T102000Z", True),
        ("SignatureDoesNotMatch", "Signature expired: 20151221T200419Z is now earlier than 20151221T201450Z", True),
        ("RequestTimeTooSkewed", "The difference between the request time and the current time is too large.", True),
        ("InvalidSignatureException", "The request signature we calculated does not match.", False),
    ],
)
def test_a_request_of_a_frozen_process_is_signed_again(code: str, message: str, *, expired: bool) -> None:
    error = ClientError({"Error": {"Code": code, "Message": message}}, "CreateTrainingJob")
    assert is_expired(error) is expired


def test_a_patient_object_has_every_method_of_its_class() -> None:
    """A method without patience would end a child, or have no object to call."""
    backend = {name for base in (Backend, Describer) for name in vars(base) if not name.startswith("_")}
    assert backend <= vars(PatientBackend).keys()
    for patient, base in {
        PatientLedger: Ledger,
        PatientMoves: Moves,
        PatientStorage: Storage,
        PatientCopyStore: CopyStore,
    }.items():
        methods = {name for name, method in vars(base).items() if isfunction(method) and not name.startswith("_")}
        assert methods, base
        assert methods <= vars(patient).keys()
