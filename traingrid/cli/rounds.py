"""`traingrid rounds`: trains one model on the data of several Regions, of which only weights leave their Region."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traingrid.api.control_plane import ControlPlane
from traingrid.api.rounds import open_rounds
from traingrid.api.rounds_estimate import rounds_estimate
from traingrid.api.rounds_timeline import timeline
from traingrid.cli.export import Output, output_option, sentence_printer
from traingrid.cli.rounds_table import ROUNDS, best_sentences, model_phrase, print_rounds
from traingrid.errors import interrupted
from traingrid.rounds.stopping import has_stopped, missing_sentence, stop_sentence
from traingrid.text import byte_size, counted, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from traingrid.api.rounds import OpenRounds
    from traingrid.rounds.rounds import RoundsProgress


@click.command()
@click.argument("spec", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--plan", is_flag=True, help="Only print the rounds so far, the next one and the cost; upload nothing.")
@output_option(ROUNDS)
@click.pass_obj
def rounds(grid_file: Path, spec: Path, *, plan: bool, output: Output) -> None:
    """Train one model on data of several Regions.

    In each round of SPEC, each Region trains the last global model on its own data, and a job merges their models. If
    the command is interrupted, its jobs continue, and the same command continues the rounds.
    """
    echo = sentence_printer(output)
    plane = ControlPlane.of(grid_file)
    opened = open_rounds(plane, spec, echo, partial(click.echo, err=True))
    if plan:
        _print_plan(plane, opened, output, echo)
        return
    try:
        opened.run(_changes(plane, echo))
    except KeyboardInterrupt:
        step = f"Continue the rounds: traingrid rounds {spec}. Cancel its jobs: traingrid cancel SUBMISSION."
        raise interrupted(step, "Interrupted. Submitted jobs continue.") from None
    state = opened.rounds.read()
    views = timeline(plane, state)
    print_rounds(opened.spec.name, views, output)
    echo(f"{byte_size(sum(view.bytes_across for view in views))} of weights crossed a border between Regions.")
    if text := missing_sentence(state.models, opened.spec.stop):
        echo(text)
    if opened.spec.stop and has_stopped(state.models, opened.spec.stop):
        echo(stop_sentence(state.models, opened.spec.stop))
    for sentence in best_sentences(opened.spec.name, views):
        echo(sentence)


def _changes(plane: ControlPlane, echo: Callable[[str], None]) -> Callable[[RoundsProgress], None]:
    """Return the function that prints a line for each job whose state has changed, and for each new global model."""
    printed: dict[str, str] = {}
    models: set[int] = set()

    def report(progress: RoundsProgress) -> None:
        for job in progress.jobs:
            text = f"{job.region} {job.name}: {job.state}"
            if printed.get(job.name) != text:
                printed[job.name] = text
                echo(printable(text))
        if {model.number for model in progress.state.models} > models:
            for view in timeline(plane, progress.state):
                if view.model and view.number not in models:
                    models.add(view.number)
                    echo(printable(f"round {view.number}: {model_phrase(view)}"))

    return report


def _print_plan(plane: ControlPlane, opened: OpenRounds, output: Output, echo: Callable[[str], None]) -> None:
    state = opened.rounds.read()
    views = timeline(plane, state)
    print_rounds(opened.spec.name, views, output)
    spec, regions = opened.spec, len(opened.rounds.lines)
    number = len(state.models) + 1
    if text := missing_sentence(state.models, spec.stop):
        echo(text)
    if spec.stop and has_stopped(state.models, spec.stop):
        echo(stop_sentence(state.models, spec.stop))
    elif number <= spec.rounds:
        echo(f"Round {number} of {spec.rounds} trains {counted(spec.epochs, 'epoch')} in {counted(regions, 'Region')}.")
        echo(f"A merge in {spec.merge.region} follows: {spec.outer.kind}.")
        for sentence in rounds_estimate(plane, opened, state, views).sentences():
            echo(sentence)
    echo("Nothing was written. Run the rounds without --plan.")
