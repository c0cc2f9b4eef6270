"""`traingrid manifest`: generates a manifest from a query of the catalog."""

from __future__ import annotations

import re
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traingrid.cli.catalog import (
    existing_catalog,
    no_sync_option,
    parameters_of,
    parameters_option,
    sync_catalog,
    url_option,
)
from traingrid.errors import TraingridError, UsageError
from traingrid.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

    from traingrid.catalog.database import Catalog

SQL_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
_OUTPUT = click.Path(dir_okay=False, path_type=Path)


def _shipped_queries() -> dict[str, Traversable]:
    """Return the queries that are part of traingrid, by name."""
    folder = files("traingrid.catalog") / "queries"
    return {file.name.removesuffix(".sql"): file for file in sorted(folder.iterdir(), key=lambda file: file.name)}


def _print_queries(context: click.Context, _option: click.Parameter, is_requested: bool) -> None:
    """Print the names of the shipped queries with their comments, and exit."""
    if not is_requested or context.resilient_parsing:
        return
    for name, file in _shipped_queries().items():
        comment = re.match(r"(?:--.*\n)+", file.read_text())
        lines = [line.removeprefix("--").strip() for line in comment[0].splitlines()] if comment else []
        click.echo(f"{name:<12}{lines[0]}")
        for line in lines[1:]:
            click.echo(f"{'':<12}{line}")
    context.exit()


@click.command()
@click.option("--sql", "file", type=SQL_FILE, help="File with a SELECT; - for standard input.")
@click.option("--query", "name", help="Name of a query that is part of traingrid.")
@click.option("--queries", is_flag=True, is_eager=True, expose_value=False, callback=_print_queries, help="List them.")
@parameters_option
@click.option("--csv", "as_csv", is_flag=True, help="Write CSV with a header in place of JSON Lines.")
@click.option(
    "--to", "target", type=click.Path(dir_okay=False, path_type=Path), help="File to write [default: the terminal]."
)
@no_sync_option
@url_option
@click.pass_obj
def manifest(  # noqa: PLR0913  # an option each
    grid_file: Path,
    *,
    file: Path | None,
    name: str | None,
    parameters: tuple[str, ...],
    target: Path | None,
    url: str | None,
    as_csv: bool,
    no_sync: bool,
) -> None:
    """Generate a manifest from a query.

    The query is a SELECT on the catalog. Its columns are fields of a job: region, s3_uri, name, "hp.epochs" and so
    on. Submits nothing.

    If grid.yaml exists, the catalog's runs are brought up to date first.
    """
    sql = sql_of(file, name)
    database = synced_catalog(grid_file, url, no_sync=no_sync)
    text, lines = queried(database, sql, parameters, as_csv=as_csv)
    if target is None:
        click.echo(text, nl=False)
        return
    target.write_text(text)
    click.echo(f"{target}: {counted(lines, 'line')}")


def synced_catalog(grid_file: Path, url: str | None, *, no_sync: bool) -> Catalog:
    """Return the catalog of a command's options, after a sync if there is a grid.yaml.

    Raises:
        UsageError: The extra `catalog` is not installed, or the URL is invalid.
        TraingridError: The database, its tables or AWS cannot be used.
    """
    database = existing_catalog(grid_file, url)
    if grid_file.exists() and not no_sync:
        with _or_without_sync():
            sync_catalog(database, grid_file)
    return database


def queried(database: Catalog, sql: str, parameters: tuple[str, ...], *, as_csv: bool = False) -> tuple[str, int]:
    """Return the manifest of a query, and the number of its lines.

    Raises:
        UsageError: The query cannot be run, or its result is no manifest.
    """
    from traingrid.catalog.manifest_lines import manifest_of
    from traingrid.catalog.query import select

    result = select(database, sql, parameters_of(parameters))
    return manifest_of(result, as_csv=as_csv), len(result.rows)


@contextmanager
def _or_without_sync() -> Iterator[None]:
    try:
        yield
    except TraingridError as error:
        error.next_step = f"{error.next_step} To use the catalog as it is, add --no-sync.".strip()
        raise


def sql_of(file: Path | None, name: str | None) -> str:
    """Return the query of --sql or --query.

    Raises:
        UsageError: Neither or both are given, the file is not text, or no query has the name.
    """
    if (file is None) == (name is None):
        raise UsageError("Give one of --sql FILE and --query NAME.", "List the queries: traingrid manifest --queries.")
    if file is not None:
        try:
            with click.open_file(str(file), encoding="utf-8-sig") as opened:
                return str(opened.read())
        except UnicodeDecodeError:
            raise UsageError(f"{file} is not UTF-8 text.", "Write one SELECT.") from None
    shipped = _shipped_queries()
    if name not in shipped:
        raise UsageError(f"traingrid has no query {name!r}.", f"Its queries are {', '.join(shipped)}.")
    return shipped[str(name)].read_text()
