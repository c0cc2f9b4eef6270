"""`traingrid pause` and `traingrid resume`: switches the launching of training jobs off and on."""

from pathlib import Path

import click

from traingrid.api.control_plane import ControlPlane
from traingrid.cli.columns import Column, Schema
from traingrid.cli.export import Output, output_option, sentence_printer, write_rows
from traingrid.cli.status_table import paused_sentence
from traingrid.ledger.grid_items import Pause

_ROWS: Schema[Pause | None] = Schema(
    "grid, always one",
    Column("launching", "boolean: Whether training jobs are launched.", value=lambda pause: pause is None),
    Column(
        "since",
        "string: The time at which the pause began, in ISO 8601; empty without one.",
        value=lambda pause: pause.at if pause else "",
    ),
    Column("by", "string: The user who paused.", value=lambda pause: pause.by if pause else ""),
    Column("reason", "string: The reason.", value=lambda pause: pause.reason if pause else ""),
)


@click.command()
@click.option("--reason", required=True, help="Reason, shown by every waiting job.")
@output_option(_ROWS)
@click.pass_obj
def pause(grid_file: Path, reason: str, *, output: Output) -> None:
    """Stop launching training jobs.

    Holds for the whole grid. Submitted jobs wait until `traingrid resume`. Running training jobs continue;
    `traingrid cancel` stops them. A creation request that was sent before the pause still takes effect.
    """
    plane = _set(grid_file, allowed=False, reason=reason)
    recorded_pause = plane.ledger.pause()
    write_rows([recorded_pause], _ROWS, output)
    echo = sentence_printer(output)
    if recorded_pause:
        echo(paused_sentence(recorded_pause))
    echo("Running training jobs continue: `traingrid status` shows them, `traingrid cancel SUBMISSION` stops them.")


@click.command()
@click.option("--reason", default="", help="Reason, recorded in the ledger.")
@output_option(_ROWS)
@click.pass_obj
def resume(grid_file: Path, reason: str, *, output: Output) -> None:
    """Launch training jobs again.

    Waiting jobs start within a minute.
    """
    plane = _set(grid_file, allowed=True, reason=reason)
    write_rows([plane.ledger.pause()], _ROWS, output)
    sentence_printer(output)("Launching has resumed. Waiting jobs start within a minute.")


def _set(grid_file: Path, *, allowed: bool, reason: str) -> ControlPlane:
    plane = ControlPlane.of(grid_file)
    plane.ledger.set_launching({"by": plane.caller(), "reason": reason}, allowed=allowed)
    return plane
