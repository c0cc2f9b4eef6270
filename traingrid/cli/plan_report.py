"""Plan report: prints a plan as tables and sentences."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from traingrid.cli.columns import Column, Schema
from traingrid.cli.console import console
from traingrid.cli.export import sentence_printer, write_rows
from traingrid.cli.folded_table import folded_table
from traingrid.planner.pool_keys import SPOT, is_paid, plan_text, pool_text
from traingrid.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traingrid.cli.export import Output
    from traingrid.planner.choices import Pool
    from traingrid.planner.facts import Facts, Price
    from traingrid.planner.plan import Assignment, Plan
    from traingrid.planner.shortage import PlacementShortage

OLD_DAYS = 30
"""The age in days after which a price is named as old."""
_SHOWN_LINES = 200


def _instances(assignment: Assignment) -> str:
    return f"{assignment.candidate.job.instance_count} x {_kind(assignment.pool)}"


def _kind(pool: Pool) -> str:
    """Return the instance type with its purchase option, which is on demand if none is named."""
    if is_paid(pool.option):
        return f"{pool.instance_type}, {plan_text(pool.option)}"
    return f"{pool.instance_type} spot" if pool.option == SPOT else pool.instance_type


def _kinds(choices: Iterable[Assignment]) -> str:
    kinds = Counter(_kind(choice.pool) for choice in choices)
    return ", ".join(f"{number} x {kind}" for kind, number in sorted(kinds.items()))


def _dollars(amounts: Iterable[float]) -> str:
    return f"${sum(amounts):,.2f}"


def _hours(hours: float) -> str:
    return f"{hours:,.{1 if hours >= 1 else 2}f}"


def _duration(assignment: Assignment) -> str:
    return f"{_hours(assignment.duration.hours)} ({assignment.duration.source})"


PLAN_ROWS: Schema[Any] = Schema(
    "line",
    Column("line", "integer: The number of the line.", value=lambda choice: choice.candidate.job.line, heading="line"),
    Column("name", "string: The job's name.", value=lambda choice: choice.candidate.job.name, heading="job"),
    Column(
        "region",
        "string: The chosen Region; null if the line could not be placed.",
        value=lambda choice: choice.pool.region,
        heading="Region",
    ),
    Column("instance_type", "string: The chosen instance type.", value=lambda choice: choice.pool.instance_type),
    Column(
        "instance_count", "integer: The number of instances.", value=lambda choice: choice.candidate.job.instance_count
    ),
    Column(
        "purchase_option",
        "string: on_demand, spot, or the ARN of a training plan.",
        value=lambda choice: choice.pool.option,
    ),
    Column(help="string: The last three.", render=_instances, heading="instances"),
    Column("uri", "string: The S3 URI of the data in the Region.", value=lambda choice: choice.place.uri),
    Column(
        "hours",
        "number: The expected hours of training.",
        _duration,
        value=lambda choice: choice.duration.hours,
        heading="hours",
    ),
    Column("source", "string: The source of the hours.", value=lambda choice: choice.duration.source),
    Column("compute", "number: Dollars of all instances."),
    Column("data", "number: Dollars of transfer and storage.", value=lambda choice: choice.place.dollars),
    Column("dollars", "number: The sum of both.", lambda choice: f"${choice.dollars:,.2f}", heading="dollars"),
    Column("verdict", "string: The reason for the choice, or for the missing place.", heading="verdict"),
)
_REGION: list[Column[list[Assignment]]] = [
    Column(heading="Region", render=lambda choices: choices[0].pool.region),
    Column(heading="jobs", render=lambda choices: str(len(choices))),
    Column(heading="instances", render=_kinds),
    Column(heading="instance-hours", render=lambda choices: _hours(sum(choice.instance_hours for choice in choices))),
    Column(heading="compute", render=lambda choices: _dollars(choice.compute for choice in choices)),
    Column(heading="data", render=lambda choices: _dollars(choice.place.dollars for choice in choices)),
    Column(heading="total", render=lambda choices: _dollars(choice.dollars for choice in choices)),
]
"""The columns of the assignments of each Region."""


def _shortage_row(shortage: PlacementShortage) -> dict[str, Any]:
    """Return the row of a line without a place."""
    verdict = f"{shortage.reason} {shortage.next_step}".strip()
    return {**dict.fromkeys(PLAN_ROWS.names), "line": shortage.candidate.line.number, "verdict": verdict}


def report(plan: Plan, facts: Facts, output: Output = "table") -> None:
    """Print a plan.

    Args:
        output: The format of the choices; sentences are then on standard error.
    """
    echo = sentence_printer(output)
    if output == "table":
        _print_tables(plan)
    else:
        write_rows([*plan.assignments, *map(_shortage_row, plan.shortages)], PLAN_ROWS, output)
    for text in (
        *_shortages(plan),
        *_old_prices(plan, facts),
        *_guesses(plan),
        *_skipped_sentences(plan),
        _total(plan),
    ):
        echo(printable(text))


def _print_tables(plan: Plan) -> None:
    console().print(folded_table(_REGION, _regions(plan.assignments)))
    click.echo("")
    console().print(folded_table(PLAN_ROWS.columns, plan.assignments[:_SHOWN_LINES]))
    if len(plan.assignments) > _SHOWN_LINES:
        click.echo(f"... and {len(plan.assignments) - _SHOWN_LINES} more; --to FILE writes all of them")
    click.echo("")


def _regions(assignments: Sequence[Assignment]) -> list[list[Assignment]]:
    """Return the assignments of each Region."""
    regions = sorted({assignment.pool.region for assignment in assignments})
    return [[assignment for assignment in assignments if assignment.pool.region == region] for region in regions]


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
    price_by_source: dict[str, Price] = {}
    for assignment in plan.assignments:
        price_by_source[pool_text(assignment.pool.key)] = facts.prices[assignment.pool.key]
        if assignment.place.source:
            key = (assignment.place.source.region, assignment.place.region)
            price_by_source[f"transfer from {key[0]} to {key[1]}"] = facts.transfer[key]
    return [
        f"old price: {name} is of {price.as_of}, {counted((today - price.as_of).days, 'day')} ago"
        for name, price in sorted(price_by_source.items())
        if (today - price.as_of).days > OLD_DAYS
    ]


def _guesses(plan: Plan) -> list[str]:
    guessed = sum(assignment.duration.source == "a guess" for assignment in plan.assignments)
    if not guessed:
        return []
    text = f"{counted(guessed, 'duration')} of {len(plan.assignments)}: a guess, the max_runtime of grid.yaml;"
    return [f"{text} no past run has the recipe. Write estimated_runtime into the lines."]


def _skipped_sentences(plan: Plan) -> list[str]:
    skipped = Counter(name for assignment in plan.assignments for name in assignment.candidate.skipped)
    return [
        f"{name} was not considered for {counted(number, 'line')}: no past run shows the duration on it"
        for name, number in sorted(skipped.items())
    ]


def _total(plan: Plan) -> str:
    text = f"{counted(len(plan.assignments), 'job')}, ${plan.dollars:,.2f}"
    if plan.moves:
        copy_dollars = sum(move.place.dollars for move in plan.moves)
        text += f"; {counted(len(plan.moves), 'move')} of data for ${copy_dollars:,.2f}"
        if len({move.place.uri for move in plan.moves}) < len(plan.moves):
            total = (
                f"${copy_dollars - plan.repeated_dollars:,.2f}, ${plan.dollars - plan.repeated_dollars:,.2f} in total"
            )
            text += f", which counts a shared copy for each of its lines (each copy once: {total})"
    amount = "cost, with penalties of lines that are not placed" if plan.shortages else "cost"
    return f"{text}; another plan could save at most {100 * plan.gap:.2f} % of the {amount}"
