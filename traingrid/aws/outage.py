"""Outages: retries calls while AWS throttles, does not answer or cannot be reached, or credentials have expired.

A job does not cause these errors, and Batch makes at most ten attempts per child. So a child waits out an outage in its
own process, with no limit other than Batch's timeout of the child.
"""

from __future__ import annotations

import logging
import time
from functools import wraps
from inspect import isfunction
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from botocore.exceptions import BotoCoreError, ClientError, CredentialRetrievalError, HTTPClientError
from botocore.exceptions import ConnectionError as NoConnectionError

from traingrid.aws.clients import renew
from traingrid.aws.error_codes import EXPIRED_CODES, KNOWN_CODES, THROTTLED_CODES
from traingrid.backoff import OUTAGE_CAP, backoff_seconds
from traingrid.errors import OutageError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping

logger = logging.getLogger(__name__)
T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")
# The texts of a signature that was too old on its arrival, for example of a process that was frozen after it had signed
# (https://github.com/boto/botocore/issues/149).
_SIGNATURE, _TOO_OLD = {"InvalidSignatureException", "SignatureDoesNotMatch"}, "Signature expired"


def is_expired(error: Exception) -> bool:
    """Return True if a call failed only because the credentials, or its signature, have expired."""
    if not isinstance(error, ClientError):
        return False
    code = error.response["Error"]["Code"]
    text = error.response["Error"].get("Message", "")
    return code in EXPIRED_CODES or (code in _SIGNATURE and text.startswith(_TOO_OLD))


def is_outage(error: Exception) -> bool:
    """Return True if the same call may succeed later without intervention."""
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        code = error.response["Error"]["Code"]
        is_error_of_service = status >= 500 and code not in KNOWN_CODES  # a known code has another reason
        return is_expired(error) or code in THROTTLED_CODES or is_error_of_service
    # A connection that failed, closed or timed out, or credentials that the container's endpoint did not return.
    return isinstance(error, NoConnectionError | HTTPClientError | CredentialRetrievalError | OutageError)


class Patient(Generic[T]):
    """The methods of a class, called again with a backoff during an outage of AWS.

    `class PatientLedger(Patient[Ledger], Ledger)` is a ledger with the methods of `Ledger`. Each call is one of an
    object that `make` returns. It may be made twice, so all methods must be conditional or idempotent.

    Args:
        make: Makes the object with its own clients; called again when the credentials have expired.
        region: The Region of the clients, for the log.
        sleep: Waits for a number of seconds.
        optional: The methods that raise the error of an outage, because their caller continues without them.
    """

    def __init__(
        self,
        make: Callable[[], T],
        region: str,
        sleep: Callable[[float], None] = time.sleep,
        optional: Container[str] = (),
    ) -> None:
        self._make, self._of_region, self._sleep, self._optional = make, region, sleep, optional
        self._client: T | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for base in cls.__mro__[1:]:
            for name, method in vars(base).items():
                if isfunction(method) and not name.startswith("_"):
                    setattr(cls, name, called_again(method))

    def _call(self, name: str, arguments: Iterable[Any], options: Mapping[str, Any]) -> Any:
        tries = 0
        while True:
            try:
                self._client = self._client or self._make()
                return getattr(self._client, name)(*arguments, **options)
            except (BotoCoreError, ClientError, OutageError) as error:
                if not is_outage(error) or (name in self._optional and not is_expired(error)):
                    raise
                tries += 1
                self._wait(error, tries)

    def _wait(self, error: Exception, tries: int) -> None:
        seconds = backoff_seconds(tries, OUTAGE_CAP)
        if is_expired(error):
            renew()
            self._client = None
            seconds = 0.0 if tries == 1 else seconds
        if tries > 1:  # a single failure may happen every hour, when credentials expire
            fields = {"event": "outage", "failure": code_of(error), "seconds": seconds, "region": self._of_region}
            text = str(error).removesuffix(".")
            logger.info("AWS is not available: %s. Retrying in %.0f s.", text, seconds, extra=fields)
        self._sleep(seconds)


def called_again(method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Return the method of a `Patient` that calls a method of its object."""

    @wraps(method)
    def call(self: Any, /, *arguments: P.args, **options: P.kwargs) -> R:
        result: R = self._call(method.__name__, arguments, options)
        return result

    return call


def code_of(error: Exception) -> str:
    """Return an error's code from AWS, or the exception's class name if AWS did not answer."""
    return str(error.response["Error"]["Code"]) if isinstance(error, ClientError) else type(error).__name__
