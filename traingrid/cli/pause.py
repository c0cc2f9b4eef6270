"""`traingrid pause` and `traingrid resume`: switches the launching of training jobs off and on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from traingrid.api.control_plane import ControlPlane
from traingrid.cli.columns import Column, Schema
from traingrid.cli.export import output_option, sentences, write_rows
from traingrid.cli.status_table import paused_sentence

if TYPE_CHECKING:
    from pathlib import Path

    from traingrid.cli.export import Output
    from traingrid.ledger.user_requests import Pause

_ROWS: Schema[Any] = Schema(
    "grid, always one",
    Column("launching", "boolean: Whether training jobs are launched."),
    Column("since", "string: The time at which the pause began, in ISO 8601; empty without one."),
    Column("by", "string: The user who paused."),
    Column("reason", "string: The reason."),
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
    recorded = plane.ledger.pause()
    _write(recorded, output)
    echo = sentences(output)
    if recorded:
        echo(paused_sentence(recorded))
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
    _write(plane.ledger.pause(), output)
    sentences(output)("Launching has resumed. Waiting jobs start within a minute.")


def _write(pause: Pause | None, output: Output) -> None:
    if output != "table":
        values = {"since": pause.at, "by": pause.by, "reason": pause.reason} if pause else {}
        none = dict.fromkeys(_ROWS.names, "")
        write_rows([{**none, "launching": pause is None, **values}], _ROWS, output)


def _set(grid_file: Path, *, allowed: bool, reason: str) -> ControlPlane:
    plane = ControlPlane.of(grid_file)
    plane.ledger.set_launching({"by": plane.caller(), "reason": reason}, allowed=allowed)
    return plane
