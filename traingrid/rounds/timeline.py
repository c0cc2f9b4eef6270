"""Timeline: the training of each Region in each round, with its validation, its bytes and its cost, for people."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import zip_longest
from statistics import fmean
from typing import TYPE_CHECKING, Protocol

from traingrid.rounds.borders import crossings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from traingrid.rounds.borders import Crossing
    from traingrid.rounds.journal import GlobalModel
    from traingrid.rounds.state import Round, RoundsState

TOP1 = "validation_top1"
GLOBAL_TOP1 = "global_validation_top1"
"""The metric with which a script reports the validation_top1 of the global model with which its round begins."""
_LOSS, _BEST, _OF_PART = "validation_loss", "best_part_top1", "part_{number}_top1"
"""The metrics of a merge (training_container/merge/evaluation.py)."""
_PENDING = "Pending"


@dataclass(frozen=True, kw_only=True)
class ObservedJob:
    """A job of a round, as the ledger has it.

    Attributes:
        seconds: The seconds of its training so far.
        dollars: Its cost so far; None if its price is not known.
    """

    state: str
    seconds: float
    metrics: Mapping[str, float]
    dollars: float | None


class Observer(Protocol):
    """Facts about the jobs and copies of rounds that their journal does not have."""

    def job(self, submission: str, index: int) -> ObservedJob | None:
        """Return a job; None if it cannot be read."""

    def transfer_dollars(self, crossing: Crossing) -> float | None:
        """Return the price of a copy between Regions; None if it is not known."""


@dataclass(frozen=True, kw_only=True)
class RegionPart:
    """A job of a round: the training of a Region, or the merge.

    Attributes:
        job: SUBMISSION/INDEX; empty before it is submitted.
        seconds: The seconds of its training so far.
        top1: The validation_top1 of its model on the data of the merge.
        own_top1: The last one that the training has reported, on the data of its Region.
        global_top1: That of the global model with which the training began, as a script has reported it, on the same.
        bytes_across: The bytes of weights that crossed a border for it, in both directions.
        dollars: The cost of its instances so far; None if the price is not known.
        left_out: Why its model was not merged; empty if it was, or may be.
    """

    region: str
    job: str
    state: str
    seconds: float = 0.0
    top1: float | None = None
    own_top1: float | None = None
    global_top1: float | None = None
    bytes_across: int = 0
    dollars: float | None = None
    left_out: str = ""


@dataclass(frozen=True, kw_only=True)
class RoundView:
    """A round.

    Attributes:
        state: Training, Merging or Completed.
        submission: The submission of its lines.
        merge: The submission of its merge; empty before that.
        model: The job of its global model, SUBMISSION/INDEX; empty before it has one.
        top1: The validation_top1 of the global model: that of the merge, or the mean of those that scripts of the next
            round report
            once all Regions have, each on its own data.
        best_region_top1: The validation_top1 of the best Region's model, on the same data.
        parts: The trainings of the Regions, in the order of the lines.
        merging: The merge; None before it is submitted.
        bytes_across: The bytes of weights that crossed a border.
        dollars: The cost of instances so far; None if a price is not known.
        transfer_dollars: The cost of copies between Regions; None if a price is not known.
    """

    number: int
    state: str
    submission: str
    merge: str
    model: str
    top1: float | None
    loss: float | None
    best_region_top1: float | None
    parts: tuple[RegionPart, ...]
    merging: RegionPart | None
    bytes_across: int
    dollars: float | None
    transfer_dollars: float | None


def round_views(state: RoundsState, observer: Observer) -> list[RoundView]:
    """Return the rounds in their order."""
    crossings_by_round: dict[int, list[Crossing]] = {number: [] for number in state.rounds}
    for crossing in crossings(state):
        crossings_by_round[crossing.round].append(crossing)
    views = [_view(part, crossings_by_round[number], observer) for number, part in state.rounds.items()]
    return [_with_reported(view, following) for view, following in zip_longest(views, views[1:])]


def _with_reported(view: RoundView, following: RoundView | None) -> RoundView:
    """Return a round; of a merge without an evaluation, with the mean of the values that the next round reports.

    It has none before all Regions have reported: the mean of some Regions cannot be compared with that of others.
    """
    values = [part.global_top1 for part in following.parts if part.global_top1 is not None] if following else []
    is_complete = bool(following and values) and len(values) == len(following.parts if following else ())
    return replace(view, top1=fmean(values)) if is_complete and view.model and view.top1 is None else view


def best_round(views: Iterable[RoundView]) -> RoundView | None:
    """Return the round whose global model has the highest validation_top1, of equal ones the first; None without one.

    All global models are evaluated on the same data: that of the merge, or of all Regions (`data_of`).
    """
    measured = [view for view in views if view.top1 is not None]
    return max(measured, key=lambda view: view.top1 or 0.0, default=None)


def data_of(views: Iterable[RoundView]) -> str:
    """Return the data on which the global models are evaluated, in words: scripts evaluate them, or the merge."""
    are_scripts = any(part.global_top1 is not None for view in views for part in view.parts)
    return "the data of each Region, in the mean" if are_scripts else "the data of the merge"


def model_commands(name: str, view: RoundView, command: str = "traingrid") -> list[str]:
    """Return the commands that download and register the global model of a round.

    Args:
        name: The name of the rounds, from which the model group follows.
        command: The beginning of the commands.
    """
    job = view.model.replace("/", " ")
    # SageMaker allows letters, digits and hyphens in the name of a group
    # (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateModelPackageGroup.html).
    group = re.sub("[^A-Za-z0-9]+", "-", name).strip("-") or "rounds"
    return [f"{command} download {job}", f"{command} register {job} --group {group}"]


def _view(part: Round, crossed: list[Crossing], observer: Observer) -> RoundView:
    model = part.model
    metrics = model.metrics if model else {}
    parts = tuple(_region_parts(part, crossed, observer))
    merging = _merging(part, observer)
    return RoundView(
        number=part.number,
        state="Completed" if model else "Merging" if part.merge else "Training",
        submission=part.submission,
        merge=part.merge_submission,
        model=model.model if model else "",
        top1=metrics.get(TOP1),
        loss=metrics.get(_LOSS),
        best_region_top1=metrics.get(_BEST),
        parts=parts,
        merging=merging,
        bytes_across=sum(crossing.bytes for crossing in crossed),
        dollars=_sum(job.dollars for job in (*parts, *([merging] if merging else []))),
        transfer_dollars=_sum(observer.transfer_dollars(crossing) for crossing in crossed),
    )


def _region_parts(part: Round, crossed: list[Crossing], observer: Observer) -> Iterator[RegionPart]:
    """Yield the trainings of the Regions."""
    top1s = _top1_by_index(part, part.model)
    reasons = {region.index: region.reason for region in part.merge.left_out} if part.merge else {}
    bytes_by_region: Counter[str] = Counter()
    for crossing in crossed:
        bytes_by_region[crossing.region] += crossing.bytes
    for index, region in enumerate(part.lines.regions):
        job = observer.job(part.submission, index) if part.submission else None
        yield RegionPart(
            region=region,
            job=f"{part.submission}/{index}" if part.submission else "",
            state=job.state if job else _PENDING,
            seconds=job.seconds if job else 0.0,
            top1=top1s.get(index),
            own_top1=_finite(job, TOP1),
            global_top1=_finite(job, GLOBAL_TOP1),
            bytes_across=bytes_by_region.pop(region, 0),  # the jobs of a Region share a copy of the global model
            dollars=job.dollars if job else None,
            left_out=reasons.get(index, ""),
        )


def _finite(job: ObservedJob | None, metric: str) -> float | None:
    """Return a metric of a job; None if it has none, or no number: JSON has no form for those that are not finite."""
    value = job.metrics.get(metric) if job else None
    return value if value is not None and math.isfinite(value) else None


def _top1_by_index(part: Round, model: GlobalModel | None) -> dict[int, float]:
    """Return the validation_top1 of the merged models on the data of the merge, by the index of their line."""
    if part.merge is None or model is None:
        return {}
    names = {
        contribution.index: _OF_PART.format(number=number)
        for number, contribution in enumerate(part.merge.contributions)
    }
    return {index: model.metrics[name] for index, name in names.items() if name in model.metrics}


def _merging(part: Round, observer: Observer) -> RegionPart | None:
    """Return the merge of a round; None before it is submitted."""
    if part.merge is None or not part.merge_submission:
        return None
    job = observer.job(part.merge_submission, 0)
    return RegionPart(
        region=part.merge.region,
        job=f"{part.merge_submission}/0",
        state=job.state if job else _PENDING,
        seconds=job.seconds if job else 0.0,
        top1=part.model.metrics.get(TOP1) if part.model else None,
        dollars=job.dollars if job else None,
    )


def _sum(dollars: Iterable[float | None]) -> float | None:
    values = list(dollars)
    prices = [value for value in values if value is not None]
    return sum(prices) if len(prices) == len(values) else None
