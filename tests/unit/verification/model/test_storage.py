"""Model storage: `verification.model.storage`, S3 in memory, behaves like a versioned bucket of moto."""

from typing import Any

from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.grid.deployment import Deployment
from verification.model.storage import Bucket


def everything_that_storage_does(storage: Storage, bucket: str) -> list[Any]:
    """Write and read objects in all ways of the model, and return all results but the random ids of versions."""
    one, other, missing = (S3Uri(bucket, f"sweeps/{name}") for name in ("one", "other", "missing"))
    versions = [storage.write(one, content, "text/plain") for content in (b"first", b"second")]
    return [
        [storage.write_if_none(uri, b"third", "text/plain") for uri in (other, one, other)],
        [storage.read(one), storage.read(one, versions[0]), storage.read_if_exists(missing)],
        [storage.read_range(one, 1, 3), storage.read_range(one, 4, 99), storage.read_range(one, 99, 100)],
        [versions.index(str(storage.first_version(one))), storage.first_version(missing)],
        [list(storage.read_versions(one, most)) for most in (1, 9)],
        [list(storage.keys_after(S3Uri(bucket, "sweeps/"), key)) for key in ("", "sweeps/one", "sweeps/other")],
        [list(storage.keys_after(S3Uri(bucket, prefix), "")) for prefix in ("sweeps/ot", "manifests/")],
        list(storage.sizes(S3Uri(bucket, "sweeps/"))),
    ]


def test_the_model_returns_what_a_bucket_returns(storage: Storage, deployment: Deployment) -> None:
    memory = Bucket()
    modelled = everything_that_storage_does(Storage(make_client=lambda *_: memory), deployment.manifest_bucket)
    assert modelled == everything_that_storage_does(storage, deployment.manifest_bucket)
