"""The AWS that claims are checked against: a real account or a localcloud, which claims cannot distinguish."""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.config import Config
from botocore.exceptions import ClientError

from conformance.undo import Undo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    import boto3

TAG = "traingrid:conformance"
"""Key of the tag on every resource of a run; its value is the run's id."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Place:
    """The place of a run.

    Attributes:
        regions: The home Region and a second Region.
        session: Creates clients with the user's credentials.
        endpoint: Endpoint URL of a localcloud; None for AWS's own endpoints.
        copy_image: Copies an image with Python into a repository: ECR client, repository, tag.
        pace: Factor for AWS's waiting times; a localcloud shortens them to keep CI fast.
        poll_seconds: Interval between two polls.
        patience_seconds: Timeout of polling.
        settle_seconds: Time until a new role has propagated.
        without_spot_capacity: Takes the spot capacity of a Region away while a block runs; None in an account.
    """

    account: str
    regions: tuple[str, str]
    session: boto3.Session
    endpoint: str | None
    copy_image: Callable[[Any, str, str], None]
    pace: float = 1.0
    poll_seconds: float = 5.0
    patience_seconds: float = 1500.0
    settle_seconds: float = 15.0
    without_spot_capacity: Callable[[str], AbstractContextManager[None]] | None = None


class Aws:
    """Clients, names and shared resources of one run.

    Attributes:
        run: The run's id, which is part of every name.
        undo: Deletes the run's resources.
        interrupted: Set when the run is interrupted: checks then give up, and only the deletion still polls.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.run = uuid.uuid4().hex[:8]
        self.undo = Undo()
        self.interrupted = threading.Event()
        self._clients: dict[tuple[str, str], Any] = {}
        self._clients_lock = threading.Lock()
        self._shared: dict[str, _Shared] = {}

    @property
    def account(self) -> str:
        """The account id."""
        return self.place.account

    @property
    def home(self) -> str:
        """The home Region."""
        return self.place.regions[0]

    @property
    def away(self) -> str:
        """The second Region."""
        return self.place.regions[1]

    def client(self, service: str, region: str = "") -> Any:
        """Return the client of a service, by default in the home Region."""
        key = (service, region or self.home)
        with self._clients_lock:
            if key not in self._clients:
                self._clients[key] = self.client_with(self.place.session, *key)
            return self._clients[key]

    def client_with(self, session: boto3.Session, service: str, region: str) -> Any:
        """Return a client with the credentials of a session."""
        retries: Any = {"mode": "adaptive", "total_max_attempts": 10}
        config = Config(retries=retries, max_pool_connections=50)
        make: Any = session.client
        return make(service, region_name=region, endpoint_url=self.place.endpoint, config=config)

    def name(self, what: str) -> str:
        """Return a unique name of at most 55 lower-case letters, digits and hyphens."""
        return f"tgc-{self.run}-{what[:32]}-{uuid.uuid4().hex[:6]}"

    def tags(self, key: str = "Key", value: str = "Value") -> list[dict[str, str]]:
        """Return the run's tag as a list of pairs, the form that most services expect."""
        return [{key: TAG, value: self.run}]

    @property
    def tag_map(self) -> dict[str, str]:
        """The run's tag as a mapping, the form that the other services expect."""
        return {TAG: self.run}

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Return a shared resource; the first caller creates it, and other callers wait for it."""
        with self._clients_lock:
            shared = self._shared.setdefault(name, _Shared())
        value: T = shared.get(make)
        return value

    def seconds(self, of_aws: float) -> float:
        """Return the length of one of AWS's waiting times in this place."""
        return of_aws * self.place.pace

    def near(self, seconds: float, of_aws: float) -> bool:
        """Return whether a measured waiting time is about one of AWS's, in this place.

        A process that ends another may itself run late on a busy machine, hence the constant in the upper bound.
        """
        expected = self.seconds(of_aws)
        return 0.7 * expected <= seconds <= 1.5 * expected + 10

    def wait(self, question: Callable[[], T], what: str = "", *, seconds: float = 0.0) -> T:
        """Poll a condition until it is true, and return its value.

        Raises:
            TimeoutError: It was not true in time.
        """
        until = time.monotonic() + (seconds or self.place.patience_seconds)
        while not (answer := question()):
            given_up = self.interrupted.is_set() and threading.current_thread() is not threading.main_thread()
            if given_up or time.monotonic() > until:
                raise TimeoutError(f"timed out waiting for {what or 'a condition'}; its last value was {answer!r}")
            time.sleep(self.place.poll_seconds)
        return answer

    def stays_false(self, question: Callable[[], object], of_aws: float) -> None:
        """Assert that a condition stays false for some seconds of AWS's time."""
        until = time.monotonic() + max(self.seconds(of_aws), 1.0)
        while time.monotonic() < until:
            assert not (answer := question()), f"expected no value, got {answer!r}"
            time.sleep(self.place.poll_seconds)


@dataclass
class _Shared:
    """A value that is created once; if that fails, every user gets the same exception."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    made: bool = False
    value: Any = None
    error: Exception | None = None

    def get(self, make: Callable[[], Any]) -> Any:
        with self.lock:
            if not self.made:
                try:
                    self.value = make()
                except Exception as error:  # noqa: BLE001 - stored, and raised in every user of the value
                    self.error = error
                self.made = True
        if self.error:
            raise self.error
        return self.value


@contextmanager
def refused(*codes: str, text: str = "") -> Iterator[None]:
    """Assert that AWS refuses the call in the block with one of these error codes.

    Args:
        text: Expected part of the message.
    """
    try:
        yield
    except ClientError as error:
        answer: Mapping[str, Any] = error.response["Error"]
        assert answer["Code"] in codes, f"refused with {answer['Code']} ({answer['Message']}), not {' or '.join(codes)}"
        assert text in answer["Message"], f"the message is {answer['Message']!r}, without {text!r}"
        return
    raise AssertionError(f"accepted, not refused with {' or '.join(codes)}")
