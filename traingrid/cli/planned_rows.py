"""Planned rows: shows the jobs that a manifest would create, as a table, in detail and as rows for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.catalog.list_prices import dollars_per_hour
from traingrid.cli.columns import Column, Schema
from traingrid.cli.fitted_table import fitted_table
from traingrid.job.initial_model import MODEL_CHANNEL, initial_model_uri
from traingrid.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traingrid.cli.fitted_table import FittedTable
    from traingrid.manifest.plan import Planned

_MAX_NAME = 16
"""More characters of a job's name are shown only if no column would be omitted for them."""
_MIN_COLUMNS = 3


def planned_table(jobs: Sequence[Planned], width: int) -> FittedTable:
    """Return the table of planned jobs, one row each, with the columns that fit.

    Args:
        width: The width of the terminal in characters.
    """
    return fitted_table("", PLANNED_ROWS.columns, jobs, width, min_columns=_MIN_COLUMNS)


def detail_lines(planned_job: Planned) -> Iterator[str]:
    """Yield the lines that describe a planned job with its data, its image and its whole outcome."""
    job = planned_job.job
    plan = {"training plan": job.training_plan} if job.training_plan else {}
    image = {"algorithm": job.algorithm} if job.algorithm else {"image": job.image}
    facts = {"Region": job.region, "instances": _instances(planned_job), **plan, "ranks": _ranks(planned_job)}
    facts |= {f"data: {name}": uri for name, uri in _channels(planned_job).items()}
    facts |= image | {"outcome": planned_job.outcome}
    width = max(map(len, facts))
    yield printable(f"line {job.line}: {job.name}")
    for name, value in facts.items():
        yield printable(f"  {name:<{width}}  {value}")


def _instances(line: Planned) -> str:
    job = line.job
    spot = " spot" if job.spot else ""
    plan = " plan" if job.training_plan else ""
    return f"{job.instance_count} x {job.instance_type}{spot}{plan}"


def _ranks(line: Planned) -> str:
    return str(line.job.ranks) if line.job.launcher == "mpi" else f"{line.job.ranks} ({line.job.launcher})"


def _data(line: Planned) -> str:
    """Return the URI of the data: the common folder of the channels, or all their URIs."""
    uris = [channel.location.rstrip("/") for channel in line.job.inputs.values()]
    folders = {uri.rpartition("/")[0] for uri in uris}
    return folders.pop() if len(uris) > 1 and len(folders) == 1 else ", ".join(uris)


def _channels(line: Planned) -> dict[str, str]:
    locations = {name: channel.location for name, channel in line.job.inputs.items()}
    if model_uri := initial_model_uri(line.job):
        locations[MODEL_CHANNEL] = model_uri
    return locations


def _style(line: Planned) -> str:
    if line.would_fail:
        return "red"
    return "yellow" if line.is_unchecked else ""


PLANNED_ROWS: Schema[Planned] = Schema(
    "line, with --plan",
    Column(
        "line",
        "integer: The number of the line.",
        value=lambda line: line.job.line,
        heading="line",
        right=True,
        fit="whole",
        rank=0,
    ),
    Column(
        "region",
        "string: The training Region.",
        value=lambda line: line.job.region,
        heading="Region",
        fit="whole",
        rank=3,
    ),
    Column(
        "name", "string: The job's name.", value=lambda line: line.job.name, heading="job", rank=1, max_width=_MAX_NAME
    ),
    Column("instance_type", "string: The instance type.", value=lambda line: line.job.instance_type),
    Column("instance_count", "integer: The number of instances.", value=lambda line: line.job.instance_count),
    Column("spot", "boolean: Whether it uses spot instances.", value=lambda line: line.job.spot),
    Column(
        help="string: The last three, and whether it uses a training plan.",
        render=_instances,
        heading="instances",
        fit="whole",
        rank=4,
    ),
    Column(
        "dollars_per_hour",
        "number: The price of its instances on demand; null if it is unknown.",
        value=lambda line: dollars_per_hour(line.job),
    ),
    Column(
        "ranks",
        "integer: The world size.",
        _ranks,
        value=lambda line: line.job.ranks,
        heading="ranks",
        right=True,
        fit="whole",
        rank=5,
    ),
    Column(
        "launcher",
        "string: The program that starts the ranks: mpi, torchrun or none.",
        value=lambda line: line.job.launcher,
    ),
    Column(
        "channels",
        "object of strings: The S3 URI of each channel.",
        _data,
        value=_channels,
        heading="data",
        fit="whole",
        rank=6,
    ),
    Column("image", "string: The image; empty for a built-in algorithm.", value=lambda line: line.job.image),
    Column(
        "outcome",
        "string: What would happen now; in the table, only its first words.",
        lambda line: line.verdict,
        heading="outcome",
        style=_style,
        fit="whole",
        rank=2,
    ),
    Column("would_fail", "boolean: Whether it would fail now."),
    Column(
        "warnings", "array of strings: Hardware of its instances that its image does not use, as far as that is known."
    ),
)
