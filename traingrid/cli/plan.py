"""`traingrid plan`: chooses Region, instance type and purchase option for the lines of a manifest."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traingrid.api.deployed import find_deployment
from traingrid.api.submit import parsed, read_manifest, submit_content
from traingrid.cli.catalog import no_sync_option, parameters_option, url_option
from traingrid.cli.export import output_option, sentence_printer
from traingrid.cli.installed import PLAN, require_extra
from traingrid.cli.manifest import SQL_FILE, queried, sql_of, synced_catalog
from traingrid.cli.plan_report import PLAN_ROWS, report
from traingrid.cli.submit import PRINTING_PROGRESS, SUBMISSION_ROWS, print_submission
from traingrid.errors import UsageError
from traingrid.manifest.checks.budgets import budget_of
from traingrid.manifest.hardware_warnings import line_warnings, warning_sentences
from traingrid.manifest.problem import RefusedError
from traingrid.manifest.rows import Row, Rows
from traingrid.manifest.values import moment
from traingrid.text import counted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from traingrid.catalog.database import Catalog
    from traingrid.cli.export import Output
    from traingrid.grid.deployment import Deployment
    from traingrid.manifest.line import Line
    from traingrid.planner.plan import Plan

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_SHOWN_CHANGES = 10
_COMPARED_LINES = 500
"""The maximum number of lines for which a grid without moves also plans with them, to print their savings."""


@dataclass(frozen=True, kw_only=True)
class _Source:
    """The lines to plan: a manifest, or a query."""

    manifest: Path | None
    sql: Path | None
    query: str | None
    parameters: tuple[str, ...]


@click.command()
@click.argument("manifest", required=False, type=_FILE)
@click.option("--sql", "sql", type=SQL_FILE, help="Plan the lines of a SELECT in a file; - for standard input.")
@click.option("--query", help="Plan the lines of a query that is part of traingrid.")
@parameters_option
@click.option("--budget", type=click.FloatRange(0, min_open=True), help="Budget of all lines, in US dollars.")
@click.option("--finish-by", help="Deadline of lines without finish_by [default: in seven days].")
@click.option("--accelerators", type=click.IntRange(1), help="Accelerators that may be in use at once.")
@click.option("--no-moves", is_flag=True, help="Do not copy data to other Regions.")
@click.option("--to", "file", type=click.Path(dir_okay=False, path_type=Path), help="Also write the plan to this file.")
@click.option("--apply", "applied", type=_FILE, help="Submit exactly the jobs of this plan.")
@output_option(PLAN_ROWS, SUBMISSION_ROWS)
@no_sync_option
@url_option
@click.pass_obj
def plan(  # noqa: PLR0913  # an option each
    grid_file: Path,
    *,
    manifest: Path | None,
    sql: Path | None,
    query: str | None,
    parameters: tuple[str, ...],
    budget: float | None,
    finish_by: str | None,
    accelerators: int | None,
    no_moves: bool,
    file: Path | None,
    applied: Path | None,
    no_sync: bool,
    url: str | None,
    output: Output,
) -> None:
    """Choose the cheapest Regions for jobs.

    Chooses Region, instance type and purchase option for each line of MANIFEST or of a query, by the prices, quotas,
    replicas and past runs in the catalog. Submits nothing, unless --apply is given.
    """
    require_extra("plan", PLAN)
    source = _Source(manifest=manifest, sql=sql, query=query, parameters=parameters)
    _check_options(source, applied, file)
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    end = _time(finish_by) if finish_by else now + timedelta(days=7)
    database = synced_catalog(grid_file, url, no_sync=no_sync)
    deployment = find_deployment(grid_file)
    if applied:
        _apply(applied, database, deployment, output)
        return
    from traingrid.planner.candidates import Options, candidates
    from traingrid.planner.facts import read_facts
    from traingrid.planner.plan import plan_of
    from traingrid.planner.plan_file import written

    lines, values = _lines(source, database, deployment, to_file=file is not None)
    options = Options(
        now=now,
        finish_by=end,
        budget=budget or budget_of(lines) or math.inf,
        accelerators=math.inf if accelerators is None else accelerators,
        moves=not no_moves,
    )
    facts = read_facts(database)
    chosen_plan = plan_of(candidates(lines, values, facts, deployment, options), facts, options)
    report(chosen_plan, facts, output)
    if not deployment.grid.moves and options.moves and len(lines) <= _COMPARED_LINES:
        moving = replace(deployment, grid=deployment.grid.model_copy(update={"moves": True}))
        _print_savings(chosen_plan, plan_of(candidates(lines, values, facts, moving, options), facts, options), output)
    if file:
        file.write_bytes(written(chosen_plan, facts))
        sentence_printer(output)(
            f"{file}: {counted(len(chosen_plan.assignments), 'job')}. Submit it: traingrid plan --apply {file}"
        )


def _print_savings(chosen: Plan, moving: Plan, output: Output) -> None:
    """Print the dollars that moves would save, if the grid allowed them."""
    saved = chosen.dollars - moving.dollars
    if moving.moves and len(moving.shortages) == len(chosen.shortages) and saved > 0:
        moves = counted(len(moving.moves), "move")
        sentence_printer(output)(f"With `moves: true` in grid.yaml, {moves} of data would save ${saved:,.2f}.")


def _check_options(source: _Source, applied: Path | None, file: Path | None) -> None:
    sources = [value for value in (source.manifest, source.sql, source.query, applied) if value is not None]
    if len(sources) != 1:
        text = "Give one of MANIFEST, --sql FILE, --query NAME and --apply FILE."
        raise UsageError(text, "For example: traingrid plan manifest.csv --to plan.jsonl.")
    if applied and file:
        raise UsageError("--to and --apply cannot be combined.", "Write the plan first, and apply the file then.")


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(moment(text))
    except RefusedError as error:
        raise UsageError(f"--finish-by {text} {error.reason}.", error.next_step) from None


def _lines(
    source: _Source, database: Catalog, deployment: Deployment, *, to_file: bool
) -> tuple[list[Line], Mapping[int, Mapping[str, Any]]]:
    """Return the validated lines, and the values of each by line number."""
    if source.manifest:
        lines, packed = read_manifest(source.manifest, deployment, to_plan=True)
        content = packed.content
        if packed.sources and to_file:
            text = f"{source.manifest} has local source folders, which a plan file cannot contain."
            raise UsageError(text, "Write the s3:// URI that `traingrid submit --plan` prints, after an upload.")
    else:
        content = queried(database, sql_of(source.sql, source.query), source.parameters)[0].encode()
        lines = parsed(Path("query"), content, deployment, to_plan=True)
    rows = Rows(chunks=[content])
    return lines, {row.number: row.values for row in rows if isinstance(row, Row)}


def _apply(file: Path, database: Catalog, deployment: Deployment, output: Output) -> None:
    """Submit the jobs of a plan file.

    Raises:
        UsageError: The file is not a plan or was edited, or its facts have changed.
        TraingridError: The manifest is rejected, or AWS does not answer.
    """
    from traingrid.planner.changes import changes
    from traingrid.planner.facts import read_facts
    from traingrid.planner.plan_file import read

    planned = read(file.read_bytes(), str(file))
    differences = list(changes(planned, read_facts(database), datetime.now(UTC)))
    if differences:
        more = [f"and {len(differences) - _SHOWN_CHANGES} more"] if len(differences) > _SHOWN_CHANGES else []
        text = "; ".join([*differences[:_SHOWN_CHANGES], *more])
        raise UsageError(f"{file} is out of date: {text}.", "Nothing was submitted. Plan again.")
    if not planned.lines:
        raise UsageError(f"{file} has no jobs.", "Raise the limits that it names, and plan again.")
    if planned.header.unplaced:
        sentence_printer(output)(
            f"{counted(planned.header.unplaced, 'line')} could not be placed and will not be submitted."
        )
    name = Path(f"plan-{planned.sha256[:8]}.jsonl")
    lines = parsed(name, planned.manifest, deployment)  # nothing is uploaded for a manifest that will be rejected
    for sentence in warning_sentences(
        (planned.original_line(line.number), line_warnings(line, deployment.grid)) for line in lines
    ):
        click.echo(sentence, err=True)
    progress = replace(PRINTING_PROGRESS, announce=sentence_printer(output))
    print_submission(submit_content(name, planned.manifest, deployment, progress), output)
