"""`traingrid datasets`: lists the registered datasets; markers of `traingrid upload --version`."""

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.filesize import decimal

from traingrid import names
from traingrid.api.deployed import find_deployment
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.columns import Column, Schema
from traingrid.cli.console import console, print_damaged
from traingrid.cli.export import Output, output_option, write_rows
from traingrid.cli.folded_table import folded_table
from traingrid.errors import TraingridError, UsageError
from traingrid.grid.deployment import Deployment
from traingrid.ledger.damage import readable
from traingrid.ledger.datasets import DatasetItem, Datasets
from traingrid.strict_json import check_members, json_object, member
from traingrid.text import counted, printable

REPORTED_WITHIN = 1200.0
"""Seconds to wait for the report on a marker: the function's timeout of 15 minutes, and five minutes for its event."""
_POLL_SECONDS = 1.0
_MEMBERS: dict[str, dict[str, type[Any]]] = {
    "registered": {"dataset": str, "version": str, "region": str, "objects": int, "bytes": int}
    | {"manifests": dict, "errors": dict},
    "rejected": {"error": str, "next_step": str},
}
"""The members that the state of a report implies."""


def _rules(item: DatasetItem) -> str:
    return ", ".join(f"{rule} (waiting)" if rule in item.pending else rule for rule in sorted(item.rules))


_ROWS: Schema[Any] = Schema(  # the table has a row for each dataset
    "replica",
    Column("dataset", "string: The dataset's name.", heading="dataset"),
    Column("version", "string: Its version.", heading="version"),
    Column("campaign", "string: Its campaign.", heading="campaign"),
    Column("bytes", "integer: The size of its objects.", lambda item: decimal(item.bytes), heading="size", right=True),
    Column(
        "objects",
        "integer: The number of its objects.",
        lambda item: f"{item.objects:,}",
        heading="objects",
        right=True,
    ),
    Column("region", "string: The replica's Region."),
    Column(
        help="string: The Regions of its replicas.",
        render=lambda item: ", ".join(sorted(item.replicas)),
        heading="Regions",
    ),
    Column("uri", "string: The replica's S3 URI."),
    Column("registered_at", "string: The time of the registration, in ISO 8601."),
    Column(help="string: The rules that started jobs on it.", render=_rules, heading="started"),
)


@click.command()
@output_option(_ROWS)
@click.pass_obj
def datasets(grid_file: Path, *, output: Output) -> None:
    """List the registered datasets.

    JSON and CSV have a row for each replica. A dataset registers itself: its upload ends with the marker dataset.json,
    or `traingrid upload --version` adds it.
    """
    deployment = find_deployment(grid_file)
    items = list(readable(Datasets(deployment.table, deployment.grid.home).all(), print_damaged))
    if output == "table":
        console().print(folded_table(_ROWS.columns, items))
    else:
        replicas = ((item, region) for item in items for region in sorted(item.replicas))
        rows = ({**asdict(item), "region": region, **asdict(item.replicas[region])} for item, region in replicas)
        write_rows(rows, _ROWS, output)


def marker_of(options: dict[str, Any], attributes: Sequence[str], files: Sequence[Path]) -> bytes:
    """Return the marker of a folder that is uploaded.

    Args:
        options: The marker's fields except `bytes`, `objects` and `attributes`; None and empty ones are omitted.
        attributes: Words of the form NAME=VALUE, whose values are text.

    Raises:
        UsageError: An attribute is not of that form, or is given twice.
    """
    values: dict[str, str] = {}
    for word in attributes:
        name, sign, value = word.partition("=")
        if not sign or not name or name in values:
            rule = "is given twice" if name in values else "is not of the form NAME=VALUE"
            raise UsageError(f"--attribute {printable(word)} {rule}.", "Write --attribute sensor=lidar, once.")
        values[name] = value
    marker = {name: value for name, value in {**options, "attributes": values}.items() if value}
    data = [path for path in files if not names.is_record_index(path.name)]
    marker |= {"bytes": sum(path.stat().st_size for path in data), "objects": len(data)}
    return json.dumps(marker, indent=2, sort_keys=True).encode() + b"\n"


def register(deployment: Deployment, region: str, folder: S3Uri, marker: bytes) -> dict[str, Any]:
    """Upload the marker of a dataset whose objects are uploaded, and wait for its report.

    Returns:
        The report, with the state "registered".

    Raises:
        UsageError: The marker is rejected.
        TraingridError: There is no report in time.
    """
    home = Storage(deployment.grid.home)
    target = folder / names.DATASET_MARKER
    report_uri = S3Uri(deployment.manifest_bucket, names.dataset_report(target.bucket, target.key))
    previous_version = home.current_version(report_uri)
    Storage(region, role=deployment.acting_role_in(region)).write(target, marker, "application/json")
    report = _report(home, report_uri, previous_version, hashlib.sha256(marker).hexdigest())
    if report["state"] == "rejected":
        raise UsageError(report["error"], report["next_step"])
    return report


def _report(home: Storage, report_uri: S3Uri, previous_version: str | None, sha256: str) -> dict[str, Any]:
    deadline = time.monotonic() + REPORTED_WITHIN
    while time.monotonic() < deadline:
        if home.current_version(report_uri) not in (None, previous_version):
            report = json_object(home.read_if_exists(report_uri) or b"{}", report_uri)
            if report.get("marker_sha256") == sha256:
                check_members(report, _MEMBERS.get(member(report, "state", str, report_uri), {}), report_uri)
                return report
        time.sleep(_POLL_SECONDS)
    message = f"The registration has not reported in {report_uri} within {REPORTED_WITHIN:.0f} s."
    next_step = "Check the log of the function register_dataset and its dead-letter queue, and upload the marker again."
    raise TraingridError(message, next_step)


def registered_sentences(report: dict[str, Any]) -> list[str]:
    """Return sentences about a registered dataset and the rules that it started."""
    text = f"registered {report['dataset']}, version {report['version']}, in {report['region']}: "
    sentences = [text + f"{counted(report['objects'], 'object')}, {decimal(report['bytes'])}"]
    sentences += [f"the rule {rule} wrote {uri}" for rule, uri in report["manifests"].items()]
    return sentences + list(report["errors"].values())
