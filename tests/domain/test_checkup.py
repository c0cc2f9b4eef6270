"""What nobody may look at is neither good nor wrong, and the permission that it takes is named."""

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from traingrid.checkup.finding import Finding, Verdict, looked


def fails_with(error: Exception) -> Finding:
    def look() -> Finding:
        raise error

    return looked("us-west-2", "bucket x", look, "s3:ListBucket")


@pytest.mark.parametrize("code", ["AccessDenied", "AccessDeniedException", "UnauthorizedOperation"])
def test_a_look_that_is_not_allowed_names_what_would_allow_it(code: str) -> None:
    found = fails_with(ClientError({"Error": {"Code": code, "Message": "no"}}, "HeadBucket"))
    assert (found.verdict, found.mend) == (Verdict.UNKNOWN, "let the caller do s3:ListBucket")
    assert found.why == f"AWS answers {code}: no"


@pytest.mark.parametrize(
    "error",
    [
        ClientError({"Error": {"Code": "InternalError", "Message": "oh"}}, "HeadBucket"),
        EndpointConnectionError(endpoint_url="https://s3"),
    ],
)
def test_a_look_that_is_not_answered_says_so(error: Exception) -> None:
    found = fails_with(error)
    assert (found.verdict, found.mend) == (Verdict.UNKNOWN, "")
    assert found.why
