"""Markers: the object dataset.json, which ends the upload of a dataset version and describes it.

The marker is in the folder above the channels, such as s3://bucket/oslo-day-1/dataset.json. Its folder is the replica.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from traingrid import names
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import UsageError
from traingrid.strict_json import storable_object
from traingrid.text import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.grid.deployment import Deployment

MAX_MARKER_BYTES = 64 * 1024
MAX_OBJECTS = 5_000_000
"""Maximum number of objects of a dataset. S3 lists 1,000 objects per request
(https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html), and a function runs for at most 15 minutes."""

_Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=128, strict=True)]
_Fact = Annotated[str, StringConstraints(max_length=256, strict=True)] | Annotated[bool | int | float, Field()]


class Marker(BaseModel):
    """The content of a marker."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: _Name
    """Name of the dataset: letters, digits, dots, hyphens and underscores."""
    version: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=64, strict=True)]
    """Version of the dataset, as text, with the same characters. A registered version never changes."""
    bytes: Annotated[int, Field(ge=0, strict=True)]
    """Size of all objects in the marker's folder, without the marker and indexes of records."""
    objects: Annotated[int, Field(ge=1, le=MAX_OBJECTS, strict=True)]
    """Number of these objects."""
    campaign: Annotated[str, StringConstraints(max_length=128, strict=True)] = ""
    """Campaign that the dataset belongs to."""
    format: Annotated[str, StringConstraints(max_length=64, strict=True)] = ""
    """Format of the objects, such as tfrecord."""
    attributes: Annotated[dict[_Name, _Fact], Field(max_length=50)] = {}
    """Up to 50 further facts: text, numbers, true or false."""
    created_at: datetime | None = None
    """Time at which the data was recorded, in ISO 8601; without a time zone it is in UTC."""

    @property
    def created(self) -> str:
        """The time at which the data was recorded, in UTC and ISO 8601; empty if the marker has none."""
        if self.created_at is None:
            return ""
        zoned = self.created_at if self.created_at.tzinfo else self.created_at.replace(tzinfo=UTC)
        return zoned.astimezone(UTC).isoformat(timespec="seconds")


def parse_marker(content: bytes, uri: S3Uri) -> Marker:
    """Parse a marker.

    Args:
        uri: The object's URI, for errors.

    Raises:
        UsageError: The content is not a marker; the message lists every wrong field.
    """
    next_step = "Correct the marker and upload it again; docs/catalog.md describes its fields."
    if len(content) > MAX_MARKER_BYTES:
        raise UsageError(f"{uri} has more than {MAX_MARKER_BYTES:,} bytes.", next_step)
    try:
        return Marker.model_validate(storable_object(content.decode()))
    except UnicodeDecodeError:
        raise UsageError(f"{uri} is not UTF-8.", next_step) from None
    except ValidationError as error:
        fields = "; ".join(_sentence(details) for details in error.errors())
        raise UsageError(f"{uri} is not a valid marker: {fields}.", next_step) from None
    except ValueError as error:
        raise UsageError(f"{uri} must be {error}.", next_step) from None


def _sentence(details: Any) -> str:
    """Return one error of pydantic as field, rule and value."""
    field = ".".join(str(part) for part in details["loc"] if isinstance(part, int) or part in Marker.model_fields)
    value = "" if details["type"] in ("missing", "extra_forbidden") else f", not {shown(repr(details['input']))}"
    if details["type"] == "extra_forbidden":
        return f"unknown field {shown(str(details['loc'][-1]))}"
    return f"{field}: {details['msg'][:1].lower()}{details['msg'][1:]}{value}"


@dataclass(frozen=True, kw_only=True)
class MarkerObject:
    """A marker in a data bucket of the grid."""

    region: str
    uri: S3Uri

    @classmethod
    def from_event(cls, event: Mapping[str, Any], deployment: Deployment) -> Self | None:
        """Read S3's "Object Created" event; `Registration.register` finds the object whose key is URL-encoded in it.

        Returns:
            None if the object is not a marker in one of the grid's data buckets in the event's Region.
        """
        bucket, key = event["detail"]["bucket"]["name"], event["detail"]["object"]["key"]
        if deployment.bucket_regions().get(bucket) != event["region"] or not key.endswith(f"/{names.DATASET_MARKER}"):
            return None
        return cls(region=event["region"], uri=S3Uri(bucket, key))

    @property
    def folder(self) -> S3Uri:
        """The folder of the marker, which is the replica."""
        return S3Uri(self.uri.bucket, self.uri.key.rpartition("/")[0])
