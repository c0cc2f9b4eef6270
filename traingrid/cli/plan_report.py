"""Plan report: prints a plan as tables and sentences."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from traingrid.cli.columns import Column, Schema
from traingrid.cli.console import console
from traingrid.cli.export import sentences, write_rows
from traingrid.planner.pool_keys import SPOT, is_paid, plan_text, pool_text
from traingrid.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from traingrid.cli.export import Output
    from traingrid.planner.choices import Pool
    from traingrid.planner.facts import Facts, Price
    from traingrid.planner.plan import Assignment, Plan

OLD_DAYS = 30
"""The age in days after which a price is named as old."""
_SHOWN_LINES = 200
_REGION_COLUMNS = ("Region", "jobs", "instances", "instance-hours", "compute", "data", "total")
_LINE_COLUMNS = ("line", "job", "Region", "instances", "hours", "dollars", "verdict")

PLAN_ROWS: Schema[Any] = Schema(
    "line",
    Column("line", "integer: The number of the line."),
    Column("name", "string: The job's name."),
    Column("region", "string: The chosen Region; null if the line could not be placed."),
    Column("instance_type", "string: The chosen instance type."),
    Column("instance_count", "integer: The number of instances."),
    Column("purchase_option", "string: on_demand, spot, or the ARN of a training plan."),
    Column("uri", "string: The S3 URI of the data in the Region."),
    Column("hours", "number: The expected hours of training."),
    Column("source", "string: The source of the hours."),
    Column("compute", "number: Dollars of all instances."),
    Column("data", "number: Dollars of transfer and storage."),
    Column("dollars", "number: The sum of both."),
    Column("verdict", "string: The reason for the choice, or for the missing place."),
)


def plan_rows(plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield the choice for each line for an export; first the lines that have a place."""
    for assignment in plan.assignments:
        job = assignment.candidate.job
        yield {
            "line": job.line,
            "name": job.name,
            "region": assignment.pool.region,
            "instance_type": assignment.pool.instance_type,
            "instance_count": job.instance_count,
            "purchase_option": assignment.pool.option,
            "uri": assignment.place.uri,
            "hours": assignment.duration.hours,
            "source": assignment.duration.source,
            "compute": assignment.compute,
            "data": assignment.place.dollars,
            "dollars": assignment.dollars,
            "verdict": assignment.verdict,
        }
    for short in plan.shortages:
        line = short.candidate.line.number
        yield {**dict.fromkeys(PLAN_ROWS.names), "line": line, "verdict": f"{short.reason} {short.next_step}".strip()}


def report(plan: Plan, facts: Facts, output: Output = "table") -> None:
    """Print a plan.

    Args:
        plan: The plan.
        facts: The facts that it used.
        output: The format of the choices; sentences are then on standard error.
    """
    echo = sentences(output)
    if output == "table":
        _print_tables(plan)
    else:
        write_rows(plan_rows(plan), PLAN_ROWS, output)
    for text in (*_shortages(plan), *_old_prices(plan, facts), *_guesses(plan), *_skipped(plan), _total(plan)):
        echo(printable(text))


def _print_tables(plan: Plan) -> None:
    console().print(_by_region(plan.assignments))
    click.echo("")
    console().print(_by_line(plan.assignments[:_SHOWN_LINES]))
    if len(plan.assignments) > _SHOWN_LINES:
        click.echo(f"... and {len(plan.assignments) - _SHOWN_LINES} more; --to FILE writes all of them")
    click.echo("")


def _by_region(assignments: Sequence[Assignment]) -> Table:
    table = _table(_REGION_COLUMNS)
    for region in sorted({assignment.pool.region for assignment in assignments}):
        of_region = [assignment for assignment in assignments if assignment.pool.region == region]
        kinds = Counter(_kind(assignment.pool) for assignment in of_region)
        table.add_row(
            region,
            str(len(of_region)),
            ", ".join(f"{number} x {kind}" for kind, number in sorted(kinds.items())),
            _hours(sum(assignment.instance_hours for assignment in of_region)),
            _dollars(assignment.compute for assignment in of_region),
            _dollars(assignment.place.dollars for assignment in of_region),
            _dollars(assignment.dollars for assignment in of_region),
        )
    return table


def _by_line(assignments: Iterable[Assignment]) -> Table:
    table = _table(_LINE_COLUMNS)
    for assignment in assignments:
        job = assignment.candidate.job
        instances = f"{job.instance_count} x {_kind(assignment.pool)}"
        hours = f"{_hours(assignment.duration.hours)} ({assignment.duration.source})"
        cells = (
            str(job.line),
            job.name,
            assignment.pool.region,
            instances,
            hours,
            f"${assignment.dollars:,.2f}",
            assignment.verdict,
        )
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table


def _hours(hours: float) -> str:
    return f"{hours:,.{1 if hours >= 1 else 2}f}"


def _kind(pool: Pool) -> str:
    """Return the instance type with its purchase option, which is on demand if none is named."""
    option = f", {plan_text(pool.option)}" if is_paid(pool.option) else " spot" * (pool.option == SPOT)
    return f"{pool.instance_type}{option}"


def _table(columns: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in columns:
        table.add_column(heading, overflow="fold")
    return table


def _dollars(amounts: Iterable[float]) -> str:
    return f"${sum(amounts):,.2f}"


def _shortages(plan: Plan) -> list[str]:
    """Return a sentence for each line that could not be placed, and each step to raise a limit once."""
    texts = [
        f"line {shortage.candidate.line.number} could not be placed: {shortage.reason}" for shortage in plan.shortages
    ]
    more = [f"... and {len(texts) - _SHOWN_LINES} more"] if len(texts) > _SHOWN_LINES else []
    # The last step of a limit includes the instances that all lines before it lack.
    steps = {_limit_of(shortage.next_step): shortage.next_step for shortage in plan.shortages}
    return [*texts[:_SHOWN_LINES], *more, *(f"  {step}" for step in steps.values())]


def _limit_of(step: str) -> str:
    """Return a next step without its numbers, which identifies its limit."""
    before, sign, after = step.partition("--desired-value ")
    return before + after.partition(" ")[2] if sign else step


def _old_prices(plan: Plan, facts: Facts) -> list[str]:
    today = plan.options.now.date()
    used: dict[str, Price] = {}
    for assignment in plan.assignments:
        used[pool_text(assignment.pool.key)] = facts.prices[assignment.pool.key]
        if assignment.place.source:
            key = (assignment.place.source.region, assignment.place.region)
            used[f"transfer from {key[0]} to {key[1]}"] = facts.transfer[key]
    return [
        f"old price: {name} is of {price.as_of}, {counted((today - price.as_of).days, 'day')} ago"
        for name, price in sorted(used.items())
        if (today - price.as_of).days > OLD_DAYS
    ]


def _guesses(plan: Plan) -> list[str]:
    guessed = sum(assignment.duration.source == "a guess" for assignment in plan.assignments)
    if not guessed:
        return []
    text = f"{counted(guessed, 'duration')} of {len(plan.assignments)}: a guess, the max_runtime of grid.yaml;"
    return [f"{text} no past run has the recipe. Write estimated_runtime into the lines."]


def _skipped(plan: Plan) -> list[str]:
    skipped = Counter(name for assignment in plan.assignments for name in assignment.candidate.skipped)
    return [
        f"{name} was not considered for {counted(number, 'line')}: no past run shows the duration on it"
        for name, number in sorted(skipped.items())
    ]


def _total(plan: Plan) -> str:
    text = f"{counted(len(plan.assignments), 'job')}, ${plan.dollars:,.2f}"
    if plan.moves:
        copied = sum(move.place.dollars for move in plan.moves)
        text += f"; {counted(len(plan.moves), 'move')} of data for ${copied:,.2f}"
        if len({move.place.uri for move in plan.moves}) < len(plan.moves):
            once = f"${copied - plan.repeated_dollars:,.2f}, ${plan.dollars - plan.repeated_dollars:,.2f} in total"
            text += f", which counts a shared copy for each of its lines (each copy once: {once})"
    of = "cost, with penalties of lines that are not placed" if plan.shortages else "cost"
    return f"{text}; another plan could save at most {100 * plan.gap:.2f} % of the {of}"
