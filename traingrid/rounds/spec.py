"""Rounds specification: the lines of the Regions, the outer step and the merge of a series of rounds."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, field_validator

from traingrid.grid.field_types import Duration
from traingrid.manifest.spec_file import SpecPart

DILOCO_LEARNING_RATE = 0.7
"""The outer learning rate of DiLoCo (Douillard et al. 2023, arXiv:2311.08105, Nesterov as the outer optimizer)."""
DILOCO_MOMENTUM = 0.6
"""The outer momentum. The paper has 0.9, for hundreds of rounds. On digits split by class over four Regions, four
rounds with 0.6 are better than those with 0.9, by 2 points in the mean of twelve seeds (docs/rounds.md)."""
MAX_ROUNDS = 1000
"""The maximum number of rounds. A step reads the whole journal into memory."""


class Outer(SpecPart):
    """The outer step.

    Attributes:
        kind: "fedavg" (arXiv:1602.05629) or "diloco" (arXiv:2311.08105).
        learning_rate: With diloco: the outer learning rate.
        momentum: With diloco: the outer Nesterov momentum.
        weight_by: The weight of a Region: "records", its training records; "models", the same for all.
    """

    kind: Literal["fedavg", "diloco"] = "fedavg"
    learning_rate: Annotated[float, Field(gt=0, le=10)] | None = None
    momentum: Annotated[float, Field(ge=0, lt=1)] | None = None
    weight_by: Literal["records", "models"] = "records"

    @property
    def rate_and_momentum(self) -> tuple[float, float]:
        """The learning rate and the momentum; those of FedAvg are 1 and 0."""
        if self.kind == "fedavg":
            return 1.0, 0.0
        rate = DILOCO_LEARNING_RATE if self.learning_rate is None else self.learning_rate
        return rate, DILOCO_MOMENTUM if self.momentum is None else self.momentum


class MergePlace(SpecPart):
    """The job that merges the models of a round.

    Attributes:
        data: A folder of the Region with `validation/`; by default the data of the Region's line.
        instance_type: By default the grid's first one without accelerators.
        image: The alias of the grid's training image that merges; by default that of the lines, or the grid's default.
        statistics: The statistics of batch norm: "average" of the Regions', or "recompute" from the training images of
            the merge's data.
    """

    region: Annotated[str, StringConstraints(min_length=1)]
    data: str = ""
    instance_type: str = ""
    image: str = ""
    statistics: Literal["average", "recompute"] = "average"


class Missing(SpecPart):
    """The handling of a Region whose job of a round fails, or does not end in time.

    Attributes:
        wait: The time from the beginning of a round, in seconds; None waits until all jobs have ended.
        then: "stop": end the command with the reason; "continue": merge the models of the other Regions.
    """

    wait: Annotated[Duration, Field(gt=0)] | None = None
    then: Literal["stop", "continue"] = "stop"


class Stop(SpecPart):
    """The rule by which the rounds end before their maximum number.

    Attributes:
        metric: A metric of the global models; of a loss, lower values are better.
        patience: The number of rounds without an improvement after which no round follows.
        min_delta: The least improvement that counts, over the best value before.
    """

    metric: Literal["validation_top1", "validation_top5", "validation_loss"] = "validation_top1"
    patience: Annotated[int, Field(ge=1, le=MAX_ROUNDS)] = 2
    min_delta: Annotated[float, Field(ge=0)] = 0.0


class RoundsSpec(SpecPart):
    """A series of rounds.

    Attributes:
        name: The name, which identifies the rounds in their grid; by default that of the file.
        lines: A line for each Region, with the fields of a manifest.
        recipe: Fields of all lines, such as `hp.learning_rate`.
        epochs: The epochs of a Region in each round.
        rounds: The number of rounds; with `stop`, the maximum.
        stop: The rule by which they end earlier; None for none.
        seed: The seed of the first weights and of the first round's order of records.
        init_from: The job with whose model the first round begins, SUBMISSION/INDEX; empty for random weights.
    """

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,52}$")]
    lines: Annotated[tuple[dict[str, Any], ...], Field(min_length=1)]
    recipe: dict[str, Any] = Field(default_factory=dict)
    epochs: Annotated[int, Field(ge=1, le=100_000)]
    rounds: Annotated[int, Field(ge=1, le=MAX_ROUNDS)]
    outer: Outer = Outer()
    merge: MergePlace
    stop: Stop | None = None
    missing: Missing = Missing()
    seed: Annotated[int, Field(ge=0, lt=2**31 - MAX_ROUNDS)] = 0
    init_from: str = ""

    @field_validator("outer", mode="before")
    @classmethod
    def _kind_alone(cls, value: object) -> object:
        """Read `outer: diloco` as `outer: {kind: diloco}`."""
        return {"kind": value} if isinstance(value, str) else value

    def identity(self, lines: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the part of the specification that must not change while the rounds exist.

        Args:
            lines: The lines as the rounds submit them, without the fields of a round.
        """
        fixed = self.model_dump(mode="json", include={"epochs", "outer", "seed", "init_from"})
        return {**fixed, "statistics": self.merge.statistics, "lines": lines}
