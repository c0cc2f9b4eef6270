"""Errors: replies of an API server are errors with code, reason and message, and those that pass are marked."""

import pytest

from traingrid.aws.outage import is_outage
from traingrid.kubernetes.errors import UnavailableError, error_of


@pytest.mark.parametrize("code", [401, 429, 500, 502, 503, 504])
def test_overload_and_errors_of_the_server_pass(code: int) -> None:
    error = error_of(code, b'{"reason": "x", "message": "y"}', "7")
    assert isinstance(error, UnavailableError)
    assert (error.retry_after, is_outage(error)) == (7.0, True)


@pytest.mark.parametrize("code", [400, 403, 404, 409, 410, 422])
def test_refusals_do_not_pass(code: int) -> None:
    error = error_of(code, b'{"reason": "Why", "message": "because.", "details": {"kind": "jobs"}}')
    assert str(error) == f"The API server of the cluster replied {code} Why: because."
    assert (error.kind, is_outage(error)) == ("jobs", False)


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({"reason": "Unauthorized"}, "401 Unauthorized"),
        ({"message": "no reason."}, "401: no reason"),
        ({}, "401"),
    ],
)
def test_parts_that_a_reply_does_not_have_are_left_out(status: dict[str, str], text: str) -> None:
    assert str(error_of(401, status)) == f"The API server of the cluster replied {text}."


def test_a_reply_that_is_no_status_is_shown() -> None:
    assert "bad gateway" in str(error_of(502, b"<html>bad gateway</html>"))
