"""`traingrid pause` and `traingrid resume`: switches the launching of training jobs off and on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from traingrid.api.control_plane import ControlPlane
from traingrid.cli.status_table import paused_sentence

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.option("--reason", required=True, help="Reason, shown by every waiting job.")
@click.pass_obj
def pause(grid_file: Path, reason: str) -> None:
    """Stop launching training jobs.

    Holds for the whole grid. Submitted jobs wait until `traingrid resume`. Running training jobs continue;
    `traingrid cancel` stops them. A creation request that was sent before the pause still takes effect.
    """
    plane = _set(grid_file, allowed=False, reason=reason)
    recorded = plane.ledger.pause()
    if recorded:
        click.echo(paused_sentence(recorded))
    click.echo(
        "Running training jobs continue: `traingrid status` shows them, `traingrid cancel SUBMISSION` stops them."
    )


@click.command()
@click.option("--reason", default="", help="Reason, recorded in the ledger.")
@click.pass_obj
def resume(grid_file: Path, reason: str) -> None:
    """Launch training jobs again.

    Waiting jobs start within a minute.
    """
    _set(grid_file, allowed=True, reason=reason)
    click.echo("Launching has resumed. Waiting jobs start within a minute.")


def _set(grid_file: Path, *, allowed: bool, reason: str) -> ControlPlane:
    plane = ControlPlane.of(grid_file)
    plane.ledger.set_launching({"by": plane.caller(), "reason": reason}, allowed=allowed)
    return plane
