"""`traingrid pause` and `traingrid resume`: the switch that keeps a grid from launching anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from traingrid.cli.status import ControlPlane
from traingrid.cli.status_table import paused_sentence
from traingrid.clients import client

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.option("--reason", required=True, help="Why; every waiting job shows it.")
@click.pass_obj
def pause(grid_file: Path, reason: str) -> None:
    """Keep the whole grid from launching training jobs, until `traingrid resume`.

    What trains, trains on: `traingrid cancel` stops it. What is submitted waits. A creation that was sent already
    comes through.
    """
    plane = _set(grid_file, allowed=False, reason=reason)
    recorded = plane.ledger.pause()
    if recorded:
        click.echo(paused_sentence(recorded))
    click.echo("what trains, trains on: `traingrid status` shows it, `traingrid cancel SUBMISSION` stops it")


@click.command()
@click.option("--reason", default="", help="Why; it is kept in the ledger.")
@click.pass_obj
def resume(grid_file: Path, reason: str) -> None:
    """Let the grid launch training jobs again: those that wait begin within a minute."""
    _set(grid_file, allowed=True, reason=reason)
    click.echo("launching goes on; what waits begins within a minute")


def _set(grid_file: Path, *, allowed: bool, reason: str) -> ControlPlane:
    plane = ControlPlane.of(grid_file)
    by = client("sts", plane.deployment.grid.home).get_caller_identity()["Arn"]
    plane.ledger.set_launching({"by": by, "reason": reason}, allowed=allowed)
    return plane
