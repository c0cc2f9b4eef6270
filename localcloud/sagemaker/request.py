"""CreateTrainingJob requests: reads their channels and hosts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DEFAULT_GROUP = "homogeneousCluster"
"""SageMaker's name in resourceconfig.json for the only instance group of a job without InstanceGroups."""

_S3_URI = re.compile(r"(?:s3|https)://([^/]+)/?(.*)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class S3Uri:
    """A place in S3."""

    bucket: str
    key: str

    @classmethod
    def parse(cls, uri: str) -> "S3Uri":
        """Parse `s3://bucket/key`.

        Raises:
            ValueError: If the URI has another form.
        """
        match = _S3_URI.fullmatch(uri)
        if match is None:
            message = f"{uri!r} is not an S3 URI (s3://bucket/key)"
            raise ValueError(message)
        return cls(bucket=match[1], key=match[2])

    def child(self, *parts: str) -> "S3Uri":
        """Return a URI below this one."""
        return S3Uri(bucket=self.bucket, key="/".join(part for part in (self.key.rstrip("/"), *parts) if part))

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


@dataclass(frozen=True, kw_only=True)
class Channel:
    """One entry of InputDataConfig.

    Attributes:
        uri: Its data in S3; empty for a file system.
        data_type: S3Prefix, ManifestFile or AugmentedManifestFile.
        attributes: AttributeNames, for an AugmentedManifestFile.
        sharded: True if each host gets a part of the keys (ShardedByS3Key); False if it gets all.
        content_type: MIME type given by the user.
        record_wrapper: None or RecordIO.
        piped: True if it is a stream through FIFOs (Pipe); False if it is files (File and FastFile).
        shuffle_seed: Seed of ShuffleConfig, or None.
        mounted: The FileSystemDataSource, or None for data in S3.
    """

    name: str
    uri: str
    data_type: str
    sharded: bool
    content_type: str | None
    record_wrapper: str
    piped: bool
    shuffle_seed: int | None
    mounted: Mapping[str, str] | None = None
    attributes: tuple[str, ...] = ()

    def config(self) -> dict[str, str]:
        """Return its entry in inputdataconfig.json, where FastFile appears as File."""
        entry = {"TrainingInputMode": "Pipe" if self.piped else "File", "RecordWrapperType": self.record_wrapper}
        if not self.mounted:
            entry["S3DistributionType"] = "ShardedByS3Key" if self.sharded else "FullyReplicated"
        return entry | ({"ContentType": self.content_type} if self.content_type else {})


@dataclass(frozen=True, kw_only=True)
class Host:
    """One host of a job: algo-1, algo-2, ..."""

    name: str
    instance_type: str
    group: str


def channels(request: Mapping[str, Any]) -> list[Channel]:
    """Return the channels of a request in order. The AlgorithmSpecification's mode is the default of each channel."""
    mode = request["AlgorithmSpecification"].get("TrainingInputMode")
    return [_channel(entry, mode) for entry in request.get("InputDataConfig") or []]


def _channel(entry: Mapping[str, Any], mode: str | None) -> Channel:
    s3 = entry["DataSource"].get("S3DataSource") or {}
    return Channel(
        name=entry["ChannelName"],
        uri=s3.get("S3Uri", ""),
        data_type=s3.get("S3DataType", ""),
        sharded=s3.get("S3DataDistributionType") == "ShardedByS3Key",
        content_type=entry.get("ContentType"),
        record_wrapper=entry.get("RecordWrapperType", "None"),
        piped=entry.get("InputMode", mode) == "Pipe",
        shuffle_seed=entry.get("ShuffleConfig", {}).get("Seed"),
        attributes=tuple(s3.get("AttributeNames") or ()),
        mounted=entry["DataSource"].get("FileSystemDataSource"),
    )


def hosts(request: Mapping[str, Any]) -> list[Host]:
    """Return the hosts of a request, ordered by instance group."""
    resources = request["ResourceConfig"]
    groups = resources.get("InstanceGroups") or [{**resources, "InstanceGroupName": DEFAULT_GROUP}]
    planned = [group for group in groups for _ in range(int(group["InstanceCount"]))]
    return [
        Host(name=f"algo-{number}", instance_type=group["InstanceType"], group=group["InstanceGroupName"])
        for number, group in enumerate(planned, start=1)
    ]
