"""`traingrid sweep`: trains one model with many hyperparameters, and prints the best trial."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from traingrid.api.control_plane import ControlPlane
from traingrid.api.sweep import OpenSweep, SweepResult, open_sweep
from traingrid.cli.console import console
from traingrid.cli.export import Output, output_option, sentence_printer, write_rows
from traingrid.cli.sweep_table import PLANNED, TRIALS, TrialRow, sweep_table, trial_rows
from traingrid.errors import interrupted
from traingrid.sweep.state import best_first
from traingrid.sweep.sweep import SweepProgress
from traingrid.sweep.trial_lines import name_of
from traingrid.text import counted, printable

_FRAME = 4
"""Lines for the title, the headings and the line below the table, and one that stays free."""


@click.command()
@click.argument("spec", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--plan", is_flag=True, help="Only print the next trials; upload nothing.")
@output_option(TRIALS, PLANNED)
@click.pass_obj
def sweep(grid_file: Path, spec: Path, *, plan: bool, output: Output) -> None:
    """Search the best hyperparameters.

    Trains the lines of SPEC with different hyperparameters, and prints the best trial. If the command is interrupted,
    its trials continue, and the same command continues the sweep.
    """
    opened = open_sweep(ControlPlane.of(grid_file), spec, sentence_printer(output), partial(click.echo, err=True))
    if plan:
        _print_plan(opened, output)
        return
    try:
        result = _run(opened, output)
    except KeyboardInterrupt:
        step = f"Continue the sweep: traingrid sweep {spec}. Cancel its trials: traingrid cancel SUBMISSION."
        raise interrupted(step, "Interrupted. Submitted trials continue.") from None
    _print_result(opened, result, spec, output)


def _run(opened: OpenSweep, output: Output) -> SweepResult:
    """Run the sweep with a live table in a terminal, and otherwise with a line for each change of a trial."""
    out = console()
    if output == "table" and out.is_terminal:
        with Live(console=out, auto_refresh=False, transient=True) as live:
            return opened.run(lambda progress: live.update(_live(opened, progress, out), refresh=True))
    return opened.run(_changes(opened, sentence_printer(output)))


def _live(opened: OpenSweep, progress: SweepProgress, out: Console) -> Group:
    """Return the live table: the open trials first, then the ended ones, as many as fit the terminal."""
    trials = sorted(progress.state.trials.values(), key=lambda trial: trial.ended is not None)  # stable
    fitting = trials[: max(out.height - _FRAME, 1)]
    rows = trial_rows(opened.spec, fitting, progress.jobs)
    ended_trials = len(trials) - len(progress.state.open)
    text = f"{ended_trials} of {counted(opened.spec.number_of_trials, 'trial')} ended, {len(progress.state.open)} open"
    more = f"; {len(trials) - len(fitting)} not shown" if len(trials) > len(fitting) else ""
    return Group(sweep_table(opened.spec, rows, out.width), Text(text + more, style="italic"))


def _changes(opened: OpenSweep, echo: Callable[[str], None]) -> Callable[[SweepProgress], None]:
    """Return the function that prints a line for each trial whose state or Region has changed."""
    printed: dict[int, str] = {}
    metric = opened.spec.objective.metric

    def report(progress: SweepProgress) -> None:
        for row in trial_rows(opened.spec, list(progress.state.trials.values()), progress.jobs):
            text = f"{row.region} {row.name}: {row.state}"
            if printed.get(row.trial) != text:
                printed[row.trial] = text
                echo(printable(text + (f", {metric} {row.value:g}" if row.value is not None else "")))

    return report


def _print_plan(opened: OpenSweep, output: Output) -> None:
    planned_trials = [
        TrialRow(
            trial=trial.number,
            name=name_of(opened.spec, trial.number),
            region=trial.region,
            hyperparameters=trial.parameters,
        )
        for trial in opened.sweep.next_trials()
    ]
    echo = sentence_printer(output)
    if output == "table":
        out = console()
        out.print(sweep_table(opened.spec, planned_trials, out.width))
    else:
        write_rows(planned_trials, PLANNED, output)
    total = counted(opened.spec.number_of_trials, "trial")
    echo(
        f"{total}, at most {opened.spec.parallel} at the same time. "
        f"The next step submits {len(planned_trials)} of them."
    )
    echo("Nothing was written. Run the sweep without --plan.")


def _print_result(opened: OpenSweep, result: SweepResult, spec: Path, output: Output) -> None:
    echo = sentence_printer(output)
    trials = best_first(result.trials, opened.spec.objective) if output == "table" else result.trials
    rows = trial_rows(opened.spec, trials, {}, result.best)
    if output == "table":
        out = console()
        out.print(sweep_table(opened.spec, rows, out.width))
    else:
        write_rows(rows, TRIALS, output)
    if result.is_out_of_budget:
        number = f"{len(rows)} of {counted(opened.spec.number_of_trials, 'trial')}"
        echo(f"The trials have cost the budget of ${opened.spec.budget_dollars:,.2f}, which was enough for {number}.")
        echo("To continue the sweep, increase budget_dollars.")
    (best,) = (row for row in rows if row.best)
    parameters = ", ".join(f"{name} {value}" for name, value in best.hyperparameters.items())
    echo(printable(f"best: trial {best.trial} in {best.region}, {result.metric} {result.value:g} ({parameters})"))
    echo(f"Its model: traingrid download {best.submission} {best.index}")
    target = spec.with_name(f"{result.name}-best.jsonl")
    target.write_text(result.manifest)
    echo(printable(f"To train it longer: traingrid submit {target}"))
    if not opened.spec.final:
        echo("Before, change for example its number of epochs there, or set `final` in the specification.")
