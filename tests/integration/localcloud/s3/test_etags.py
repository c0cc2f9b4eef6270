"""ETags of objects that several requests use at once."""

import hashlib
import io
import time
from concurrent.futures import ThreadPoolExecutor

from moto.s3.models import FakeKey

from localcloud.server.local_cloud import LocalCloud

BODY = b"x" * 1000


class SlowBuffer(io.BytesIO):
    """A buffer whose position another thread can change between a seek and a read."""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        position = super().seek(offset, whence)
        time.sleep(0.01)
        return position


def test_requests_at_once_get_the_same_etag(cloud: LocalCloud) -> None:
    del cloud  # it replaces moto's property
    key = FakeKey("key", BODY, account_id="123456789012", region_name="us-east-1")
    key._value_buffer.close()
    key._value_buffer = SlowBuffer(BODY)
    with ThreadPoolExecutor(8) as threads:
        etags = [*threads.map(lambda _: key.etag, range(8))]
    assert {*etags, key.etag} == {f'"{hashlib.md5(BODY).hexdigest()}"'}
    key.dispose()
