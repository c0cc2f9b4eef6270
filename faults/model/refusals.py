"""Errors as botocore raises them."""

from botocore.exceptions import ClientError


def refusal(code: str, message: str, status: int = 400) -> ClientError:
    """Return the error of a call that a service has answered with one."""
    answer = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "Call")  # type: ignore[arg-type]
