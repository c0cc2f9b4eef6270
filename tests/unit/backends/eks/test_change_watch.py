"""Change watch: how soon the API server is asked again after an error."""

import threading
import time
from collections import Counter
from typing import Any

import pytest
from botocore.exceptions import ClientError, NoCredentialsError

from tests.integration.localcloud.compute import wait_until
from traingrid.backends.eks import watch
from traingrid.backends.eks.watch import ChangeWatch
from traingrid.kubernetes.client import JOB
from traingrid.kubernetes.errors import error_of


class RefusingClient:
    """A client whose requests all fail with one error."""

    def __init__(self, error: Exception) -> None:
        self.error, self.asked = error, Counter[str]()

    def pages(self, kind: Any, *_: str) -> Any:
        self.asked[kind.plural] += 1
        raise self.error


def watched(error: Exception) -> tuple[ChangeWatch, RefusingClient]:
    client: Any = RefusingClient(error)
    return ChangeWatch(client, JOB, {"metadata": {"name": "x", "uid": "uid-1"}}), client


@pytest.mark.parametrize(
    "error",
    [
        error_of(401, {"reason": "Why", "message": "no"}),
        error_of(403, {"reason": "Why", "message": "no"}),
        NoCredentialsError(),
        ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "AssumeRole"),
    ],
)
def test_a_refused_watch_begins_again_after_a_minute(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(watch, "_AGAIN_SECONDS", 0.01)
    begun, client = watched(error)
    wait_until(lambda: len(client.asked) == 2)
    time.sleep(0.2)
    begun.close()
    assert client.asked == {"jobs": 1, "pods": 1}


def test_an_interrupted_watch_begins_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_AGAIN_SECONDS", 0.01)
    begun, client = watched(error_of(503, {}))
    wait_until(lambda: min(client.asked.values(), default=0) > 2)
    begun.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_of_the_program_ends_a_watch_with_its_traceback() -> None:
    before = {*threading.enumerate()}
    _, client = watched(LookupError("a defect"))
    wait_until(lambda: len(client.asked) == 2 and before.issuperset(threading.enumerate()))
