"""Planned rows: the columns of the jobs that a manifest would create, in the order in which they would start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.cli.columns import Column, Schema
from traingrid.job.initial_model import MODEL_CHANNEL, initial_model_uri

if TYPE_CHECKING:
    from traingrid.manifest.plan import Planned


def _instances(line: Planned) -> str:
    job = line.job
    reserved = f", plan {job.training_plan.rpartition('/')[2]}" if job.training_plan else ""
    return f"{job.instance_count} x {job.instance_type}{' spot' * job.spot}{reserved}"


def _ranks(line: Planned) -> str:
    return str(line.job.ranks) if line.job.launcher == "mpi" else f"{line.job.ranks} ({line.job.launcher})"


def _data(line: Planned) -> str:
    """Return the URI of the data: the common folder of the channels, or all their URIs."""
    uris = [channel.location.rstrip("/") for channel in line.job.inputs.values()]
    folders = {uri.rpartition("/")[0] for uri in uris}
    return folders.pop() if len(uris) > 1 and len(folders) == 1 else ", ".join(uris)


def _channels(line: Planned) -> dict[str, str]:
    model = {MODEL_CHANNEL: uri} if (uri := initial_model_uri(line.job)) else {}
    return {name: channel.location for name, channel in line.job.inputs.items()} | model


def _style(line: Planned) -> str:
    return "red" if line.would_fail else "yellow" if line.is_unchecked else ""


PLANNED_ROWS: Schema[Planned] = Schema(
    "line, with --plan",
    Column("line", "integer: The number of the line.", value=lambda line: line.job.line, heading="line"),
    Column("region", "string: The training Region.", value=lambda line: line.job.region, heading="Region"),
    Column("name", "string: The job's name.", value=lambda line: line.job.name, heading="job"),
    Column("instance_type", "string: The instance type.", value=lambda line: line.job.instance_type),
    Column("instance_count", "integer: The number of instances.", value=lambda line: line.job.instance_count),
    Column("spot", "boolean: Whether it uses spot instances.", value=lambda line: line.job.spot),
    Column(help="string: The last three, and the training plan.", render=_instances, heading="instances"),
    Column("ranks", "integer: The world size.", _ranks, value=lambda line: line.job.ranks, heading="ranks"),
    Column(
        "launcher",
        "string: The program that starts the ranks: mpi, torchrun or none.",
        value=lambda line: line.job.launcher,
    ),
    Column("channels", "object of strings: The S3 URI of each channel.", _data, value=_channels, heading="data"),
    Column(
        "image",
        "string: The image; empty for a built-in algorithm.",
        lambda line: line.job.image or line.job.algorithm,
        value=lambda line: line.job.image,
        heading="image",
    ),
    Column("outcome", "string: What would happen now.", heading="what would happen", style=_style),
    Column("would_fail", "boolean: Whether it would fail now."),
    Column(
        "warnings", "array of strings: Hardware of its instances that its image does not use, as far as that is known."
    ),
)
