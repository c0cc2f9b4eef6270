"""S3's events for EventBridge, with the details that AWS documents."""

import itertools
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any, ClassVar

from moto.s3 import notifications
from moto.s3 import urls as s3_urls
from moto.s3.models import S3Backend, s3_backends

from localcloud.credentials.account import account
from localcloud.s3.bucket_names import check_bucket_name

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

_REASONS = {
    "Put": "PutObject",
    "Post": "POST Object",
    "Copy": "CopyObject",
    "CompleteMultipartUpload": "CompleteMultipartUpload",
    "Delete": "DeleteObject",
    "DeleteMarkerCreated": "DeleteObject",
}
_DELETION = {"Delete": "Permanently Deleted", "DeleteMarkerCreated": "Delete Marker Created"}


def install(cloud: "LocalCloud") -> None:
    """Send S3's events to the default bus of the bucket's Region.

    moto 5.2.5 sends them to the rules of every bus, with a constant sequencer, and with the reason "Put" instead of
    "PutObject". It uses a private function without a hook, so that function is replaced.
    """

    def send(account_id: str, bucket: Any, event_name: Any, key: Any) -> None:
        if event_name.value.removeprefix("s3:").startswith(
            ("ObjectCreated", "ObjectRemoved")
        ):  # moto also reports tags at each put
            cloud.put_event(bucket.region_name, object_event(bucket, str(event_name.value), key), account_id)

    cloud.replace(notifications, _send_event_bridge_message=send)
    cloud.replace(s3_backends, backend=Objects)


class Objects(S3Backend):
    """Sends one event for a completed multipart upload, as AWS does; moto 5.2.5 also sends one for PutObject."""

    _url_module = s3_urls
    _completing: ClassVar[threading.local] = threading.local()

    def create_bucket(self, bucket_name: str, *arguments: Any, **options: Any) -> Any:
        """CreateBucket, with a valid name; moto checks only its length."""
        check_bucket_name(bucket_name)
        return super().create_bucket(bucket_name, *arguments, **options)

    def complete_multipart_upload(self, *arguments: Any, **options: Any) -> Any:
        """CompleteMultipartUpload, which moto implements with its PutObject."""
        self._completing.now = True
        try:
            return super().complete_multipart_upload(*arguments, **options)
        finally:
            self._completing.now = False

    def put_object(self, *arguments: Any, **options: Any) -> Any:
        """PutObject, without an event while it is part of another operation."""
        if getattr(self._completing, "now", False):
            options["disable_notification"] = True
        return super().put_object(*arguments, **options)


_sequence = itertools.count()


def object_event(bucket: Any, event_name: str, key: Any) -> dict[str, Any]:
    """Return the event of an object (Amazon S3, "EventBridge event message structure"), with a plain-text key.

    Args:
        bucket: moto's bucket.
        event_name: Name of the classic notification, for example "s3:ObjectCreated:Put".
        key: moto's object.
    """
    kind = event_name.rsplit(":", 1)[-1]
    description = {"key": key.name, "size": key.size, "etag": key.etag.strip('"'), "sequencer": _sequencer()}
    if bucket.versioning_status == "Enabled":
        description["version-id"] = key.version_id
    detail = {
        "version": "0",
        "bucket": {"name": bucket.name},
        "object": description,
        "request-id": uuid.uuid4().hex[:16].upper(),
        "requester": account(),
        "source-ip-address": "127.0.0.1",
        "reason": _REASONS.get(kind, kind),
    }
    if kind in _DELETION:
        detail["deletion-type"] = _DELETION[kind]
    return {
        "source": "aws.s3",
        "detail-type": notifications._detail_type(event_name),
        "resources": [bucket.arn],
        "detail": detail,
    }


def _sequencer() -> str:
    """Return a hexadecimal number that is greater for later events of a key."""
    return f"{int(time.time() * 1000):012X}{next(_sequence) % 0x10000:04X}"
