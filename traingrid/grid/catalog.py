"""Catalog: the database of `catalog` in grid.yaml."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, StringConstraints
from pydantic_core import PydanticCustomError

from traingrid.grid.field_types import broken_rule

NO_CATALOG = "none"
"""Commands then use a SQLite file beside grid.yaml."""
DSQL_CATALOG = "dsql"
"""The deployment creates a cluster of Aurora DSQL, and commands use it. Experimental."""


def _catalog(text: str) -> str:
    """Reject a URL of another database, and one with a password."""
    if text in (NO_CATALOG, DSQL_CATALOG):
        return text
    try:
        url = urlsplit(text)
    except ValueError:
        url = urlsplit("")
    if url.scheme not in ("sqlite", "postgresql", "dsql"):
        raise broken_rule(
            "a catalog is `none`, `dsql`, sqlite:///FILE, postgresql://USER@HOST/DATABASE or dsql://ENDPOINT"
        )
    if url.password is not None:
        rule = "a password must not be in grid.yaml, which many people can read"
        rule = f"{rule}; remove it, and put it into ~/.pgpass or PGPASSWORD"
        without_password = text.replace(f":{url.password}@", ":***@")
        raise PydanticCustomError("broken_rule", "{rule}", {"rule": rule, "at": "", "value": without_password})
    return text


CatalogUrl = Annotated[str, StringConstraints(strict=True), AfterValidator(_catalog)]
