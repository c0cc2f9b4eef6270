"""`traingrid rounds`: trains one model on the data of several Regions, of which only weights leave their Region."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traingrid.api.control_plane import ControlPlane
from traingrid.api.rounds import open_rounds
from traingrid.cli.console import console
from traingrid.cli.export import Output, output_option, sentence_printer, write_rows
from traingrid.cli.rounds_table import ROUNDS, round_rows, rounds_table
from traingrid.errors import interrupted
from traingrid.text import byte_size, counted, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from traingrid.api.rounds import OpenRounds, RoundsResult
    from traingrid.rounds.rounds import RoundsProgress
    from traingrid.rounds.state import RoundsState


@click.command()
@click.argument("spec", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--plan", is_flag=True, help="Only print the rounds so far and the next one; upload nothing.")
@output_option(ROUNDS)
@click.pass_obj
def rounds(grid_file: Path, spec: Path, *, plan: bool, output: Output) -> None:
    """Train one model on data of several Regions.

    In each round of SPEC, each Region trains the last global model on its own data, and a job merges their models. If
    the command is interrupted, its jobs continue, and the same command continues the rounds.
    """
    echo = sentence_printer(output)
    opened = open_rounds(ControlPlane.of(grid_file), spec, echo, partial(click.echo, err=True))
    if plan:
        _print_plan(opened, output, echo)
        return
    try:
        result = opened.run(_changes(echo))
    except KeyboardInterrupt:
        step = f"Continue the rounds: traingrid rounds {spec}. Cancel its jobs: traingrid cancel SUBMISSION."
        raise interrupted(step, "Interrupted. Submitted jobs continue.") from None
    _print_result(opened, result, output, echo)


def _changes(echo: Callable[[str], None]) -> Callable[[RoundsProgress], None]:
    """Return the function that prints a line for each job whose state has changed, and for each new global model."""
    printed: dict[str, str] = {}
    models: set[int] = set()

    def report(progress: RoundsProgress) -> None:
        for job in progress.jobs:
            text = f"{job.region} {job.name}: {job.state}"
            if printed.get(job.name) != text:
                printed[job.name] = text
                echo(printable(text))
        for row in round_rows(progress.state):
            if row.model and row.round not in models:
                models.add(row.round)
                echo(printable(f"round {row.round}: {row.summary}"))

    return report


def _print_plan(opened: OpenRounds, output: Output, echo: Callable[[str], None]) -> None:
    state = opened.rounds.read()
    _print_rows(opened, state, output)
    spec, regions = opened.spec, len(opened.rounds.lines)
    number = len(state.models) + 1
    if number <= spec.rounds:
        echo(f"Round {number} of {spec.rounds} trains {counted(spec.epochs, 'epoch')} in {counted(regions, 'Region')}.")
        echo(f"A merge in {spec.merge.region} follows: {spec.outer.kind}.")
    echo("Nothing was written. Run the rounds without --plan.")


def _print_result(opened: OpenRounds, result: RoundsResult, output: Output, echo: Callable[[str], None]) -> None:
    _print_rows(opened, opened.rounds.read(), output)
    crossed = sum(row.bytes_across for row in round_rows(opened.rounds.read()))
    echo(f"{byte_size(crossed)} of weights crossed a border between Regions.")
    submission, _, index = result.model.model.partition("/")
    echo(f"The global model: traingrid download {submission} {index}")


def _print_rows(opened: OpenRounds, state: RoundsState, output: Output) -> None:
    rows = round_rows(state)
    if output == "table":
        out = console()
        out.print(rounds_table(opened.spec.name, rows, out.width))
    else:
        write_rows(rows, ROUNDS, output)
