"""Prepare: creates /opt/ml before the training container starts, and downloads channels and checkpoints."""

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.pod import opt_ml
from traingrid.pod.checkpoint_upload import CheckpointRecord, record_restored
from traingrid.pod.download import Downloads
from traingrid.pod.failure import download_error, explained
from traingrid.pod.host import Host
from traingrid.pod.objects import StoredObject, list_below, no_objects, objects_of, shard, split_uri

logger = logging.getLogger(__name__)


def checkpoint_record(base: Path) -> CheckpointRecord:
    """Return the record of the checkpoints that are in S3, which both containers use."""
    return CheckpointRecord(base / ".checkpoints-in-s3.json")


def prepare(host: Host, s3: Any) -> None:
    """Create the files of a host, and download its data. It may run again, from the start, after an interruption.

    Args:
        s3: The client, which `CALLS_AT_ONCE` threads may share.

    Raises:
        PodError: Data is missing or cannot be downloaded. The text is that of a FailureReason.
    """
    os.umask(0)  # the training container may run as another user, and must be able to change restored checkpoints
    opt_ml.write(host)
    logger.info("Host %s of %s: wrote %s", host.name, ", ".join(host.hosts), host.base / "input" / "config")
    downloads = Downloads(s3, host.request)
    for channel in host.request.get("InputDataConfig") or []:
        name = channel["ChannelName"]
        source = channel["DataSource"].get("S3DataSource")
        try:
            if source and channel.get("InputMode", "File") == "File":
                _download(host, s3, downloads, name, source)
            else:
                _check_mounted(host.channel(name), name, channel["DataSource"])
        except (ClientError, BotoCoreError, OSError) as error:
            uri = source["S3Uri"] if source else name
            raise download_error(f"Unable to download {uri}: {explained(error, host.request)}") from error
    if host.checkpoints:
        try:
            _restore(host, s3, downloads, *host.checkpoints)
        except (ClientError, BotoCoreError, OSError) as error:
            text = f"Unable to download {host.checkpoints[0]}: {explained(error, host.request)}"
            raise download_error(text) from error


def _download(host: Host, s3: Any, downloads: Downloads, name: str, source: Mapping[str, Any]) -> None:
    """Download a channel, or this host's part of it."""
    objects = objects_of(s3, source)
    title = f"Channel {name}"
    if source.get("S3DataDistributionType") == "ShardedByS3Key":
        objects = shard(objects, host.number, len(host.hosts))
        title += f" (part {host.number + 1} of {len(host.hosts)})"
    logger.info("%s: downloading %s", title, source["S3Uri"])
    host.channel(name).mkdir(parents=True, exist_ok=True)
    downloads.fetch(objects, host.channel(name), title)


def _check_mounted(folder: Path, name: str, source: Mapping[str, Any]) -> None:
    """Check that Kubernetes has mounted a channel, and that it has content."""
    with os.scandir(folder) as entries:
        if next(entries, None) is None:
            if mounted := source.get("FileSystemDataSource"):
                place = f"{mounted['FileSystemId']}:{mounted['DirectoryPath']}"
                raise download_error(f"No files found in {place}, which is mounted for the channel {name}.")
            raise no_objects(source["S3DataSource"]["S3Uri"])
    logger.info("Channel %s: mounted at %s", name, folder)


def _restore(host: Host, s3: Any, downloads: Downloads, uri: str, folder: Path) -> None:
    """Download the checkpoints, of which there may be none.

    SageMaker restores them to each instance
    (https://docs.aws.amazon.com/sagemaker/latest/dg/model-checkpoints-resume.html).
    """
    prefix = split_uri(uri if uri.endswith("/") else f"{uri}/")
    etags = dict[str, str]()
    downloads.fetch(_remember_etags(list_below(s3, prefix), etags), folder, "Checkpoints")
    record_restored(folder, etags, checkpoint_record(host.base))


def _remember_etags(objects: Iterable[StoredObject], etags: dict[str, str]) -> Iterator[StoredObject]:
    """Yield objects, and remember their ETags."""
    for stored_object in objects:
        etags[stored_object.path] = stored_object.etag
        yield stored_object
