"""ETags: computed under the lock of their object.

moto 5.2.5 computes an ETag when it is first used, by reading the buffer of the object, without the lock that it takes
to read the content. Two requests at once, for example a list and the reply to the write, may then read a part of the
buffer each, and the object keeps a wrong ETag.
"""

from typing import TYPE_CHECKING

from moto.s3.models import FakeKey

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud


def install(cloud: "LocalCloud") -> None:
    """Replace moto's property."""
    computed = FakeKey.etag.__get__

    def etag(key: FakeKey) -> str:
        with key.lock:
            return str(computed(key))

    cloud.replace(FakeKey, etag=property(etag))
