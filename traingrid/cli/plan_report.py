"""Plan report: prints a plan as tables and sentences."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from traingrid.cli.console import console
from traingrid.cli.export import Schema, sentences, write_rows
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

PLAN_ROWS = Schema(
    "line",
    {
        "line": "integer: The number of the line.",
        "name": "string: The job's name.",
        "region": "string: The chosen Region; null if the line could not be placed.",
        "instance_type": "string: The chosen instance type.",
        "instance_count": "integer: The number of instances.",
        "purchase_option": "string: on_demand, spot, or the ARN of a training plan.",
        "uri": "string: The S3 URI of the data in the Region.",
        "hours": "number: The expected hours of training.",
        "source": "string: The source of the hours.",
        "compute": "number: Dollars of all instances.",
        "data": "number: Dollars of transfer and storage.",
        "dollars": "number: The sum of both.",
        "verdict": "string: The reason for the choice, or for the missing place.",
    },
)


def plan_rows(plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield the choice for each line for an export; first the lines that have a place."""
    for one in plan.assignments:
        job = one.candidate.job
        yield {
            "line": job.line,
            "name": job.name,
            "region": one.pool.region,
            "instance_type": one.pool.instance_type,
            "instance_count": job.instance_count,
            "purchase_option": one.pool.option,
            "uri": one.place.uri,
            "hours": one.duration.hours,
            "source": one.duration.source,
            "compute": one.compute,
            "data": one.place.dollars,
            "dollars": one.dollars,
            "verdict": one.verdict,
        }
    for short in plan.shortages:
        line = short.candidate.line.number
        yield {**dict.fromkeys(PLAN_ROWS.keys), "line": line, "verdict": f"{short.reason} {short.next_step}".strip()}


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
    for region in sorted({one.pool.region for one in assignments}):
        here = [one for one in assignments if one.pool.region == region]
        kinds = Counter(_kind(one.pool) for one in here)
        table.add_row(
            region,
            str(len(here)),
            ", ".join(f"{number} x {kind}" for kind, number in sorted(kinds.items())),
            _hours(sum(one.instance_hours for one in here)),
            _dollars(one.compute for one in here),
            _dollars(one.place.dollars for one in here),
            _dollars(one.dollars for one in here),
        )
    return table


def _by_line(assignments: Iterable[Assignment]) -> Table:
    table = _table(_LINE_COLUMNS)
    for one in assignments:
        job = one.candidate.job
        instances = f"{job.instance_count} x {_kind(one.pool)}"
        hours = f"{_hours(one.duration.hours)} ({one.duration.source})"
        cells = (str(job.line), job.name, one.pool.region, instances, hours, f"${one.dollars:,.2f}", one.verdict)
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
    texts = [f"line {one.candidate.line.number} could not be placed: {one.reason}" for one in plan.shortages]
    more = [f"... and {len(texts) - _SHOWN_LINES} more"] if len(texts) > _SHOWN_LINES else []
    # The last step of a limit includes the instances that all lines before it lack.
    steps = {_limit_of(one.next_step): one.next_step for one in plan.shortages}
    return [*texts[:_SHOWN_LINES], *more, *(f"  {step}" for step in steps.values())]


def _limit_of(step: str) -> str:
    """Return a next step without its numbers, which identifies its limit."""
    before, sign, after = step.partition("--desired-value ")
    return before + after.partition(" ")[2] if sign else step


def _old_prices(plan: Plan, facts: Facts) -> list[str]:
    today = plan.options.now.date()
    used: dict[str, Price] = {}
    for one in plan.assignments:
        used[pool_text(one.pool.key)] = facts.prices[one.pool.key]
        if one.place.source:
            key = (one.place.source.region, one.place.region)
            used[f"transfer from {key[0]} to {key[1]}"] = facts.transfer[key]
    return [
        f"old price: {name} is of {price.as_of}, {counted((today - price.as_of).days, 'day')} ago"
        for name, price in sorted(used.items())
        if (today - price.as_of).days > OLD_DAYS
    ]


def _guesses(plan: Plan) -> list[str]:
    guessed = sum(one.duration.source == "a guess" for one in plan.assignments)
    if not guessed:
        return []
    text = f"{counted(guessed, 'duration')} of {len(plan.assignments)}: a guess, the max_runtime of grid.yaml;"
    return [f"{text} no past run has the recipe. Write estimated_runtime into the lines."]


def _skipped(plan: Plan) -> list[str]:
    skipped = Counter(name for one in plan.assignments for name in one.candidate.skipped)
    return [
        f"{name} was not considered for {counted(number, 'line')}: no past run shows the duration on it"
        for name, number in sorted(skipped.items())
    ]


def _total(plan: Plan) -> str:
    text = f"{counted(len(plan.assignments), 'job')}, ${plan.dollars:,.2f}"
    if plan.moves:
        copied = sum(one.place.dollars for one in plan.moves)
        text += f"; {counted(len(plan.moves), 'move')} of data for ${copied:,.2f}"
        if len({one.place.uri for one in plan.moves}) < len(plan.moves):
            once = f"${copied - plan.repeated_dollars:,.2f}, ${plan.dollars - plan.repeated_dollars:,.2f} in total"
            text += f", which counts a shared copy for each of its lines (each copy once: {once})"
    of = "cost, with penalties of lines that are not placed" if plan.shortages else "cost"
    return f"{text}; another plan could save at most {100 * plan.gap:.2f} % of the {of}"
