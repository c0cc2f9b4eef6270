"""Fault injection: a localcloud simulates failures of AWS according to a plan.

`Settings.faults`, `LocalCloud.faults.set`, or an HTTP request at run time sets the plan:

    curl --aws-sigv4 aws:amz:us-east-1:localcloud -u "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" \\
        $AWS_ENDPOINT_URL/localcloud/faults -d '{"seed": 7, "calls": [
        {"effect": "lose_reply", "service": "batch", "action": "SubmitJob", "times": 1},
        {"effect": "throttle", "service": "sagemaker", "region": "eu-west-1", "share": 0.6}]}'

A new plan replaces the previous one; an empty plan ends all faults. GET returns the plan and the number of times that
each part has been applied. All random choices derive from the seed, so a plan affects the same calls again if the calls
arrive in the same order.
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
    from localcloud.server.local_cloud import LocalCloud

Effect = Literal[
    "lose_reply", "error_before", "error_after", "throttle", "expire", "delay", "kill_before", "kill_after"
]
Share = Field(default=1.0, ge=0, le=1)


class _Part(BaseModel):
    """A part of a plan. Unknown fields are refused, because a fault that never applies tests nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CallFault(_Part):
    """A fault of API calls. Texts are globs (`*`, `?`); by default, they match everything.

    Attributes:
        effect: `lose_reply`: the call takes effect, and the connection is closed without a response. `error_before` and
            `error_after`: HTTP 500 instead of the call, or after it took effect. `throttle`: the service's error for
            too many requests. `expire`: the service's error for expired credentials. `delay`: a delayed response.
            `kill_before` and `kill_after`: the calling process and its children are killed before or after the call
            takes effect, and receive no response.
        service: Signing name of the service, for example "sagemaker".
        action: Operation, for example "CreateTrainingJob".
        region: Region in the signature.
        caller: The calling process: "batch/<job id>/<attempt>" (the id of an array child ends in ":<index>"),
            "lambda/<function name>", "training/<training job>/<host>"; "" for all other callers, such as users.
        share: Fraction of the matching calls to which the fault applies.
        nth: Apply only to the n-th matching call of each caller, counted from 1; 0 applies to all.
        times: Maximum number of applications; 0 means no limit.
        seconds: Length of a delay.
        host_lost: True if Batch reports a kill as the loss of the host, which job definitions usually retry. False if
            Batch reports a killed program.
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
    """The properties of a call that faults match: signing name, operation, Region, label of the calling process."""

    service: str
    action: str
    region: str
    caller: str


class EventFault(_Part):
    """A fault of the events that services send; each event is drawn separately for each fraction.

    Attributes:
        source: Glob of the event's source, for example "aws.sagemaker".
        drop: Fraction that is lost.
        duplicate: Fraction that arrives `copies` times.
        copies: Total number of arrivals of a duplicated event.
        delay: Fraction that arrives late, by up to `seconds`.
        reorder: Fraction that arrives after the next event, or after `seconds` if no event follows.
        seconds: Maximum delay.
    """

    source: str = "*"
    drop: float = Field(default=0.0, ge=0, le=1)
    duplicate: float = Field(default=0.0, ge=0, le=1)
    copies: int = Field(default=2, ge=2)
    delay: float = Field(default=0.0, ge=0, le=1)
    reorder: float = Field(default=0.0, ge=0, le=1)
    seconds: float = Field(default=1.0, ge=0)


class Quota(_Part):
    """The maximum number of instances of a type that all training jobs of a Region may use together.

    Attributes:
        instance_type: Glob.
        region: Glob.
        instances: The limit, separate for each matching Region and instance type.
        times: Number of refused requests until the quota is raised; 0 refuses always.
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
        seconds: Time that SageMaker searches for instances before it fails the job.
        times: Number of jobs that fail; 0 fails all.
    """

    instance_type: str = "*"
    region: str = "*"
    seconds: float = Field(default=0.0, ge=0)
    times: int = Field(default=0, ge=0)


class Lag(_Part):
    """The time during which DescribeTrainingJob and ListTrainingJobs do not return a newly created job.

    Attributes:
        region: Glob.
        seconds: The delay.
    """

    region: str = "*"
    seconds: float = Field(ge=0)


class Stub(_Part):
    """Training jobs that end after some time without a process, without data and without a model in S3.

    Attributes:
        name: Glob of the training job's name.
        region: Glob.
        seconds: Training time of such a job.
        stop_seconds: Time between the request to stop and the stop. SageMaker gives a container 120 seconds.
        outcome: Its final status.
        reason: Its FailureReason, if it fails.
    """

    name: str = "*"
    region: str = "*"
    seconds: float = Field(default=0.0, ge=0)
    stop_seconds: float = Field(default=0.0, ge=0)
    outcome: Literal["Completed", "Failed"] = "Completed"
    reason: str = "AlgorithmError: simulated failure, exit code: 1"


class Plan(_Part):
    """All faults at one time. The first matching part applies; delays of calls apply in addition."""

    seed: int = 0
    calls: tuple[CallFault, ...] = ()
    events: tuple[EventFault, ...] = ()
    quotas: tuple[Quota, ...] = ()
    capacity: tuple[Capacity, ...] = ()
    lags: tuple[Lag, ...] = ()
    stubs: tuple[Stub, ...] = ()


class Faults:
    """Stores the current plan and the applied faults. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.set(Plan())

    def set(self, plan: Plan) -> None:
        """Replace the plan, and reset the counts."""
        with self._lock:
            self.plan = plan
            self._chances: dict[str, random.Random] = {}
            self._struck: Counter[str] = Counter()
            self._struck_calls: list[tuple[CallFault, CallPlace]] = []
            self._seen: Counter[tuple[int, str]] = Counter()
            # A sweep over all boundaries names a thousand callers one by one, and every request comes through here:
            # each caller's faults are selected only once.
            self._calls_of: dict[str, list[tuple[int, CallFault]]] = {}

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

    def refused(self, region: str, instance_type: str) -> None:
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
                here = fnmatchcase(region, fault.region) and fnmatchcase(instance_type, fault.instance_type)
                if here and self._draw(f"capacity/{number}", 1.0, fault.times):
                    return fault.seconds
        return None

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
            source = self._chances[place] = random.Random(f"{self.plan.seed}/{place}")  # noqa: S311 - not a secret
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
                self.set(Plan.model_validate_json(request.get_data() or b"{}"))
            except ValidationError as error:
                return Response(f"Invalid fault plan: {error}\n", HTTPStatus.BAD_REQUEST)
        answer = {"plan": self.plan.model_dump(exclude_defaults=True), "struck": self.struck()}
        return Response(json.dumps(answer), mimetype="application/json")


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


def install(cloud: "LocalCloud") -> None:
    """Set the plan from the settings, and serve the page."""
    cloud.faults.set(Plan.model_validate_json(cloud.settings.faults or "{}"))
    cloud.pages["/localcloud/faults"] = cloud.faults.page
