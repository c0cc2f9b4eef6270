"""Queues: the shares and service queues of grid.yaml, with the instances that each may use."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from traingrid.grid.field_types import Count, InstanceType, broken_rule
from traingrid.grid.part import GridPart

Launch = Literal["direct", "queued"]
"""How a training job is launched: by the child itself, or by AWS Batch when its service queue has capacity."""

MAX_SHARES, MAX_TYPES = 20, 5
"""Maximum number of quota shares of a queue
(https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html), and of instance types of a quota share
(https://docs.aws.amazon.com/batch/latest/userguide/quota-shares.html)."""

ONLY_SHARE = "default"
"""The share of all service jobs if grid.yaml has no shares, because a queue orders by priority only within a share."""

Share = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]{1,64}$", strict=True)]
"""A share's name: letters and digits (shareIdentifier in the Batch API reference)."""
Weight = Annotated[int, Field(ge=1, le=1000, strict=True)]


class ServiceQueue(GridPart):
    """A service queue of AWS Batch, in which a Region's SageMaker training jobs wait for capacity.

    Its capacity is either a number of instances of any type, or a number of instances by type for each share.
    """

    instances: Count | None = Field(default=None, examples=[16])
    """Maximum number of instances, of any type, of all queued training jobs of this Region together."""
    quota_shares: dict[Share, dict[InstanceType, Count]] = Field(
        default={}, max_length=MAX_SHARES, examples=[{"research": {"ml.p4d.24xlarge": 4}}]
    )
    """Number of instances by type that each share may use: its part of the account's quota. At most 20 shares."""
    lend: bool = Field(default=False, strict=True, examples=[True])
    """True if an idle share lends its instances to others. When the share needs them, Batch preempts a training job of
    the borrower, and starts it again later."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.instances is None) == (not self.quota_shares):
            raise broken_rule(
                "a service queue must have either instances or quota_shares", at="instances", example=True
            )
        if self.lend and not self.quota_shares:
            raise broken_rule("lend requires quota_shares", at="lend")
        for share, types in self.quota_shares.items():
            if not 1 <= len(types) <= MAX_TYPES:
                raise broken_rule(
                    f"{share} has {len(types)} instance types; a share must have 1 to {MAX_TYPES}", at="quota_shares"
                )
        return self

    def limits(self) -> dict[str, int]:
        """Return the maximum number of instances of all shares together: by type, or for NUM_INSTANCES (any type)."""
        if self.instances is not None:
            return {"NUM_INSTANCES": self.instances}
        types = dict.fromkeys(kind for shares in self.quota_shares.values() for kind in shares)
        return {kind: sum(share.get(kind, 0) for share in self.quota_shares.values()) for kind in types}

    def most(self, share: str, instance_type: str) -> int:
        """Return the maximum number of instances of a type that one training job of a share can get."""
        if self.instances is not None:
            return self.instances
        instances_by_type = self.quota_shares.get(share, {})
        return (self.limits() if self.lend else instances_by_type).get(instance_type, 0)


def check_launch(
    launch: str, share: str | None, shares: Mapping[str, int], queues: Mapping[str, ServiceQueue | None]
) -> None:
    """Raise an error if the default `launch` or `share` of jobs is not possible in this grid.

    Args:
        launch: The default `launch`.
        share: The default `share`.
        queues: The service queue of each Region; None for a Region without one.
    """
    if launch == "queued" and (missing := [region for region, queue in queues.items() if queue is None]):
        rule = f"no service queue in {', '.join(missing)}; write `service_queue: {{instances: 16}}` for each, or direct"
        raise broken_rule(rule, at="launch")
    if share is not None and share not in shares:
        context = {"choices": tuple(shares) or ("no shares",), "at": "share", "value": share}
        raise PydanticCustomError("unknown_share", "`shares` has no such share", context)


def check_shares(
    shares: Mapping[str, int], queues: Mapping[str, ServiceQueue | None], instance_types: tuple[str, ...]
) -> None:
    """Raise an error if quota shares differ from the grid's shares, or have instance types that no job may have."""
    for region, queue in queues.items():
        if queue is None or not queue.quota_shares:
            continue
        if differing := sorted(set(queue.quota_shares) ^ set(shares)):
            rule = (
                f"quota_shares of {region} and `shares` must have the same names; they differ in {', '.join(differing)}"
            )
            raise broken_rule(rule, at="shares")
        if unknown := sorted(set(queue.limits()) - set(instance_types)):
            rule = f"quota_shares of {region} has {', '.join(unknown)}, which jobs of the grid may not use"
            raise broken_rule(rule, at="instance_types")
