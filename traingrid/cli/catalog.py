"""`traingrid catalog`: creates, fills and queries the catalog's database."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from traingrid import names
from traingrid.api.deployed import find_cluster, find_deployment
from traingrid.cli.columns import Column, Schema
from traingrid.cli.console import console
from traingrid.cli.export import output_option, sentence_printer, write_rows, write_table
from traingrid.cli.installed import CATALOG, require_extra
from traingrid.errors import UsageError
from traingrid.grid.catalog import DSQL_CATALOG, NO_CATALOG
from traingrid.grid.file import load_grid
from traingrid.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import URL

    from traingrid.catalog.database import Catalog
    from traingrid.catalog.sync import GridRecords, Synced
    from traingrid.cli.export import Output

logger = logging.getLogger(__name__)
_TABLES = ("campaigns", "datasets", "replicas", "prices", "transfer_prices", "capacity")
_FILE = "catalog.db"
_TABLES_MADE: Schema[Any] = Schema(
    "catalog, always one",
    Column("catalog", "string: The database, without its password."),
    Column("changed", "boolean: Whether tables were created or upgraded."),
)
_IMPORTED: Schema[Any] = Schema(
    "file, always one", Column("table", "string: The table."), Column("rows", "integer: The number of its rows.")
)
_SYNCED: Schema[Any] = Schema(
    "catalog, always one",
    Column("submissions", "integer: The number of submissions that were read."),
    Column("runs", "integer: The number of rows that were written."),
    Column("replicas", "integer: The number of registered replicas that were added."),
)
_RESULT: Schema[Any] = Schema("row of the result, with the columns of the query")

url_option = click.option(
    "--catalog",
    "url",
    envvar="TRAINGRID_CATALOG",
    help="URL of the database [default: `catalog` in grid.yaml, or catalog.db beside it].",
)
"""The option of a command that uses the catalog."""
no_sync_option = click.option("--no-sync", is_flag=True, help="Use the catalog as it is; do not read the ledger first.")
"""The option of a command that syncs the catalog before it reads it."""


def parameters_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option of a query's parameters to a command."""
    text = "Value of the query's parameter :NAME; may be repeated."
    return click.option("--param", "parameters", metavar="NAME=VALUE", multiple=True, help=text)(command)


@click.group()
def catalog() -> None:
    """Create, fill and query the catalog.

    The catalog is a database of campaigns, datasets, prices and runs.
    """


@catalog.command()
@output_option(_TABLES_MADE)
@url_option
@click.pass_obj
def init(grid_file: Path, url: str | None, *, output: Output) -> None:
    """Create or upgrade the catalog's tables."""
    database = _opened_catalog(grid_file, url)
    is_new = database.create()
    text = "has its tables now" if is_new else "already has the tables of this version"
    if not url:
        _grant_follower_privileges(database, grid_file)
    write_rows([{"catalog": database.name, "changed": is_new}], _TABLES_MADE, output)
    sentence_printer(output)(f"The catalog {database.name} {text}.")


@catalog.command(name="import")
@click.argument("table", type=click.Choice(_TABLES))
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@output_option(_IMPORTED)
@url_option
@click.pass_obj
def import_(grid_file: Path, table: str, file: Path, url: str | None, *, output: Output) -> None:
    """Import the rows of FILE into TABLE.

    A row that exists is updated. FILE is CSV with a header, or JSON Lines (.jsonl); its columns are those of the table.
    An invalid file changes nothing.
    """
    database = existing_catalog(grid_file, url)
    from traingrid.catalog.import_rows import import_file, imported_sentence

    number = import_file(database, table, file)
    write_rows([{"table": table, "rows": number}], _IMPORTED, output)
    sentence_printer(output)(imported_sentence(number, table))


@catalog.command()
@output_option(_SYNCED)
@url_option
@click.pass_obj
def sync(grid_file: Path, url: str | None, *, output: Output) -> None:
    """Copy runs and datasets from the ledger."""
    result = sync_catalog(existing_catalog(grid_file, url), grid_file)
    write_rows([result], _SYNCED, output)
    sentence_printer(output)(result.sentence)


@catalog.command()
@output_option(_SYNCED)
@url_option
@click.pass_obj
def rebuild(grid_file: Path, url: str | None, *, output: Output) -> None:
    """Delete runs and datasets, and copy all again."""
    database = existing_catalog(grid_file, url)
    from traingrid.catalog.sync import rebuild as read_again

    result = read_again(database, _records(grid_file))
    write_rows([result], _SYNCED, output)
    sentence_printer(output)(f"{counted(result.runs, 'run')} of {counted(result.submissions, 'submission')}")


@catalog.command()
@click.argument("query")
@parameters_option
@output_option(_RESULT)
@url_option
@click.pass_obj
def sql(grid_file: Path, query: str, parameters: tuple[str, ...], url: str | None, *, output: Output) -> None:
    """Print the result of QUERY, a SELECT.

    The database refuses every statement that would change it.
    """
    database = existing_catalog(grid_file, url)
    from traingrid.catalog.query import select

    result = select(database, query, parameters_of(parameters))
    if output != "table":
        write_table(result.columns, result.rows, output)
        return
    table = Table(box=None, pad_edge=False)
    for name in result.columns:
        table.add_column(Text(printable(name)), overflow="fold")
    for row in result.rows:
        table.add_row(*(Text("" if value is None else printable(str(value))) for value in row))
    console().print(table)


def names_catalog(grid_file: Path, url: str | None) -> bool:
    """Return True if the options or grid.yaml name a catalog, or its default file exists."""
    return bool(url) or load_grid(grid_file).catalog != NO_CATALOG or (grid_file.parent / _FILE).exists()


def existing_catalog(grid_file: Path, url: str | None) -> Catalog:
    """Return the catalog of a command's options, with tables of this version.

    Args:
        grid_file: Path of grid.yaml.
        url: The option `--catalog`.

    Raises:
        UsageError: The extra `catalog` is not installed, or the URL is invalid.
        TraingridError: The database does not answer, or its tables are not of this version.
    """
    database = _opened_catalog(grid_file, url)
    database.check()
    return database


def sync_catalog(database: Catalog, grid_file: Path) -> Synced:
    """Bring the runs of a catalog up to date.

    Raises:
        TraingridError: The grid is not deployed, or AWS or the database does not answer.
    """
    from traingrid.catalog.sync import sync

    return sync(database, _records(grid_file))


def parameters_of(words: tuple[str, ...]) -> dict[str, str]:
    """Return the parameters of `--param NAME=VALUE`.

    Raises:
        UsageError: A word has no "=", or a name occurs twice.
    """
    parameters: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name.isidentifier():
            raise UsageError(
                f"--param {printable(word)} is not of the form NAME=VALUE.", "Write --param campaign=oslo."
            )
        if name in parameters:
            raise UsageError(f"--param {name} is given twice.", "Give it once.")
        parameters[name] = value
    return parameters


def _grant_follower_privileges(database: Catalog, grid_file: Path) -> None:
    """Allow lambda/follow_ledger to copy the ledger's changes to the catalog, if grid.yaml has `catalog: dsql`."""
    if not grid_file.exists() or load_grid(grid_file).catalog != DSQL_CATALOG:
        return
    from traingrid.catalog.roles import grant_privileges

    deployment = find_deployment(grid_file)
    grant_privileges(database, names.role_arn(deployment.account, names.follower_role(deployment.grid.name)))


def _records(grid_file: Path) -> GridRecords:
    from traingrid.catalog.sync import GridRecords

    return GridRecords.of(find_deployment(grid_file))


def _opened_catalog(grid_file: Path, url: str | None) -> Catalog:
    require_extra("catalog", CATALOG)
    from traingrid.catalog.database import Catalog
    from traingrid.catalog.engines import catalog_url

    database_url = catalog_url(url) if url else _url_of(grid_file)
    logger.info("using the catalog %s", database_url.render_as_string(hide_password=True))
    return Catalog(database_url)


def _url_of(grid_file: Path) -> URL:
    """Return the URL of the database that grid.yaml describes."""
    from traingrid.catalog.engines import catalog_url

    grid = load_grid(grid_file) if grid_file.exists() else None
    text = grid.catalog if grid else NO_CATALOG
    if grid and text == DSQL_CATALOG:
        return catalog_url(f"dsql://{find_cluster(grid)}")
    database_url = catalog_url(f"sqlite:///{_FILE}" if text == NO_CATALOG else text)
    if database_url.drivername.startswith("sqlite"):
        return database_url.set(database=str(grid_file.parent / str(database_url.database)))
    return database_url
