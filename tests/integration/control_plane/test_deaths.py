"""Deaths: a pass or cancel may be killed before or after any call, and a repetition completes it."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import botocore.client
import pytest

from tests.integration.control_plane.account import HOME, OTHER, Account
from tests.integration.localcloud.compute import wait_until
from traingrid.audit.audit import audit
from traingrid.submission.cancel import Canceller, CancelTarget

DIES = "raise SystemExit('no')"


class KilledError(BaseException):
    """Simulates SIGKILL: no code may catch it, and only `finally` blocks run after it."""


@contextmanager
def dying(at: int, *, after: bool) -> Iterator[None]:
    """Raise KilledError at one call to AWS, counted from 1: before it is sent or after it is answered."""
    client: Any = botocore.client.BaseClient
    original, numbers = client._make_api_call, itertools.count(1)

    def call(self: Any, operation: str, arguments: Any) -> Any:
        number = next(numbers)  # atomic, because Regions are called in threads
        if number == at and not after:
            raise KilledError
        answer = original(self, operation, arguments)
        if number == at:
            raise KilledError
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "_make_api_call", call)
        yield


def killed_everywhere(work: Callable[[], object]) -> int:
    """Run `work` twice for each of its calls, killed before and after the call, and finally to its end."""
    at = 0
    while True:
        at += 1
        for after in (False, True):
            try:
                with dying(at, after=after):
                    work()
            except KilledError:
                continue
            return at


def test_a_pass_killed_at_every_call_converges_without_stopping_running_jobs(account: Account) -> None:
    left = account.submit((HOME, OTHER), DIES, opened=False)
    living = account.submit((HOME,))
    ended, running = account.submit((HOME,), DIES), account.train(living, 0)
    account.ended(account.train(ended, 0, seconds=0))
    orphan = account.train("eeeeeeee", 0)
    children = ((left, 0), (left, 1), (ended, 0))
    wait_until(lambda: {account.child(submission, index) for submission, index in children} == {"FAILED"})
    assert killed_everywhere(lambda: account.reconciler().run_pass()) > 10
    assert account.ended(orphan) == "Stopped"
    assert account.described(running)["TrainingJobStatus"] == "InProgress"
    assert account.line(ended, 0).state == "Completed"
    for submission in (left, ended):
        assert audit(account.world(submission, at_rest=True)) == []
    assert audit(account.world(living)) == []


def test_a_cancel_killed_at_every_call_stops_all_jobs_once_it_is_recorded(account: Account) -> None:
    submission = account.submit((HOME, OTHER))
    names = account.train(submission, 0), account.train(submission, 1, region=OTHER)
    canceller = Canceller(
        deployment=account.deployment, ledger=account.ledger, children=account.children, storage=account.storage
    )
    assert killed_everywhere(lambda: canceller.cancel(CancelTarget(submission=submission, by="Ada"))) > 3
    assert (account.ended(names[0]), account.ended(names[1], OTHER)) == ("Stopped", "Stopped")
    wait_until(lambda: {account.child(submission, index) for index in (0, 1)} == {"FAILED"})
    account.reconciler().run_pass()
    assert audit(account.world(submission, at_rest=True)) == []
