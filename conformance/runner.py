"""Runner: checks claims concurrently, and deletes the resources that they have created."""

from __future__ import annotations

import signal
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from conformance.aws import Aws
from conformance.claim import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from conformance.aws import Place
    from conformance.claim import Claim


@dataclass(frozen=True, kw_only=True)
class Run:
    """Results of a run, and resources that it could not delete.

    Attributes:
        identifier: The run's id, with which its resources are tagged.
        results: Results in the order of the claims; only the finished ones if the run was interrupted.
        left: Resources that could not be deleted, each with the reason.
        interrupted: True if the user interrupted the run.
    """

    identifier: str
    results: list[Result]
    left: list[str]
    interrupted: bool = False


@dataclass(frozen=True, kw_only=True)
class Result:
    """Result of one claim in one place.

    Attributes:
        detail: Why it is not met; empty otherwise.
        seconds: Duration of the check.
    """

    claim: Claim
    outcome: Outcome
    detail: str = ""
    seconds: float = 0.0


class Instances:
    """Limits the number of concurrent training instances; claims wait until enough are free."""

    def __init__(self, most: int) -> None:
        self._free = threading.Semaphore(most)
        self._taking = threading.Lock()
        self._most = most

    @contextmanager
    def taken(self, count: int) -> Iterator[None]:
        """Hold `count` instances during the block; a claim that needs more than exist holds all of them."""
        count = min(count, self._most)
        with self._taking:  # one claim at a time, or two claims could each wait for the instances of the other
            for _ in range(count):
                self._free.acquire()
        try:
            yield
        finally:
            for _ in range(count):
                self._free.release()


def run(
    place: Place,
    claims: Sequence[Claim],
    *,
    workers: int,
    instances: int,
    on_result: Callable[[Result], None] = lambda _: None,
) -> Run:
    """Check claims, and delete all resources created for them, even if the run is interrupted.

    Args:
        workers: Number of concurrent checks.
        instances: Number of concurrent training instances.
        on_result: Called with each result as soon as it is known.

    """
    aws, free, found = Aws(place), Instances(instances), dict[str, Result]()

    def check(claim: Claim) -> Result:
        with free.taken(claim.trainings):
            result = checked(aws, claim)
        found[claim.name] = result
        on_result(result)
        return result

    pool = ThreadPoolExecutor(workers)
    try:
        waiting = {pool.submit(check, claim) for claim in claims}
        while waiting:
            # A wait without a timeout would not notice Ctrl-C if another thread received the signal.
            done, waiting = wait(waiting, timeout=1.0)
            for ended in done:
                ended.result()
    except KeyboardInterrupt:
        aws.interrupted.set()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        with _no_second_ctrl_c():
            left = aws.undo.everything()
    results = [found[claim.name] for claim in claims if claim.name in found]
    return Run(identifier=aws.run, results=results, left=left, interrupted=aws.interrupted.is_set())


@contextmanager
def _no_second_ctrl_c() -> Iterator[None]:
    """Ignore SIGINT and SIGTERM during the deletion."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: signal.signal(number, lambda *_: print("Deleting resources; please wait.", flush=True))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def checked(aws: Aws, claim: Claim) -> Result:
    """Check one claim; any exception means that the claim is not met."""
    is_local = aws.place.endpoint is not None
    if claim.why_documented and not (claim.checked_locally and is_local):
        return Result(claim=claim, outcome=Outcome.DOCUMENTED)
    begun = time.monotonic()
    try:
        claim.check(aws)
    except Exception as error:  # noqa: BLE001 - any error of AWS is a result
        outcome, detail = Outcome.NOT_MET, _detail(error)
    else:
        outcome, detail = Outcome.MET, ""
    return Result(claim=claim, outcome=outcome, detail=detail, seconds=time.monotonic() - begun)


def _detail(error: Exception) -> str:
    """Return why a claim is not met: the assertion's message or source line, or the unexpected exception."""
    if not isinstance(error, AssertionError):
        return f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    return str(error) or str(frames[-1].line)
