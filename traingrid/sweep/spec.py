"""Sweep specification: the base lines, the search space and the objective of a sweep, as validated models."""

import itertools
import math
from collections.abc import Iterator, Mapping
from random import Random
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, StringConstraints

from traingrid.manifest.spec_file import SpecPart

Value: TypeAlias = bool | int | float | str
"""The value of a hyperparameter."""
Parameters: TypeAlias = dict[str, Value]
"""The searched hyperparameters of one trial, by name without `hp.`."""
MAX_TRIALS = 10_000
"""The maximum number of trials. A step of a sweep reads the whole journal into memory."""
HYPERPARAMETER = "hp."
"""The prefix of the searched keys, as in the columns of a manifest."""


class Dimension(SpecPart):
    """The values of one hyperparameter; exactly one of the first four keys is set.

    Attributes:
        range: The lowest and the highest of all real numbers.
        log_range: As `range`; the logarithm is distributed evenly.
        whole: The lowest and the highest of all whole numbers; `int` in the file.
        points: With the strategy grid: the number of values of `range` or `log_range`, at equal distances.
    """

    choices: Annotated[tuple[Value, ...], Field(min_length=1)] | None = None
    range: tuple[float, float] | None = None
    log_range: tuple[float, float] | None = None
    whole: tuple[int, int] | None = Field(default=None, alias="int")
    points: Annotated[int, Field(ge=2, le=1000)] | None = None

    @property
    def kinds(self) -> list[str]:
        """The keys of the file that are set, without `points`."""
        names = {"choices": self.choices, "range": self.range, "log_range": self.log_range, "int": self.whole}
        return [name for name, value in names.items() if value is not None]

    def values(self) -> tuple[Value, ...] | None:
        """Return all values; None if there are infinitely many."""
        if self.choices is not None:
            return self.choices
        if self.whole is not None:
            return tuple(range(self.whole[0], self.whole[1] + 1))
        return tuple(self._spread(self.points)) if self.points else None

    def sample(self, random: Random) -> Value:
        """Return a random value."""
        if self.choices is not None:
            return random.choice(self.choices)
        if self.whole is not None:
            return random.randint(*self.whole)
        if self.log_range is not None:
            low, high = self.log_range
            return min(max(math.exp(random.uniform(math.log(low), math.log(high))), low), high)
        assert self.range is not None  # noqa: S101  # the reader of the file checks that one key is set
        return random.uniform(*self.range)

    def _spread(self, points: int) -> Iterator[float]:
        """Yield numbers at equal distances; rounded, so that 0.30000000000000004 becomes 0.3."""
        low, high = self.range or self.log_range or (0.0, 0.0)
        for place in range(points):
            share = place / (points - 1)
            yield float(f"{low * (high / low) ** share if self.log_range else low + (high - low) * share:.12g}")


class Objective(SpecPart):
    """The metric that the sweep improves.

    Attributes:
        direction: "maximize" or "minimize".
    """

    metric: Annotated[str, StringConstraints(min_length=1)]
    direction: Literal["maximize", "minimize"]

    @property
    def is_lower_better(self) -> bool:
        """True if a lower value is better."""
        return self.direction == "minimize"

    def is_better(self, value: float, reference: float) -> bool:
        """Return True if a value is strictly better than another one."""
        return value > reference if self.direction == "maximize" else value < reference

    def best(self, values: Iterator[float]) -> float:
        """Return the best of some values; there is at least one."""
        return max(values) if self.direction == "maximize" else min(values)


class EarlyStopping(SpecPart):
    """The rule that stops trials early.

    Attributes:
        rule: "median": stop a trial whose best value is worse than the median of the completed trials' best values up
            to the same epoch.
        min_epochs: No trial is stopped before it has reported a value for this epoch.
        min_trials: No trial is stopped before this many trials have completed.
    """

    rule: Literal["median"] = "median"
    min_epochs: Annotated[int, Field(ge=1)] = 1
    min_trials: Annotated[int, Field(ge=1)] = 4


class SweepSpec(SpecPart):
    """A sweep.

    Attributes:
        name: The name, which identifies the sweep in its grid; by default that of the file.
        lines: The base lines, with the fields of a manifest; each trial uses one of them.
        search: The searched hyperparameters, such as `hp.learning_rate`.
        strategy: "grid" (all combinations), "random" or "optuna" (needs the extra `sweep`).
        trials: The number of trials; with grid by default all combinations.
        parallel: The maximum number of trials that wait or run at the same time.
        early_stopping: The rule that stops trials early; None stops none.
        budget_dollars: The budget of all trials together, in US dollars.
        final: Fields that the manifest of the best trial gets, such as `hp.epochs`, to train it longer.
    """

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
    lines: Annotated[tuple[dict[str, Any], ...], Field(min_length=1)]
    search: Annotated[dict[str, Dimension], Field(min_length=1)]
    strategy: Literal["grid", "random", "optuna"] = "random"
    objective: Objective
    trials: Annotated[int, Field(ge=1, le=MAX_TRIALS)] | None = None
    parallel: Annotated[int, Field(ge=1, le=1000)] = 4
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    early_stopping: EarlyStopping | None = None
    budget_dollars: Annotated[float, Field(gt=0)] | None = None
    final: dict[str, Any] = Field(default_factory=dict)

    @property
    def space(self) -> dict[str, Dimension]:
        """The search space by the name of the hyperparameter, without `hp.`."""
        return {key.removeprefix(HYPERPARAMETER): dimension for key, dimension in self.search.items()}

    @property
    def combinations(self) -> int | None:
        """The number of different trials; None if it is infinite."""
        sizes = [len(set(values)) if (values := dimension.values()) else 0 for dimension in self.search.values()]
        return math.prod(sizes) if all(sizes) else None

    @property
    def number_of_trials(self) -> int:
        """The number of trials of the whole sweep: at most the number of combinations."""
        trials = self.trials or MAX_TRIALS
        return min(trials, self.combinations) if self.combinations else trials

    def combination(self, number: int) -> Parameters:
        """Return one of all combinations; the last hyperparameter changes fastest."""
        values = [dict.fromkeys(dimension.values() or ()) for dimension in self.space.values()]
        grid_point = next(itertools.islice(itertools.product(*values), number, None))
        return dict(zip(self.space, grid_point, strict=True))

    def identity(self, lines: list[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the part of the specification that must not change while the sweep exists.

        Args:
            lines: The base lines with the URIs of packed sources.
        """
        fixed = self.model_dump(mode="json", by_alias=True, include={"search", "strategy", "objective", "seed"})
        return {**fixed, "lines": [dict(line) for line in lines]}
