"""Errors of EKS, with the texts of recorded refusals where one is public."""

from collections.abc import Callable
from http import HTTPStatus


class RefusedError(Exception):
    """The service refuses a request.

    Args:
        code: The error's code, as in the service model.
        status: The HTTP status, as in the service model.
    """

    def __init__(self, code: str, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.code, self.status = code, status


def _error(code: str, status: HTTPStatus) -> Callable[[str], RefusedError]:
    return lambda message: RefusedError(code, status, message)


invalid_parameter = _error("InvalidParameterException", HTTPStatus.BAD_REQUEST)
invalid_request = _error("InvalidRequestException", HTTPStatus.BAD_REQUEST)
in_use = _error("ResourceInUseException", HTTPStatus.CONFLICT)
not_found = _error("ResourceNotFoundException", HTTPStatus.NOT_FOUND)
