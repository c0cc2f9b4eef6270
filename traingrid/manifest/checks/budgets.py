"""Budget checks of a whole file: its budget is the same on all lines, enforceable, and enough for the estimates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from traingrid.job.backend_traits import TRAITS
from traingrid.manifest.errors import LineError, file_error
from traingrid.manifest.line import backends_of
from traingrid.text import counted

if TYPE_CHECKING:
    from traingrid.grid.model import GridSettings
    from traingrid.manifest.line import Line

_ROUNDING = 0.0001
"""The dollars by which the rounding of a plan may change the estimate of a line (traingrid/planner/plan_file.py)."""
_SHOWN = 20


def budget_of(lines: list[Line]) -> float | None:
    """Return the budget of a submission in dollars, or None if its lines have none."""
    budgets = (line.settings.budget_dollars for line in lines)
    return next((budget for budget in budgets if budget is not None), None)


def different_budgets(lines: list[Line]) -> list[LineError]:
    """Return an error if lines have different budgets, because a budget is that of the whole submission."""
    budgets = sorted({budget for line in lines if (budget := line.settings.budget_dollars) is not None})
    if len(budgets) < 2:
        return []
    reason = f"its lines have different values of budget_dollars, {budgets[0]:g} and {budgets[1]:g}"
    return file_error(reason, "A budget is that of the whole file: write the same on all lines.").errors


def unenforceable_budget(lines: list[Line], grid: GridSettings) -> list[LineError]:
    """Return the errors of a budget that the reconciler could not enforce, or that the estimates already exceed.

    The reconciler counts the dollars of a job by the price in its line, so a line without a price would train outside
    of the budget. A line that trains on EKS only has no price, and does not count.
    """
    budget = budget_of(lines)
    if budget is None:
        return []
    unpriced = [line for line in lines if line.settings.dollars_per_hour is None and _has_price(line, grid)]
    if unpriced:
        return [_no_price(line) for line in unpriced[:_SHOWN]]
    estimate = math.fsum(line.settings.estimated_dollars or 0.0 for line in lines)
    if estimate <= budget + _ROUNDING * len(lines):
        return []
    reason = (
        f"the estimates of {counted(len(lines), 'line')} are ${estimate:,.2f}, and budget_dollars is ${budget:,.2f}"
    )
    return file_error(reason, "Raise budget_dollars, or remove lines.").errors


def _has_price(line: Line, grid: GridSettings) -> bool:
    return any(TRAITS[name].has_prices for region in line.places for name in backends_of(line, region, grid))


def _no_price(line: Line) -> LineError:
    return LineError(
        line=line.number,
        field="dollars_per_hour",
        value="",
        reason="a file with budget_dollars requires the price of an instance-hour on every line",
        next_step="Write dollars_per_hour, or let `traingrid plan` write it.",
    )
