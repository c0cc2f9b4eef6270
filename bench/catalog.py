"""`make bench-catalog`: measures the time from a query to a manifest for 10,000 datasets, in SQLite and PostgreSQL.

Each run is a separate process, as a user starts it.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench.machine import description
from bench.postgres_server import is_installed, running
from bench.report import Result, report
from bench.size import IS_TINY, size

DATASETS, REGIONS = size(10_000, 20), ("us-east-1", "us-west-2", "eu-west-1", "ap-south-1")
ROUNDS = size(5, 1)
VERSIONS = ("SQLAlchemy", "alembic", "psycopg")
_AIM_SECONDS = 2.0


def main() -> None:
    """Measure, print and write the result."""
    machine = description(VERSIONS)
    with tempfile.TemporaryDirectory(prefix="traingrid-catalog-") as name, ExitStack() as stack:
        folder = Path(name)
        write_files(folder)
        urls = {"SQLite": f"sqlite:///{folder}/catalog.db"}
        if is_installed() or not IS_TINY:
            urls["PostgreSQL"] = stack.enter_context(running()).new_schema()
        seconds = {database: measured(folder, url) for database, url in urls.items()}
    report(
        "catalog",
        [
            Result(
                id=f"C{number}",
                what=f"query to manifest, {DATASETS:,} datasets, {database}",
                measured=round(statistics.median(found["manifest"]), 2),
                comparison="<=",
                aim=_AIM_SECONDS,
                unit="s",
            )
            for number, (database, found) in enumerate(seconds.items(), start=1)
        ],
        machine=machine,
        against="the catalog's commands, each in a separate process, without a sync",
        details={"seconds": seconds, "rounds": ROUNDS},
    )


def write_files(folder: Path) -> None:
    """Write the datasets of ten campaigns, each in one Region, as files to import."""
    numbers = range(DATASETS)
    files = {
        "campaigns": ["campaign,hyperparameters", *(f'c{number},"{{""epochs"": 3}}"' for number in range(10))],
        "datasets": ["dataset,version,campaign,bytes", *(f"d{number},1,c{number % 10},512" for number in numbers)],
        "replicas": [
            "dataset,version,region,uri",
            *(f"d{number},1,{REGIONS[number % len(REGIONS)]},s3://campaigns/d{number}" for number in numbers),
        ],
    }
    for name, lines in files.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    (folder / "all.sql").write_text(
        "SELECT region, uri AS s3_uri, datasets.dataset AS name, hyperparameters FROM replicas"
        " JOIN datasets USING (dataset, version) JOIN campaigns USING (campaign)"
        " WHERE NOT EXISTS (SELECT 1 FROM runs WHERE runs.dataset = datasets.dataset)"
    )


def measured(folder: Path, url: str) -> dict[str, list[float]]:
    """Return the seconds of the import of each table, and of every generation of the manifest."""

    def run(*words: str) -> float:
        command = [str(Path(sys.executable).with_name("traingrid")), *words, "--catalog", url]
        started = time.perf_counter()
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        return round(time.perf_counter() - started, 3)

    run("catalog", "init")
    imports = {
        table: [run("catalog", "import", table, f"{table}.csv")] for table in ("campaigns", "datasets", "replicas")
    }
    return {**imports, "manifest": _rounds(run, folder)}


def _rounds(run: Callable[..., float], folder: Path) -> list[float]:
    seconds = [run("manifest", "--sql", "all.sql", "--to", "m.jsonl") for _ in range(ROUNDS)]
    lines = (folder / "m.jsonl").read_text().count("\n")
    if lines != DATASETS + 1:
        raise RuntimeError(f"the manifest has {lines} lines")
    return seconds


if __name__ == "__main__":
    main()
