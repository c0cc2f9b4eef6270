"""Faults that a localcloud commits on purpose: what AWS does on a bad day, when and as often as a plan says.

A plan is set by `Settings.faults`, by `LocalCloud.faults.set`, or at run time over HTTP:

    curl --aws-sigv4 aws:amz:us-east-1:localcloud -u "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" \\
        $AWS_ENDPOINT_URL/localcloud/faults -d '{"seed": 7, "calls": [
        {"effect": "lose_reply", "service": "batch", "action": "SubmitJob", "times": 1},
        {"effect": "throttle", "service": "sagemaker", "region": "eu-west-1", "share": 0.6}]}'

A plan replaces the one before; an empty one ends all faults. GET answers the plan and how often each part of it has
struck. Every choice comes from the seed, so a plan strikes the same calls again as long as the calls come in one order.
"""

import json
import random
import threading
from collections import Counter
from fnmatch import fnmatchcase
from http import HTTPStatus
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from werkzeug.wrappers import Request, Response

if TYPE_CHECKING:
    from localcloud.server import LocalCloud

Effect = Literal[
    "lose_reply", "error_before", "error_after", "throttle", "expire", "delay", "kill_before", "kill_after"
]
Share = Field(default=1.0, ge=0, le=1)


class _Part(BaseModel):
    """A part of a plan; an unknown field is refused, because a fault that does not strike proves nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CallFault(_Part):
    """A fault of API calls. Texts are globs (`*`, `?`) and match everything where nothing is given.

    Attributes:
        effect: `lose_reply`: the call takes effect, and its connection is closed without an answer. `error_before` and
            `error_after`: HTTP 500 instead of the call, or after it took effect. `throttle`: the service's own words
            for "too many requests". `expire`: the service says that the caller's credentials have run out. `delay`:
            answered later. `kill_before` and `kill_after`: the process that calls is killed with all that it started,
            before or after the call takes effect, and never hears the answer.
        service: Signing name of the service, e.g. "sagemaker".
        action: Operation, e.g. "CreateTrainingJob".
        region: Region that was signed for.
        caller: The process that calls: "batch/<job id>/<attempt>" (the id of an array's child ends in ":<index>"),
            "lambda/<function name>", "training/<training job>/<host>"; "" for everybody else, as a person.
        share: Share of the matching calls that are struck.
        nth: Strike only the n-th matching call of each caller, counted from 1; 0 strikes whichever.
        times: Strike at most so often; 0 knows no limit.
        seconds: How long a delay is.
        host_lost: Whether Batch takes a kill for the loss of the host, which job definitions usually try again, rather
            than for a program that was killed.
    """

    effect: Effect
    service: str = "*"
    action: str = "*"
    region: str = "*"
    caller: str = "*"
    share: float = Share
    nth: int = Field(default=0, ge=0)
    times: int = Field(default=0, ge=0)
    seconds: float = Field(default=0.0, ge=0)
    host_lost: bool = True


class CallPlace(NamedTuple):
    """What a fault of calls goes by: signing name of the service, operation, Region, label of the calling process."""

    service: str
    action: str
    region: str
    caller: str


class EventFault(_Part):
    """A fault of the events that services send; each share is drawn for each event.

    Attributes:
        source: Glob of the event's source, e.g. "aws.sagemaker".
        drop: Share that never arrives.
        duplicate: Share that arrives `copies` times.
        copies: How often a duplicated event arrives in all.
        delay: Share that arrives late, by up to `seconds`.
        reorder: Share that arrives after the event that follows it, or after `seconds` where none follows.
        seconds: Longest delay.
    """

    source: str = "*"
    drop: float = Field(default=0.0, ge=0, le=1)
    duplicate: float = Field(default=0.0, ge=0, le=1)
    copies: int = Field(default=2, ge=2)
    delay: float = Field(default=0.0, ge=0, le=1)
    reorder: float = Field(default=0.0, ge=0, le=1)
    seconds: float = Field(default=1.0, ge=0)


class Quota(_Part):
    """How many instances of a type all training jobs of a Region may hold together.

    Attributes:
        instance_type: Glob.
        region: Glob.
        instances: The limit; each Region and instance type that matches has its own.
        times: How many requests are refused, until somebody has the quota raised; 0 refuses for ever.
    """

    instance_type: str = "*"
    region: str = "*"
    instances: int = Field(ge=0)
    times: int = Field(default=0, ge=0)


class Capacity(_Part):
    """Training jobs that SageMaker accepts and then finds no instances for.

    Attributes:
        instance_type: Glob.
        region: Glob.
        seconds: How long SageMaker looks for instances until it fails the job.
        times: How many jobs fail so; 0 fails all.
    """

    instance_type: str = "*"
    region: str = "*"
    seconds: float = Field(default=0.0, ge=0)
    times: int = Field(default=0, ge=0)


class Lag(_Part):
    """How long DescribeTrainingJob and ListTrainingJobs do not know a job that was just created.

    Attributes:
        region: Glob.
        seconds: The lag.
    """

    region: str = "*"
    seconds: float = Field(ge=0)


class Stub(_Part):
    """Training jobs that end after some time without a process, without data and without a model in S3.

    Attributes:
        name: Glob of the training job's name.
        region: Glob.
        seconds: How long such a job trains.
        stop_seconds: Seconds from the request to stop until it has stopped. SageMaker gives a container 120 seconds.
        outcome: How it ends.
        reason: Its FailureReason, where it fails.
    """

    name: str = "*"
    region: str = "*"
    seconds: float = Field(default=0.0, ge=0)
    stop_seconds: float = Field(default=0.0, ge=0)
    outcome: Literal["Completed", "Failed"] = "Completed"
    reason: str = "AlgorithmError: told to fail, exit code: 1"


class Plan(_Part):
    """All faults at one time. Where several parts match, the first does; delays of calls come in addition."""

    seed: int = 0
    calls: tuple[CallFault, ...] = ()
    events: tuple[EventFault, ...] = ()
    quotas: tuple[Quota, ...] = ()
    capacity: tuple[Capacity, ...] = ()
    lags: tuple[Lag, ...] = ()
    stubs: tuple[Stub, ...] = ()


class Faults:
    """The plan in force, and what has come of it. May be asked and changed from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.set(Plan())

    def set(self, plan: Plan) -> None:
        """Put a plan in force; the one before and its counts are gone."""
        with self._lock:
            self.plan = plan
            self._chances: dict[str, random.Random] = {}
            self._struck: Counter[str] = Counter()
            self._struck_calls: list[tuple[CallFault, CallPlace]] = []
            self._seen: Counter[tuple[int, str]] = Counter()
            # A sweep over boundaries names a thousand callers one by one, and every request passes here: each caller's
            # own faults are looked out once.
            self._calls_of: dict[str, list[tuple[int, CallFault]]] = {}

    def struck(self) -> dict[str, int]:
        """How often each part of the plan has struck so far, by its place in the plan, e.g. "calls/0"."""
        with self._lock:
            return dict(self._struck)

    def struck_calls(self) -> list[tuple[CallFault, CallPlace]]:
        """Every fault of calls that has struck, and the call that it struck, in this order."""
        with self._lock:
            return list(self._struck_calls)

    def of_call(self, call: CallPlace) -> list[CallFault]:
        """The faults that strike a call: any delays, then at most one of the others."""
        with self._lock:
            found: list[CallFault] = []
            for number, fault in self._of_caller(call.caller):
                if self._strikes(number, fault, call):
                    found.append(fault)
                    self._struck_calls.append((fault, call))
                    if fault.effect != "delay":
                        break
            return found

    def _of_caller(self, caller: str) -> list[tuple[int, CallFault]]:
        if caller not in self._calls_of:
            numbered = enumerate(self.plan.calls)
            self._calls_of[caller] = [
                (number, fault) for number, fault in numbered if fnmatchcase(caller, fault.caller)
            ]
        return self._calls_of[caller]

    def _strikes(self, number: int, fault: CallFault, call: CallPlace) -> bool:
        if not all(map(fnmatchcase, call[:3], (fault.service, fault.action, fault.region))):
            return False
        self._seen[number, call.caller] += 1
        if fault.nth and self._seen[number, call.caller] != fault.nth:
            return False
        return self._draw(f"calls/{number}", fault.share, fault.times)

    def event(self, source: str) -> "Fate | None":
        """What becomes of an event of a source; None where no part of the plan is about it."""
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
        """The limit of instances of a type in a Region, or None; a refusal is to be told to `refused`."""
        with self._lock:
            number = self._quota_of(region, instance_type)
            return None if number is None else self.plan.quotas[number].instances

    def refused(self, region: str, instance_type: str) -> None:
        """Note that a request was beyond a quota."""
        with self._lock:
            self._struck[f"quotas/{self._quota_of(region, instance_type)}"] += 1

    def _quota_of(self, region: str, instance_type: str) -> int | None:
        for number, quota in enumerate(self.plan.quotas):
            if fnmatchcase(region, quota.region) and fnmatchcase(instance_type, quota.instance_type):
                return None if quota.times and self._struck[f"quotas/{number}"] >= quota.times else number
        return None

    def no_capacity(self, region: str, instance_type: str) -> float | None:
        """Seconds after which a job that is created now fails for want of instances; None where it gets them."""
        with self._lock:
            for number, fault in enumerate(self.plan.capacity):
                here = fnmatchcase(region, fault.region) and fnmatchcase(instance_type, fault.instance_type)
                if here and self._draw(f"capacity/{number}", 1.0, fault.times):
                    return fault.seconds
        return None

    def lag(self, region: str) -> float:
        """Seconds for which a job that was just created in a Region is not seen."""
        return next((lag.seconds for lag in self.plan.lags if fnmatchcase(region, lag.region)), 0.0)

    def stub(self, region: str, name: str) -> Stub | None:
        """How a training job runs without a process; None for one that really trains."""
        matching = (
            stub for stub in self.plan.stubs if fnmatchcase(region, stub.region) and fnmatchcase(name, stub.name)
        )
        return next(matching, None)

    def _chance(self, place: str) -> float:
        source = self._chances.get(place)
        if source is None:  # one source for each part, so that one part's draws do not shift another's
            source = self._chances[place] = random.Random(f"{self.plan.seed}/{place}")  # noqa: S311 - no secret
        return source.random()

    def _draw(self, place: str, share: float, times: int = 0) -> bool:
        if times and self._struck[place] >= times:
            return False
        struck = share > 0 and (share >= 1 or self._chance(place) < share)
        self._struck[place] += struck
        return struck

    def page(self, request: Request) -> Response:
        """Answer GET and POST of /localcloud/faults."""
        if request.method == "POST":
            try:
                self.set(Plan.model_validate_json(request.get_data() or b"{}"))
            except ValidationError as error:
                return Response(f"This is no plan of faults: {error}\n", HTTPStatus.BAD_REQUEST)
        answer = {"plan": self.plan.model_dump(exclude_defaults=True), "struck": self.struck()}
        return Response(json.dumps(answer), mimetype="application/json")


class Fate(BaseModel):
    """What becomes of one event.

    Attributes:
        dropped: It never arrives.
        copies: How often it arrives.
        late: It arrives after `seconds`.
        overtaken: It arrives after the next one, or after `seconds`.
        seconds: A time up to the fault's longest.
    """

    dropped: bool
    copies: int
    late: bool
    overtaken: bool
    seconds: float


def install(cloud: "LocalCloud") -> None:
    """Put the plan of the settings in force, and serve the page."""
    cloud.faults.set(Plan.model_validate_json(cloud.settings.faults or "{}"))
    cloud.pages["/localcloud/faults"] = cloud.faults.page
