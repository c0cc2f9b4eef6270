"""Faults of a running localcloud: draws and counts the faults of its plan."""

import json
import random
import threading
import time
from collections import Counter
from fnmatch import fnmatchcase
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from pydantic import BaseModel, ValidationError
from werkzeug.wrappers import Request, Response

from localcloud.faults.plan import BESIDES, CallFault, FaultPlan, Stub

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud


class CallPlace(NamedTuple):
    """The properties of a call that faults match: signing name, operation, Region, label of the calling process."""

    service: str
    action: str
    region: str
    caller: str


class Fate(BaseModel):
    """The fate of one event.

    Attributes:
        dropped: True if it is lost.
        copies: Number of arrivals.
        late: True if it arrives after `seconds`.
        overtaken: True if it arrives after the next event, or after `seconds`.
        seconds: A time up to the fault's maximum.
    """

    dropped: bool
    copies: int
    late: bool
    overtaken: bool
    seconds: float


class Faults:
    """Stores the current plan and the applied faults. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.set(FaultPlan())

    def set(self, plan: FaultPlan) -> None:
        """Replace the plan, and reset the counts."""
        with self._lock:
            self.plan, self._since = plan, time.monotonic()
            self._chances: dict[str, random.Random] = {}
            self._struck: Counter[str] = Counter()
            self._struck_calls: list[tuple[CallFault, CallPlace]] = []
            self._call_counts: Counter[tuple[int, str]] = Counter()
            # A sweep over all boundaries names a thousand callers one by one, and every request comes through here:
            # each caller's faults are selected only once.
            self._faults_by_caller: dict[str, list[tuple[int, CallFault]]] = {}

    def struck(self) -> dict[str, int]:
        """Return how often each part of the plan has been applied, by its place, for example "calls/0"."""
        with self._lock:
            return dict(self._struck)

    def struck_calls(self) -> list[tuple[CallFault, CallPlace]]:
        """Return every applied fault of calls and its call, in order."""
        with self._lock:
            return list(self._struck_calls)

    def of_call(self, call: CallPlace) -> list[CallFault]:
        """Return the faults to apply to a call: any delays, then at most one other fault."""
        with self._lock:
            faults: list[CallFault] = []
            for number, fault in self._faults_of_caller(call.caller):
                if self._strikes(number, fault, call):
                    faults.append(fault)
                    self._struck_calls.append((fault, call))
                    if fault.effect not in BESIDES:
                        break
            return faults

    def _faults_of_caller(self, caller: str) -> list[tuple[int, CallFault]]:
        """Return the faults of a caller's calls with their numbers in the plan."""
        if caller not in self._faults_by_caller:
            numbered_faults = enumerate(self.plan.calls)
            self._faults_by_caller[caller] = [
                (number, fault) for number, fault in numbered_faults if fnmatchcase(caller, fault.caller)
            ]
        return self._faults_by_caller[caller]

    def _strikes(self, number: int, fault: CallFault, call: CallPlace) -> bool:
        if not all(map(fnmatchcase, call[:3], (fault.service, fault.action, fault.region))):
            return False
        self._call_counts[number, call.caller] += 1
        if fault.nth and self._call_counts[number, call.caller] != fault.nth:
            return False
        return self._draw(f"calls/{number}", fault.share, fault.times)

    def event(self, source: str) -> Fate | None:
        """Return the fate of an event of a source; None if no part of the plan matches."""
        with self._lock:
            for number, fault in enumerate(self.plan.events):
                if fnmatchcase(source, fault.source):
                    place = f"events/{number}"
                    return Fate(
                        dropped=self._draw(f"{place}/drop", fault.drop),
                        copies=fault.copies if self._draw(f"{place}/duplicate", fault.duplicate) else 1,
                        late=self._draw(f"{place}/delay", fault.delay),
                        overtaken=self._draw(f"{place}/reorder", fault.reorder),
                        seconds=fault.seconds * self._chance(f"{place}/seconds"),
                    )
        return None

    def quota(self, region: str, instance_type: str) -> int | None:
        """Return the limit of instances of a type in a Region, or None; report refusals with `refused`."""
        with self._lock:
            number = self._quota_of(region, instance_type)
            return None if number is None else self.plan.quotas[number].instances

    def record_refusal(self, region: str, instance_type: str) -> None:
        """Record that a request exceeded a quota."""
        with self._lock:
            self._struck[f"quotas/{self._quota_of(region, instance_type)}"] += 1

    def _quota_of(self, region: str, instance_type: str) -> int | None:
        for number, quota in enumerate(self.plan.quotas):
            if fnmatchcase(region, quota.region) and fnmatchcase(instance_type, quota.instance_type):
                return None if quota.times and self._struck[f"quotas/{number}"] >= quota.times else number
        return None

    def no_capacity(self, region: str, instance_type: str) -> float | None:
        """Return the seconds until a job that is created now fails for lack of capacity; None if it gets capacity."""
        with self._lock:
            for number, fault in enumerate(self.plan.capacity):
                applies = fnmatchcase(region, fault.region) and fnmatchcase(instance_type, fault.instance_type)
                if applies and self._draw(f"capacity/{number}", 1.0, fault.times):
                    return fault.seconds
        return None

    def has_spot_capacity(self, region: str, instance_type: str) -> bool:
        """Return True if a Region has spot capacity of an instance type now."""
        with self._lock:
            seconds = time.monotonic() - self._since
            for capacity in self.plan.spot:
                if fnmatchcase(region, capacity.region) and fnmatchcase(instance_type, capacity.instance_type):
                    return capacity.is_present(seconds)
        return True

    def lag(self, region: str) -> float:
        """Return the seconds during which a newly created job in a Region is invisible."""
        return next((lag.seconds for lag in self.plan.lags if fnmatchcase(region, lag.region)), 0.0)

    def stub(self, region: str, name: str) -> Stub | None:
        """Return the stub for a training job; None if the job really trains."""
        matching = (
            stub for stub in self.plan.stubs if fnmatchcase(region, stub.region) and fnmatchcase(name, stub.name)
        )
        return next(matching, None)

    def _chance(self, place: str) -> float:
        source = self._chances.get(place)
        if source is None:  # one source for each part, so that the draws of the parts are independent
            source = random.Random(f"{self.plan.seed}/{place}")  # noqa: S311 - not a secret
            self._chances[place] = source
        return source.random()

    def _draw(self, place: str, share: float, times: int = 0) -> bool:
        if times and self._struck[place] >= times:
            return False
        struck = share > 0 and (share >= 1 or self._chance(place) < share)
        self._struck[place] += struck
        return struck

    def page(self, request: Request) -> Response:
        """Handle GET and POST of /localcloud/faults."""
        if request.method == "POST":
            try:
                self.set(FaultPlan.model_validate_json(request.get_data() or b"{}"))
            except ValidationError as error:
                return Response(f"Invalid fault plan: {error}\n", HTTPStatus.BAD_REQUEST)
        content = {"plan": self.plan.model_dump(exclude_defaults=True), "struck": self.struck()}
        return Response(json.dumps(content), mimetype="application/json")


def install(cloud: "LocalCloud") -> None:
    """Set the plan from the settings, and serve the page."""
    cloud.faults.set(FaultPlan.model_validate_json(cloud.settings.faults or "{}"))
    cloud.pages["/localcloud/faults"] = cloud.faults.page
