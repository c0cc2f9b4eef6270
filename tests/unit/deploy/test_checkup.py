"""Check-up: a check without permission is neither good nor wrong, and names the missing permission."""

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from traingrid.deploy.checkup.finding import Finding, Verdict, run_check


def fails_with(error: Exception) -> Finding:
    def look() -> Finding:
        raise error

    return run_check("us-west-2", "bucket x", look, "s3:ListBucket")


@pytest.mark.parametrize("code", ["AccessDenied", "AccessDeniedException", "UnauthorizedOperation"])
def test_a_denied_check_names_the_missing_permission(code: str) -> None:
    found = fails_with(ClientError({"Error": {"Code": code, "Message": "no"}}, "HeadBucket"))
    assert (found.verdict, found.fix) == (Verdict.UNKNOWN, "allow the caller s3:ListBucket")
    assert found.reason == f"AWS returned {code}: no"


@pytest.mark.parametrize(
    "error",
    [
        ClientError({"Error": {"Code": "InternalError", "Message": "oh"}}, "HeadBucket"),
        EndpointConnectionError(endpoint_url="https://s3"),
    ],
)
def test_a_check_without_an_answer_reports_that(error: Exception) -> None:
    found = fails_with(error)
    assert (found.verdict, found.fix) == (Verdict.UNKNOWN, "")
    assert found.reason
