"""Outages: AWS throttles, does not answer, cannot be reached, or the credentials have run out.

None of that is the fault of a job, and Batch tries a child ten times at most. So a child waits such an outage out in
its own process, however long it takes; Batch's timeout of the child is the only bound.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from botocore.exceptions import BotoCoreError, ClientError, CredentialRetrievalError, HTTPClientError
from botocore.exceptions import ConnectionError as NoConnectionError

from traingrid.clients import renew
from traingrid.failures import SERVICE_ERROR, THROTTLED, of_refusal
from traingrid.waits import OUTAGE_CAP, backoff_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from traingrid.log_lines import Say

T = TypeVar("T")
# https://docs.aws.amazon.com/STS/latest/APIReference/CommonErrors.html, and the words of S3 and DynamoDB
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}


def is_expired(error: Exception) -> bool:
    """Return whether a call failed only because the credentials have run out."""
    return isinstance(error, ClientError) and error.response["Error"]["Code"] in _EXPIRED


def is_outage(error: Exception) -> bool:
    """Return whether the same call may succeed later without anybody doing anything."""
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        failure = of_refusal(error.response["Error"]["Code"])
        return is_expired(error) or failure is THROTTLED or (failure is SERVICE_ERROR and status >= 500)
    # No connection, one that was closed or too slow, and credentials that the container's endpoint did not hand out.
    return isinstance(error, NoConnectionError | HTTPClientError | CredentialRetrievalError)


class _Patient(Generic[T]):
    def __init__(self, make: Callable[[], T], say: Say, sleep: Callable[[float], None]) -> None:
        self._make, self._say, self._sleep = make, say, sleep
        self._made: T | None = None

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            return self._call(name, arguments, options)

        return call

    def _call(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        tries = 0
        while True:
            try:
                self._made = self._made or self._make()
                return getattr(self._made, name)(*arguments, **options)
            except (BotoCoreError, ClientError) as error:
                if not is_outage(error):
                    raise
                tries += 1
                self._wait(error, tries)

    def _wait(self, error: Exception, tries: int) -> None:
        seconds = backoff_seconds(tries, OUTAGE_CAP)
        if is_expired(error):
            renew()
            self._made = None
            seconds = 0.0 if tries == 1 else seconds
        if tries > 1:  # once may happen every hour
            said = f"AWS cannot be asked now: {error}. Asking again in {seconds:.0f} s."
            self._say(said, event="outage", failure=code_of(error), seconds=seconds)
        self._sleep(seconds)


def code_of(error: Exception) -> str:
    """Return what an error is called: AWS's code for it, or the library's where AWS said nothing."""
    return str(error.response["Error"]["Code"]) if isinstance(error, ClientError) else type(error).__name__


def patient(make: Callable[[], T], say: Say, sleep: Callable[[float], None] = time.sleep) -> T:
    """Return an object whose methods are called again, after a while, for as long as AWS cannot be asked.

    Args:
        make: Makes the object, with clients of its own; called again when the credentials have run out. Its methods may
            be called twice: what they do is conditional or idempotent, as everything is that a child does.
        say: Takes lines for the person who reads the log.
        sleep: Waits so many seconds.
    """
    return cast("T", _Patient(make, say, sleep))
