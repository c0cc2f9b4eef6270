"""Service errors as botocore raises them."""

from botocore.exceptions import ClientError


def refusal(code: str, message: str, status: int = 400) -> ClientError:
    """Return the exception for a service's error response."""
    answer = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "Call")  # type: ignore[arg-type]  # a reply in the stubs has all fields
