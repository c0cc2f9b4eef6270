"""Algorithm: the rules that an algorithm publishes for its training jobs, and the check of one job against them."""

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from traingrid.algorithms.hyperparameter import Hyperparameter, one_of

MODEL = "application/x-sagemaker-model"
"""The content type of the channel `model`, which continues the training of an earlier model."""


@dataclass(frozen=True, kw_only=True)
class ChannelUse:
    """One channel of a training job.

    Attributes:
        content_type: Its content type; empty if the job sets none.
        input_mode: File, FastFile or Pipe.
        distribution: FullyReplicated or ShardedByS3Key.
    """

    content_type: str = ""
    input_mode: str = "File"
    distribution: str = "FullyReplicated"

    @property
    def mime(self) -> str:
        """The content type without parameters, such as `; label-format=multi-hot`."""
        return self.content_type.partition(";")[0].strip().lower()


@dataclass(frozen=True, kw_only=True)
class Use:
    """The part of a training job that an algorithm restricts.

    Attributes:
        channels: Its channels by name.
    """

    hyperparameters: Mapping[str, str]
    channels: Mapping[str, ChannelUse]
    instance_type: str
    instance_count: int = 1

    @property
    def family(self) -> str:
        """The instance family, such as "g5"."""
        return self.instance_type.removeprefix("ml.").partition(".")[0]


@dataclass(frozen=True, kw_only=True)
class BrokenRule:
    """A rule that a training job breaks.

    Attributes:
        field: The manifest's field: hyperparameters, inputs, instance_type or instance_count.
        entry: The hyperparameter or channel; empty if the rule is about the whole field.
        value: The invalid value; empty if a value is missing.
        reason: Why it is invalid.
        next_step: A sentence with the valid values.
    """

    field: str
    entry: str = ""
    value: str = ""
    reason: str
    next_step: str


@dataclass(frozen=True, kw_only=True)
class ChannelRule:
    """The rule of one channel.

    Attributes:
        required: True if every job must have the channel.
        content_types: The content types by input mode. A mode that is missing is not supported. An empty list accepts
            any content type.
        default: The content type of a channel without one; empty if the algorithm has no default.
        parameters: True if a content type may have parameters and capital letters.
    """

    required: bool = False
    content_types: Mapping[str, tuple[str, ...]]
    default: str = ""
    parameters: bool = True


Rule = Callable[[Use], Iterator[BrokenRule]]


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """An algorithm with the rules of its training jobs.

    Attributes:
        source: The URL of the page that publishes its hyperparameters; empty for an algorithm resource.
        hyperparameters: All hyperparameters that it accepts.
        aliases: The name in `hyperparameters` of each other name that the algorithm accepts.
        channels: All channels that it accepts, by name.
        instance_families: The families of instances on which it trains; empty for all.
        instance_types: The instance types on which it trains; empty for all.
        distributed: True if it trains on several instances.
        rules: Rules that concern more than one value.
    """

    name: str
    source: str = ""
    hyperparameters: tuple[Hyperparameter, ...]
    aliases: Mapping[str, str] = field(default_factory=dict)
    channels: Mapping[str, ChannelRule]
    instance_families: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()
    distributed: bool = True
    rules: tuple[Rule, ...] = ()

    def violations(self, use: Use) -> list[BrokenRule]:
        """Return all rules that a training job breaks."""
        violations = [*self._check_hyperparameters(use), *self._check_channels(use), *self._check_instances(use)]
        if not violations:  # the other rules rely on valid values
            violations = [violation for rule in self.rules for violation in rule(self._canonical(use))]
        return violations

    def _canonical(self, use: Use) -> Use:
        """Return the job with aliases of hyperparameters replaced."""
        renamed = {self.aliases.get(name, name): value for name, value in use.hyperparameters.items()}
        return replace(use, hyperparameters=renamed)

    def _check_hyperparameters(self, use: Use) -> Iterator[BrokenRule]:
        by_name = {hyperparameter.name: hyperparameter for hyperparameter in self.hyperparameters}
        values = self._canonical(use).hyperparameters
        for name, value in use.hyperparameters.items():
            hyperparameter = by_name.get(self.aliases.get(name, name))
            if hyperparameter is None:
                yield self._unknown_name_rule(name, value, (*by_name, *self.aliases))
            elif reason := hyperparameter.problem(value):
                yield invalid(name, value, reason, f"Write {hyperparameter.allowed}.")
        for hyperparameter in self.hyperparameters:
            if hyperparameter.required and hyperparameter.name not in values:
                yield missing(hyperparameter.name, f"{self.name} requires it", hyperparameter.allowed)

    def _unknown_name_rule(self, name: str, value: str, names: tuple[str, ...]) -> BrokenRule:
        similar_names = difflib.get_close_matches(name, names, n=1)
        step = (
            f"Did you mean {similar_names[0]}?"
            if similar_names
            else f"Remove it; the hyperparameters are {', '.join(names)}."
        )
        return invalid(name, value, f"{self.name} has no hyperparameter of this name", step)

    def _check_channels(self, use: Use) -> Iterator[BrokenRule]:
        for name, rule in self.channels.items():
            if rule.required and name not in use.channels:
                reason = f"{self.name} requires the channel {name}"
                yield BrokenRule(field="inputs", reason=reason, next_step=f"Add {name} to inputs.")
        for name, channel in use.channels.items():
            rule_of_name = self.channels.get(name)
            if rule_of_name is None:
                reason = f"{self.name} has no channel of this name"
                step = f"The channels are {', '.join(self.channels)}."
                yield BrokenRule(field="inputs", entry=name, reason=reason, next_step=step)
            else:
                yield from self._check_channel(name, channel, rule_of_name)

    def _check_channel(self, name: str, channel: ChannelUse, rule: ChannelRule) -> Iterator[BrokenRule]:
        types = rule.content_types.get(channel.input_mode)
        if types is None:
            reason = f"{self.name} does not support the input mode {channel.input_mode} for the channel {name}"
            step = f"Write input_mode {one_of(tuple(rule.content_types))}."
            yield BrokenRule(field="inputs", entry=name, value=channel.input_mode, reason=reason, next_step=step)
        elif types and ((channel.mime if rule.parameters else channel.content_type) or rule.default) not in types:
            reason = f"{self.name} requires another content_type in {channel.input_mode} mode"
            if not channel.mime:
                reason = f"{self.name} requires the content_type of the channel {name}"
            step = f"Write content_type {one_of(types)}."
            yield BrokenRule(field="inputs", entry=name, value=channel.content_type, reason=reason, next_step=step)

    def _check_instances(self, use: Use) -> Iterator[BrokenRule]:
        allowed = self.instance_types or tuple(f"ml.{family}" for family in self.instance_families)
        fits = use.instance_type in self.instance_types or use.family in self.instance_families
        if allowed and not fits:
            reason = f"{self.name} does not train on this instance type"
            step = f"Write an instance type of {one_of(allowed)}, or add one to instance_types in grid.yaml."
            if self.instance_types:
                step = f"Write {one_of(allowed)}, or add it to instance_types in grid.yaml."
            yield BrokenRule(field="instance_type", value=use.instance_type, reason=reason, next_step=step)
        if use.instance_count > 1 and not self.distributed:
            reason = f"{self.name} trains on one instance only"
            yield BrokenRule(
                field="instance_count", value=str(use.instance_count), reason=reason, next_step="Write 1, or remove it."
            )


def invalid(name: str, value: str, reason: str, next_step: str) -> BrokenRule:
    """Return the violation of a hyperparameter's value."""
    return BrokenRule(field="hyperparameters", entry=name, value=value, reason=reason, next_step=next_step)


def missing(name: str, reason: str, allowed: str) -> BrokenRule:
    """Return the violation of a hyperparameter that a job must set."""
    return invalid(name, "", reason, f"Set {name} to {allowed}.")
