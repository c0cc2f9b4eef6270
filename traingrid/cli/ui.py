"""`traingrid ui`: serves a page with the jobs of the grid to a browser on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from traingrid.api.control_plane import ControlPlane
from traingrid.cli.catalog import existing_catalog, names_catalog, url_option
from traingrid.cli.installed import UI, require_extra

if TYPE_CHECKING:
    from pathlib import Path

    from traingrid.catalog.campaign_facts import CampaignFacts


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of 127.0.0.1 [default: a free port].")
@click.option("--write", "writes", is_flag=True, help="Allow to cancel and retry jobs on the page.")
@url_option
@click.pass_obj
def ui(grid_file: Path, port: int, url: str | None, *, writes: bool) -> None:
    """Show the grid in a browser.

    Serves a page with the Regions, jobs, curves and logs on this machine until you press Ctrl-C. Only the printed
    address opens it. The page cannot change anything without --write.
    """
    require_extra("ui", UI)
    from traingrid.ui.server import Page, listening_socket

    def read_facts() -> CampaignFacts | None:
        return _campaign_facts(grid_file, url)

    page = Page(plane=ControlPlane.of(grid_file), grid_file=grid_file, writes=writes, read_facts=read_facts)
    with listening_socket(port) as listening:
        number = listening.getsockname()[1]
        click.echo(f"Open http://127.0.0.1:{number}/?token={page.secrets.token}")
        click.echo(
            "The address lets its reader see this grid" + (" and change it. " if writes else ". ") + "Ctrl-C stops."
        )
        try:
            page.serve(listening)
        except KeyboardInterrupt:
            click.echo("Stopped. Jobs continue.")


def _campaign_facts(grid_file: Path, url: str | None) -> CampaignFacts | None:
    """Read the catalog; return None if the grid has none."""
    if not names_catalog(grid_file, url):
        return None
    database = existing_catalog(grid_file, url)
    from traingrid.catalog.campaign_facts import campaign_facts

    return campaign_facts(database)
