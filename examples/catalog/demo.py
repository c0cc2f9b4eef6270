"""`make demo-catalog`: four campaigns register by upload alone, a plan moves one of them, and SQL shows the results.

AWS is localcloud. This program deploys the grid of `make demo` with `moves: true`, and then only runs the commands that
it prints. All prices are invented: those of instances are the examples of localcloud's price lists, and those of
transfers are imported. The campaigns have 0.2 MB each, and a GB of transfer costs 50,000 times its example price, so
their moves cost as much as those of 10 GB.
"""

from __future__ import annotations

import csv
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import permutations
from pathlib import Path

import yaml

from examples.digits import demo as digits
from localcloud.credentials.environments import user_environment
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from traingrid.errors import TraingridError
from verification.checkout.deploy import deploy

ROOT = digits.ROOT
WORK = ROOT / "build/demo-catalog"
QUERIES = Path(__file__).parent
CAMPAIGNS = {"boston": "us-east-1", "seattle": "us-west-2", "dublin": "eu-west-1", "frankfurt": "eu-central-1"}
INSTANCE_TYPE = "ml.p4d.24xlarge"  # for its price; as in `make demo`, two processes on this machine train each campaign
EPOCHS = 10
TRANSFER_DOLLARS = 1000  # a GB; 50,000 times the 0.02 of localcloud's price list
ENOUGH = 0.8  # held-out top-1 that every campaign must reach, after half of the epochs of `make demo`


def main(_arguments: Sequence[str] = ()) -> int:
    """Run the demo; return 0 if one campaign was moved and all of them were trained, and 1 otherwise."""
    started = time.monotonic()
    work = digits.own_folder(WORK)
    with LocalCloud(Settings(data_dir=work, lambda_retry_delays_seconds=(1, 2))) as cloud:
        os.environ.update(user_environment(cloud.endpoint_url))
        digits.print_text(f"AWS for this run is localcloud at {cloud.endpoint_url}; all prices are invented")
        write_files(work)
        deployed = partial(deploy, cloud.endpoint_url, work / "grid.yaml", work)
        digits.timed("bootstrap and deploy with the CDK CLI", deployed)
        runs = run_commands(work)
    moved = [campaign for campaign, region in CAMPAIGNS.items() if runs[campaign]["region"] != region]
    trained = [row for row in runs.values() if row["state"] == "Completed" and float(row["top1"]) >= ENOUGH]
    digits.print_text(f"\nmoved: {', '.join(moved) or 'none'}; {time.monotonic() - started:.0f} s in all")
    return 0 if len(moved) == 1 and len(trained) == len(CAMPAIGNS) else 1


def write_files(work: Path) -> None:
    """Write the grid, the campaigns, the queries and the prices of transfers into the work folder."""
    grid = yaml.safe_load(digits.GRID_FILE.read_text())
    grid["moves"] = True
    grid["job"]["instance_type"] = INSTANCE_TYPE
    grid["job"]["hyperparameters"] |= {"epochs": EPOCHS, "checkpoint_every": EPOCHS}
    (work / "grid.yaml").write_text(yaml.safe_dump(grid, sort_keys=False))
    for source, campaign in zip(sorted(digits.DATA.glob("campaign-*")), CAMPAIGNS, strict=True):
        shutil.copytree(source, work / campaign)
    shutil.copy(QUERIES / "untrained.sql", work)
    today = datetime.now(UTC).date()
    rows = [f"{one},{other},{TRANSFER_DOLLARS},{today},invented" for one, other in permutations(CAMPAIGNS.values(), 2)]
    header = "from_region,to_region,dollars_per_gb,as_of,source"
    (work / "transfer_prices.csv").write_text("\n".join([header, *rows, ""]))


def run_commands(work: Path) -> dict[str, dict[str, str]]:
    """Run and print the demo's commands; return the row of each campaign in the last query's result."""
    for campaign, region in CAMPAIGNS.items():
        traingrid(work, f"upload {campaign} {region} --version 1 --campaign {campaign}")
    traingrid(work, "catalog init")
    traingrid(work, "prices refresh")
    traingrid(work, "catalog import transfer_prices transfer_prices.csv")
    traingrid(work, "capacity refresh")
    traingrid(work, "manifest --sql untrained.sql --to campaigns.jsonl")
    traingrid(work, "plan campaigns.jsonl --to plan.jsonl")
    submitted = traingrid(work, "plan --apply plan.jsonl")
    submission = re.findall(r"^submission (\w+):", submitted, re.MULTILINE)[0]
    traingrid(work, f"status {submission} --watch")
    traingrid(work, "catalog sync")
    traingrid(work, f"catalog sql {shlex.quote(results())}")
    traingrid(work, "cost --by campaign")
    rows = traingrid(work, "catalog sql --output csv 'SELECT campaign, region, state, top1 FROM runs'", shown=False)
    return {row["campaign"]: row for row in csv.DictReader(io.StringIO(rows))}


def results() -> str:
    """Return the SQL statement of the results, without its comment, which a command line would take for an option."""
    return "\n".join((QUERIES / "results.sql").read_text().splitlines()[1:])


def traingrid(work: Path, words: str, *, shown: bool = True) -> str:
    """Run a command of traingrid in the work folder, print it and its output, and return the output.

    Raises:
        TraingridError: The command failed.
    """
    if shown:
        digits.print_text(f"\n$ traingrid {words}")
    command = [str(Path(sys.executable).with_name("traingrid")), *shlex.split(words)]
    lines = []
    with subprocess.Popen(
        command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ
    ) as process:
        for line in process.stdout or ():
            lines.append(line)
            if shown:
                digits.print_text(line.rstrip())
    if process.returncode:
        raise TraingridError(f"traingrid {words} ended with exit code {process.returncode}.")
    return "".join(lines)
