"""Amazon S3: versions, ranges, conditional writes and consistency."""

from conformance.aws import Aws, refused
from conformance.claim import claim, documented
from conformance.resources.identity import acting_with, allow
from conformance.resources.storage import shared_bucket
from conformance.sources import model, page

_VERSIONS = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/Versioning.html"


@claim(
    page(_VERSIONS, "all new objects are versioned and given a unique version ID"),
    used_by="traingrid/aws/s3.py traingrid/submission/intake.py",
)
def every_write_is_a_version(aws: Aws) -> None:
    """In a versioned bucket, each PutObject returns a new version id, and that version stays readable."""
    s3, bucket, key = aws.client("s3"), shared_bucket(aws), aws.name("versions")
    first, second = (s3.put_object(Bucket=bucket, Key=key, Body=body)["VersionId"] for body in (b"one", b"two"))
    assert first != second
    assert s3.get_object(Bucket=bucket, Key=key, VersionId=first)["Body"].read() == b"one"
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"two"


@claim(
    page(
        "https://docs.aws.amazon.com/AmazonS3/latest/userguide/list-obj-version-enabled-bucket.html",
        "with the most recently stored returned first",
    ),
    used_by="traingrid/aws/s3.py",
)
def versions_are_listed_newest_first(aws: Aws) -> None:
    """ListObjectVersions lists the versions of a key from the newest to the oldest."""
    s3, bucket, key = aws.client("s3"), shared_bucket(aws), aws.name("ordered")
    versions = [s3.put_object(Bucket=bucket, Key=key, Body=body)["VersionId"] for body in (b"1", b"2", b"3")]
    listed = s3.list_object_versions(Bucket=bucket, Prefix=key)["Versions"]
    assert [version["VersionId"] for version in listed] == versions[::-1]


@claim(
    model("s3", "GetObjectRequest", "Downloads the specified byte range of an object"), used_by="traingrid/aws/s3.py"
)
def range_is_read_alone(aws: Aws) -> None:
    """GetObject with a range returns these bytes, fewer at the end of the object, and InvalidRange beyond it."""
    s3, bucket, key = aws.client("s3"), shared_bucket(aws), aws.name("range")
    s3.put_object(Bucket=bucket, Key=key, Body=b"0123456789")
    assert s3.get_object(Bucket=bucket, Key=key, Range="bytes=2-4")["Body"].read() == b"234"
    assert s3.get_object(Bucket=bucket, Key=key, Range="bytes=8-99")["Body"].read() == b"89"
    with refused("InvalidRange"):
        s3.get_object(Bucket=bucket, Key=key, Range="bytes=10-12")


@claim(
    model("s3", "ListObjectsV2Request", "StartAfter is where you want Amazon S3 to start listing from"),
    page(
        "https://docs.aws.amazon.com/AmazonS3/latest/userguide/Welcome.html#ConsistencyModel",
        "strong read-after-write consistency for PUT and DELETE requests",
    ),
    used_by="traingrid/aws/s3.py traingrid/metrics/history.py",
)
def list_continues_after_a_key(aws: Aws) -> None:
    """ListObjectsV2 with StartAfter lists the later keys in order, including an object that was written just before."""
    s3, bucket, prefix = aws.client("s3"), shared_bucket(aws), f"{aws.name('listed')}/"
    for number in (10, 9, 8):
        s3.put_object(Bucket=bucket, Key=f"{prefix}{number:06d}", Body=b"x")
        after = f"{prefix}000008" if number != 8 else f"{prefix}000007"
        listed = s3.list_objects_v2(Bucket=bucket, Prefix=prefix, StartAfter=after)["Contents"]
        assert [entry["Key"] for entry in listed] == [f"{prefix}{one:06d}" for one in range(number, 11)]


@claim(
    page(
        "https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html",
        "the write operation fails, resulting in a 412 Precondition Failed response",
    ),
    page(
        "https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes-enforce.html",
        "if the request includes the if-none-match header",
    ),
    used_by="traingrid/aws/s3.py traingrid/api/source_folders.py stacks/child_permissions.py",
)
def write_if_none_is_refused_if_there_is_one(aws: Aws) -> None:
    """PutObject with If-None-Match: * is refused if the object exists, and a policy may require the header."""
    bucket, key = shared_bucket(aws), aws.name("if-none")
    new = allow("s3:PutObject", f"arn:aws:s3:::{bucket}/*", Null={"s3:if-none-match": "false"})
    s3, writer = aws.client("s3"), acting_with(aws, new)("s3")
    with refused("AccessDenied", text="s3:PutObject"):
        writer.put_object(Bucket=bucket, Key=key, Body=b"one")
    writer.put_object(Bucket=bucket, Key=key, Body=b"one", IfNoneMatch="*")
    with refused("PreconditionFailed"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"two", IfNoneMatch="*")
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"one"


@claim(
    page(
        "https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-deletes.html",
        "the delete operation fails with a 412 Precondition Failed response",
    ),
    used_by="traingrid/aws/s3_delete.py",
)
def delete_of_a_changed_object_is_refused(aws: Aws) -> None:
    """DeleteObject with If-Match is refused with PreconditionFailed if the object has another ETag."""
    s3, bucket, key = aws.client("s3"), shared_bucket(aws), aws.name("if-match")
    seen = s3.put_object(Bucket=bucket, Key=key, Body=b"one")["ETag"]
    present = s3.put_object(Bucket=bucket, Key=key, Body=b"two")["ETag"]
    with refused("PreconditionFailed"):
        s3.delete_object(Bucket=bucket, Key=key, IfMatch=seen)
    s3.delete_object(Bucket=bucket, Key=key, IfMatch=present)
    with refused("404"):
        s3.head_object(Bucket=bucket, Key=key)


@claim(
    model("s3", "PutObjectRequest", "A map of metadata to store with the object in S3"), used_by="traingrid/aws/s3.py"
)
def version_keeps_its_metadata(aws: Aws) -> None:
    """HeadObject for a version returns the metadata with which that version was written."""
    s3, bucket, key = aws.client("s3"), shared_bucket(aws), aws.name("metadata")
    first = s3.put_object(Bucket=bucket, Key=key, Body=b"x", Metadata={"mark": "1"})["VersionId"]
    s3.put_object(Bucket=bucket, Key=key, Body=b"x", Metadata={"mark": "2"})
    assert s3.head_object(Bucket=bucket, Key=key, VersionId=first)["Metadata"] == {"mark": "1"}


@documented(
    page(
        "https://docs.aws.amazon.com/AmazonS3/latest/userguide/Welcome.html#ConsistencyModel",
        "strong read-after-write consistency for PUT and DELETE requests",
    ),
    used_by="traingrid/aws/s3.py traingrid/submission/intake.py",
    why="a moment of inconsistency cannot be provoked",
)
def written_object_is_seen_at_once(aws: Aws) -> None:
    """S3 is strongly consistent: an object can be read and listed as soon as its PutObject has succeeded."""
