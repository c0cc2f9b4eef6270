"""Rank manifests: shards a channel's objects by rank, with one ManifestFile per rank, without copying objects.

SageMaker shards a channel by host, not by rank. So this module distributes the objects of a channel among the ranks,
and each rank reads a separate channel that lists its objects.

Every process that may create a training job writes its ManifestFiles first. All processes must write the same content,
although the objects under the prefix may change meanwhile. So the first process writes the shards of all ranks as one
object that is never replaced, and any other process reads that object. The ManifestFiles contain only these shards.
They belong to one training job: another attempt, or a replica in another Region, lists the objects again.
"""

from __future__ import annotations

import heapq
import json
from typing import TYPE_CHECKING, Any

from traingrid import names
from traingrid.aws.s3_uri import path_in_channel, prefix_of
from traingrid.errors import UsageError
from traingrid.job.channels import channels_split_by_rank, manifest_uri, rank_channels
from traingrid.strict_json import JsonError, json_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Protocol

    from traingrid.aws.s3_uri import S3Uri
    from traingrid.job.job import Job

    class Objects(Protocol):
        """The methods of `traingrid.aws.s3.Storage` that this module uses."""

        def sizes(self, prefix: S3Uri) -> Iterable[tuple[str, int]]:
            """See `Storage.sizes`."""

        def read_if_exists(self, uri: S3Uri) -> bytes | None:
            """See `Storage.read_if_exists`."""

        def write_if_none(self, uri: S3Uri, content: bytes, content_type: str) -> bool:
            """See `Storage.write_if_none`."""


ManifestFile = list[dict[str, str] | str]
"""A ManifestFile: the prefix of all keys, then the rest of each key
(https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_S3DataSource.html)."""

_SUFFIX = ".shares"
_JSON = "application/json"


class TooFewObjectsError(UsageError):
    """A channel has fewer objects than the job has ranks."""


def write_rank_manifests(objects: Objects, job: Job, training_job: str) -> None:
    """Write the ManifestFiles of a training job, unless they exist.

    The result is the same if the function is interrupted and repeated, or runs twice at once.

    Args:
        objects: S3 in the job's Region.

    Raises:
        TooFewObjectsError: A rank would have no object to read.
    """
    for name in channels_split_by_rank(job.inputs, job.streams):
        shares = _agreed_manifests(objects, job, training_job, name)
        for rank_channel, manifest in zip(rank_channels(name, job.ranks), shares, strict=True):
            objects.write_if_none(manifest_uri(job, training_job, rank_channel), _encoded(manifest), _JSON)


def _agreed_manifests(objects: Objects, job: Job, training_job: str, channel: str) -> list[ManifestFile]:
    """Return the ManifestFile of a channel for each rank, as the first process wrote them."""
    uri = manifest_uri(job, training_job, f"{channel}{_SUFFIX}")
    stored_manifests = objects.read_if_exists(uri)
    if stored_manifests is None:
        content = _encoded(_manifests(objects, job, channel))
        stored_manifests = content if objects.write_if_none(uri, content, _JSON) else objects.read_if_exists(uri)
    return _parsed_manifests(stored_manifests or b"", uri, job.ranks)  # nothing if it was deleted meanwhile: an error


def _parsed_manifests(content: bytes, uri: S3Uri, ranks: int) -> list[ManifestFile]:
    """Return the ManifestFile of each rank from the object with all of them.

    Raises:
        UsageError: Another program has written the object.
    """
    try:
        shares = json_list(content)
    except JsonError:
        shares = []
    if len(shares) != ranks or not all(map(_is_manifest_file, shares)):
        text = f"{uri} must be the JSON list of the ManifestFiles of {ranks} ranks."
        raise UsageError(text, "Delete it and retry the job, which lists its objects again.")
    return shares


def _is_manifest_file(share: Any) -> bool:
    if not isinstance(share, list) or not share:
        return False
    prefix, *keys = share
    has_prefix = type(prefix) is dict and isinstance(prefix.get("prefix"), str)
    return has_prefix and all(type(key) is str for key in keys)


def _manifests(objects: Objects, job: Job, name: str) -> list[ManifestFile]:
    uri = job.inputs[name].uri
    prefix = prefix_of(uri)
    sizes = dict(data_objects(objects, prefix))
    if len(sizes) < job.ranks:
        text = (
            f"The channel {name} of {job.name} has {len(sizes)} objects under {uri}, fewer than its {job.ranks} ranks."
        )
        next_step = "Split the data into more objects, train on fewer ranks, or write streams host in the manifest."
        raise TooFewObjectsError(text, next_step)
    folder = prefix.key[: prefix.key.rfind("/") + 1]
    start = {"prefix": f"s3://{prefix.bucket}/{folder}"}
    return [[start, *(key[len(folder) :] for key in share)] for share in shares_by_bytes(sizes, job.ranks)]


def data_objects(objects: Objects, prefix: S3Uri) -> Iterator[tuple[str, int]]:
    """Yield key and size of the objects with records: those that are data (`names.is_data`) and not empty."""
    for key, size in objects.sizes(prefix):
        if size > 0 and names.is_data(path_in_channel(prefix.key, key)):
            yield key, size


def shares_by_bytes(sizes: Mapping[str, int], ranks: int) -> list[list[str]]:
    """Return the objects of each rank: assign the largest object first, always to the rank with the fewest bytes.

    The largest shard has at most 4/3 of the bytes of the largest shard in an optimal distribution (R. L. Graham,
    Bounds on Multiprocessing Timing Anomalies, 1969). The trainer shards the files of File mode by the same rule, so
    that both modes train on the same shards.

    Args:
        sizes: The size of each object in bytes, by key.
    """
    shares: list[list[str]] = [[] for _ in range(ranks)]
    fewest = [(0, rank) for rank in range(ranks)]
    for key, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        bytes_of_rank, rank = heapq.heappop(fewest)
        shares[rank].append(key)
        heapq.heappush(fewest, (bytes_of_rank + size, rank))
    return [sorted(share) for share in shares]


def _encoded(document: object) -> bytes:
    return json.dumps(document).encode()
