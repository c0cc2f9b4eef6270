"""Late requests: a process that was frozen does not send a request that it decided long ago.

A process may stop at any instruction and continue much later: its host is overloaded, its virtual machine is paused, or
it received SIGSTOP. A check before a request does not help if the process stops between the two. The order here does:

1. The caller states with `refusing` until when the request may be sent.
2. The client signs the request, and only then calls `raise_if_late`.

A request that passes carries a signature from before that check, and AWS refuses it some minutes after the signature,
by AWS's own clock. So a creation is never accepted long after its claim, wherever the process or the network held it.
The write with which a retry reopens a line follows the same order, after the mark that keeps its submission open.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from traingrid.errors import TraingridError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SEND_WITHIN_SECONDS = 300.0
"""The time after a claim within which its request is sent; later it must be claimed again. It must suffice for
DescribeTrainingJob on a slow network."""
SIGNATURE_SECONDS = 900.0
"""The time after its signature for which AWS may accept a request.

The IAM user guide has five minutes "in most cases"
(https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_aws-signing.html); services have refused with "15 min", too
(https://github.com/aws/aws-sdk-js/issues/254). A cluster of Amazon EKS accepts a token for 15 minutes after its
signature (presignedURLExpiration in pkg/token/token.go of https://github.com/kubernetes-sigs/aws-iam-authenticator).
"""
_CLOCKS_SECONDS = 600.0
"""The difference of two clocks, each at most five minutes from AWS's, which refuses the requests of others. It also
covers the minutes for which an API server remembers a token."""
CREATES_END_SECONDS = SEND_WITHIN_SECONDS + SIGNATURE_SECONDS + _CLOCKS_SECONDS
"""The time after a claim from which on its request is not accepted: 30 minutes."""

_is_late: ContextVar[Callable[[], bool]] = ContextVar("is_late", default=lambda: False)


class LateRequestError(TraingridError):
    """A request was not sent, because it was decided too long ago."""


def late_after_minutes(
    now: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
) -> Callable[[], bool]:
    """Return a function that returns True once `SEND_WITHIN_SECONDS` have passed since this call.

    A suspended machine stops the monotonic clock, and the wall clock may be set back; so the faster one counts.
    """
    started, started_wall = now(), wall()
    return lambda: max(now() - started, wall() - started_wall) > SEND_WITHIN_SECONDS


@contextmanager
def refusing(is_late: Callable[[], bool]) -> Iterator[None]:
    """Let `raise_if_late` raise during the block.

    Args:
        is_late: Returns True once a request must not be sent any more.
    """
    before = _is_late.set(is_late)
    try:
        yield
    finally:
        _is_late.reset(before)


def raise_if_late() -> None:
    """Raise if a request must not be sent any more. Clients call it after they have signed a request.

    The clients of `client_without_retries` and of DynamoDB do. A child may look for a training job at any time.

    Raises:
        LateRequestError: Too much time has passed; nothing was sent.
    """
    if _is_late.get()():
        raise LateRequestError(
            "The request was not sent, because this process did not run for minutes after its claim."
        )
