"""Runs: the rows of a submission, and the imported data and prices that they are linked with."""

from pathlib import Path
from typing import Any

from sqlalchemy import select

from tests.integration.control_plane.account import HOME, OTHER, Account
from traingrid.catalog.database import Catalog
from traingrid.catalog.import_rows import import_file
from traingrid.catalog.tables import runs


def rows(catalog: Catalog, submission: str) -> list[dict[str, Any]]:
    statement = select(runs).where(runs.c.submission == submission).order_by(runs.c.job, runs.c.attempt)
    with catalog.read_only() as connection:
        return [dict(row) for row in connection.execute(statement).mappings()]


def describe_data(catalog: Catalog, account: Account, folder: Path) -> None:
    """Import a dataset whose replicas are the data of the account's jobs, and its prices."""
    files = {
        "datasets": "dataset,version,campaign\nday1,2,oslo\nall,1,every\n",
        "replicas": "dataset,version,region,uri\n"
        + "".join(
            f"day1,2,{region},s3://{account.data(region)}/x\nall,1,{region},s3://{account.data(region)}/\n"
            for region in (HOME, OTHER)
        ),
        "prices": "region,instance_type,purchase_option,dollars_per_hour,as_of\n"
        f"{HOME},ml.m5.large,on_demand,0.5,2026-11-01\n{OTHER},ml.m5.large,spot,0.1,2026-11-01\n",
    }
    for name, content in files.items():
        (folder / f"{name}.csv").write_text(content)
        import_file(catalog, name, folder / f"{name}.csv")
