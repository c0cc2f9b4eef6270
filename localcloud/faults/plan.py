r"""Fault injection: a localcloud simulates failures of AWS according to a plan.

`Settings.faults`, `LocalCloud.faults.set`, or an HTTP request at run time sets the plan:

    curl --aws-sigv4 aws:amz:us-east-1:localcloud -u "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" \
        $AWS_ENDPOINT_URL/localcloud/faults -d '{"seed": 7, "calls": [
        {"effect": "lose_reply", "service": "batch", "action": "SubmitJob", "times": 1},
        {"effect": "throttle", "service": "sagemaker", "region": "eu-west-1", "share": 0.6}]}'

A new plan replaces the previous one; an empty plan ends all faults. GET returns the plan and the number of times that
each part has been applied. All random choices derive from the seed, so a plan affects the same calls again if the calls
arrive in the same order.
"""

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Effect = Literal[
    "lose_reply", "error_before", "error_after", "throttle", "expire", "delay", "freeze", "kill_before", "kill_after"
]
BESIDES: tuple[Effect, ...] = ("delay", "freeze")
"""The effects after which a call takes effect as usual, and further faults apply."""
Share = Field(default=1.0, ge=0, le=1)


class _Part(BaseModel):
    """A part of a plan. Unknown fields are refused, because a fault that never applies tests nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CallFault(_Part):
    """A fault of API calls. Texts are globs (`*`, `?`); by default, they match everything.

    Attributes:
        effect: `lose_reply`: the call takes effect, and the connection is closed without a response. `error_before` and
            `error_after`: HTTP 500 instead of the call, or after it took effect. `throttle`: the service's error for
            too many requests. `expire`: the service's error for expired credentials. `delay`: the call takes effect
            later. `freeze`: the call takes effect, but the calling process and its children are stopped (SIGSTOP)
            before they read the response, until `ProcessGroup.thaw`.
            `kill_before` and `kill_after`: the calling process and its children are killed before or after the call
            takes effect, and receive no response.
        service: Signing name of the service, for example "sagemaker".
        action: Operation, for example "CreateTrainingJob".
        region: Region in the signature.
        caller: The calling process: "batch/<job id>/<attempt>" (the id of an array child ends in ":<index>"),
            "lambda/<function name>", "training/<training job>/<host>", "pods/<namespace>/<pod>/<container>"; "" for all
            other callers, such as users.
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


class CapacityQuota(_Part):
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


class SpotCapacity(_Part):
    """The spot capacity of a Region over time.

    While it is absent, spot training jobs wait for it, and the running ones are interrupted
    (`localcloud.sagemaker.spot_instances`). One interruption is the trace `((30, False), (90, True))`.

    Attributes:
        instance_type: Glob.
        region: Glob.
        trace: The changes: the seconds since the plan was set, and True if capacity is present from then on. Before the
            first change it is present.

    Raises:
        ValueError: If a change is not later than the one before it.
    """

    instance_type: str = "*"
    region: str = "*"
    trace: tuple[tuple[Annotated[float, Field(ge=0)], bool], ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if any(later[0] <= earlier[0] for earlier, later in pairwise(self.trace)):
            message = "the changes of a trace must be in the order of their seconds, each at another second"
            raise ValueError(message)
        return self

    def is_present(self, seconds: float) -> bool:
        """Return True if there is capacity at a time, in seconds since the plan was set."""
        changes = [is_present for at, is_present in self.trace if at <= seconds]
        return changes[-1] if changes else True


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
        reason: Its FailureReason, if it fails.
    """

    name: str = "*"
    region: str = "*"
    seconds: float = Field(default=0.0, ge=0)
    stop_seconds: float = Field(default=0.0, ge=0)
    outcome: Literal["Completed", "Failed"] = "Completed"
    reason: str = "AlgorithmError: simulated failure, exit code: 1"


class FaultPlan(_Part):
    """All faults at one time. The first matching part applies; delays and freezes of calls apply in addition."""

    seed: int = 0
    calls: tuple[CallFault, ...] = ()
    events: tuple[EventFault, ...] = ()
    quotas: tuple[CapacityQuota, ...] = ()
    capacity: tuple[Capacity, ...] = ()
    spot: tuple[SpotCapacity, ...] = ()
    lags: tuple[Lag, ...] = ()
    stubs: tuple[Stub, ...] = ()
