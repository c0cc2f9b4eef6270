"""`traingrid ui`: serves a page with the jobs of the grid to a browser on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from traingrid.api.control_plane import ControlPlane
from traingrid.cli.catalog import existing_catalog, names_catalog, url_option
from traingrid.cli.installed import UI, require_extra
from traingrid.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from traingrid.catalog.campaign_facts import CampaignFacts
    from traingrid.ui.server import Page


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port [default: a free port].")
@click.option("--write", "writes", is_flag=True, help="Allow to cancel and retry jobs on the page.")
@click.option("--address", help="For a team: the address https://HOST of a reverse proxy that signs users in.")
@click.option(
    "--proxy", "networks", multiple=True, help="The addresses of this proxy, such as 10.0.4.0/24; repeatable."
)
@click.option("--user-header", help="Its header with the name of the user [default: x-amzn-oidc-identity].")
@click.option("--host", help="The IPv4 address of this machine that it connects to [default: 127.0.0.1].")
@url_option
@click.pass_obj
def ui(  # noqa: PLR0913  # one keyword for each independent option
    grid_file: Path,
    *,
    port: int,
    url: str | None,
    address: str | None,
    networks: tuple[str, ...],
    user_header: str | None,
    host: str | None,
    writes: bool,
) -> None:
    """Show the grid in a browser.

    Serves a page with the Regions, jobs, curves and logs on this machine until you press Ctrl-C. Only the printed
    address opens it. The page cannot change anything without --write. With --address, a team opens the page through a
    reverse proxy.
    """
    require_extra("ui", UI)
    from traingrid.ui.proxy import USER_HEADER, Proxy
    from traingrid.ui.server import Page, listening_socket

    if not address and (networks or user_header or host):
        text = "--proxy, --user-header and --host have no effect without --address."
        raise UsageError(text, "Add --address https://HOST, the address that users open.")
    proxy = Proxy.of(address, networks, user_header or USER_HEADER) if address else None

    def read_facts() -> CampaignFacts | None:
        return _campaign_facts(grid_file, url)

    page = Page(
        plane=ControlPlane.of(grid_file), grid_file=grid_file, writes=writes, read_facts=read_facts, proxy=proxy
    )
    with listening_socket(port, host or "127.0.0.1") as listening:
        for sentence in _introduction(page, listening.getsockname()):
            click.echo(sentence)
        try:
            page.serve(listening)
        except KeyboardInterrupt:
            click.echo("Stopped. Jobs continue.")


def _introduction(page: Page, listening: tuple[str, int]) -> list[str]:
    """Return the sentences that name the address of the page."""
    abilities = "see this grid and change it" if page.writes else "see this grid"
    if page.proxy is None:
        address = f"Open http://127.0.0.1:{listening[1]}/?token={page.secrets.token}"
        return [address, f"The address lets its reader {abilities}. Ctrl-C stops."]
    networks = ", ".join(str(network) for network in page.proxy.networks)
    return [
        f"Listening on {listening[0]}:{listening[1]} for requests to {page.proxy.url} from {networks}",
        f"Each user whom the proxy signs in can {abilities}. Ctrl-C stops.",
    ]


def _campaign_facts(grid_file: Path, url: str | None) -> CampaignFacts | None:
    """Read the catalog; return None if the grid has none."""
    if not names_catalog(grid_file, url):
        return None
    database = existing_catalog(grid_file, url)
    from traingrid.catalog.campaign_facts import campaign_facts

    return campaign_facts(database)
