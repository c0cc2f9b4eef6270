"""Rounds table: formats rounds as a table that fits the terminal, and as rows for export."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid.cli.columns import Column, Schema
from traingrid.cli.fitted_table import fitted_table
from traingrid.rounds.borders import crossings
from traingrid.text import byte_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.cli.fitted_table import FittedTable
    from traingrid.rounds.state import Round, RoundsState

_METRIC, _BEST = "validation_top1", "best_part_top1"
"""The metrics of a merge (training_container/merge/evaluation.py)."""


@dataclass(frozen=True, kw_only=True)
class RoundRow:
    """A round, as tables and exports show it; the attributes are those of `ROUNDS`."""

    round: int
    state: str
    submission: str
    merge: str
    model: str
    value: float | None
    best_region_value: float | None
    regions: list[str]
    left_out: list[str]
    bytes_across: int

    @property
    def summary(self) -> str:
        """The global model in a phrase."""
        value = f"{_METRIC} {self.value:.4g}, " if self.value is not None else ""
        without = f", without {'; '.join(self.left_out)}" if self.left_out else ""
        return f"{value}models of {', '.join(self.regions)}{without}"


ROUNDS: Schema[RoundRow] = Schema(
    "round",
    Column("round", "integer: The number of the round, from 1.", heading="round", right=True, rank=0),
    Column("state", "string: Training, Merging or Completed.", heading="state", rank=1),
    Column(
        "value",
        "number: validation_top1 of the global model.",
        lambda row: _text(row.value),
        rank=2,
        heading="top1",
        right=True,
    ),
    Column(
        "best_region_value",
        "number: That of the best Region's model.",
        lambda row: _text(row.best_region_value),
        rank=3,
        heading="best Region",
        right=True,
    ),
    Column(
        "regions",
        "array of strings: The Regions whose models were merged.",
        lambda row: ", ".join(row.regions),
        rank=4,
        heading="Regions",
    ),
    Column(
        "left_out",
        "array of strings: The Regions without a contribution, with the reason.",
        lambda row: "; ".join(row.left_out),
        rank=5,
        heading="left out",
    ),
    Column(
        "bytes_across",
        "integer: The bytes of weights that crossed a border between Regions.",
        lambda row: byte_size(row.bytes_across),
        rank=6,
        heading="across borders",
        right=True,
    ),
    Column("submission", "string: The submission of the lines.", heading="submission", rank=7),
    Column("merge", "string: The submission of the merge.", heading="merge", rank=8),
    Column("model", "string: The job of the global model, SUBMISSION/INDEX."),
)


def round_rows(state: RoundsState) -> list[RoundRow]:
    """Return the rows of rounds, in their order."""
    bytes_by_round = dict.fromkeys(state.rounds, 0)
    for crossing in crossings(state):
        bytes_by_round[crossing.round] += crossing.bytes
    return [_row(part, bytes_by_round[part.number]) for part in state.rounds.values()]


def rounds_table(name: str, rows: Sequence[RoundRow], width: int) -> FittedTable:
    """Return the table of rounds, one row each, with the columns that fit.

    Args:
        name: The name of the rounds.
        width: The width of the terminal in characters.
    """
    columns = [column for column in ROUNDS.columns if column.heading]
    return fitted_table(f"rounds {name}", columns, rows, width, min_columns=3)


def _row(part: Round, bytes_across: int) -> RoundRow:
    merge, model = part.merge, part.model
    metrics = model.metrics if model else {}
    return RoundRow(
        round=part.number,
        state="Completed" if model else "Merging" if merge else "Training",
        submission=part.submission,
        merge=part.merge_submission,
        model=model.model if model else "",
        value=metrics.get(_METRIC),
        best_region_value=metrics.get(_BEST),
        regions=[contribution.region for contribution in merge.contributions] if merge else [],
        left_out=[f"{region.region} ({region.reason})" for region in merge.left_out] if merge else [],
        bytes_across=bytes_across,
    )


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
