"""Rounds state: the rounds so far, computed from their journal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from traingrid.rounds.journal import Entry, GlobalModel, RoundLines, RoundMerge
from traingrid.submission.journal import Begun, Rejected, Submitted


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round.

    Attributes:
        number: Its number, from 1.
        entry: The number of the journal's entry with its lines.
        submission: The submission of its lines; empty before it is submitted.
        merge_submission: That of its merge.
        merge_entry: The number of the journal's entry with its merge.
        model: Its global model; None until it has one.
    """

    number: int
    entry: int
    lines: RoundLines
    submission: str = ""
    merge_entry: int = 0
    merge: RoundMerge | None = None
    merge_submission: str = ""
    model: GlobalModel | None = None


@dataclass(frozen=True, kw_only=True)
class RoundsState:
    """All rounds.

    Attributes:
        spec: The identity of the specification; None before the rounds begin.
    """

    spec: Mapping[str, Any] | None = None
    rounds: Mapping[int, Round] = field(default_factory=dict)

    @property
    def models(self) -> list[GlobalModel]:
        """The global models, in the order of the rounds."""
        return [part.model for part in self.rounds.values() if part.model]

    @property
    def current(self) -> Round | None:
        """The round without a global model; None if none has begun."""
        return next((part for part in self.rounds.values() if part.model is None), None)


def state_of(entries: Sequence[Entry]) -> RoundsState:
    """Return the state after all entries of a journal."""
    spec: Mapping[str, Any] | None = None
    rounds: dict[int, Round] = {}
    for number, entry in enumerate(entries):
        match entry:
            case Begun():
                spec = entry.spec
            case RoundLines():
                rounds[entry.number] = Round(number=entry.number, entry=number, lines=entry)
            case RoundMerge():
                rounds[entry.number] = replace(rounds[entry.number], merge=entry, merge_entry=number)
            case GlobalModel():
                rounds[entry.number] = replace(rounds[entry.number], model=entry)
            case Submitted():
                part = _round_of(entry, rounds)
                is_merge = entry.batch == part.merge_entry
                change = {"merge_submission" if is_merge else "submission": entry.submission}
                rounds[part.number] = replace(part, **change)  # type: ignore[arg-type]  # both are texts
            case Rejected():
                part = _round_of(entry, rounds)
                if entry.batch == part.merge_entry:
                    rounds[part.number] = replace(part, merge=None, merge_entry=0)
                else:
                    del rounds[part.number]
    return RoundsState(spec=spec, rounds=rounds)


def _round_of(entry: Submitted | Rejected, rounds: Mapping[int, Round]) -> Round:
    """Return the round whose lines or merge the intake has submitted or rejected."""
    return next(part for part in rounds.values() if entry.batch in (part.entry, part.merge_entry))
