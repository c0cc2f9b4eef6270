"""Copies of folders: objects that are copied, skipped, continued and refused, and the evidence that verifies them."""

from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.s3.models import s3_backends

from tests.support.copies import (
    CONTENT,
    SOURCE,
    TARGET,
    Calls,
    KilledError,
    folder_copy,
    folders,
    kills,
    stored,
    upload,
)
from traingrid.transfers.errors import MoveError, SourceChangedError, TargetDiffersError
from traingrid.transfers.folder_copy import FolderCopy, verification_sentence
from traingrid.transfers.listing import Survey


def run(copy: FolderCopy) -> Survey:
    """Copy a folder, as a child does."""
    survey = copy.folders.survey()
    copy.start()
    while not copy.wait(0.1):
        pass
    return copy.finish(survey)


def test_a_folder_is_copied_and_verified_by_checksums(s3: Any) -> None:
    upload(s3, CONTENT, ContentType="application/x-tfrecord", Metadata={"camera": "left"})
    calls = Calls()
    copy = folder_copy(folders(calls), threads=3)
    survey = run(copy)
    assert stored(s3) == CONTENT
    assert (survey.objects, survey.bytes, survey.missing) == (3, 59, 0)
    assert copy.progress().verified == {"checksum": 3}
    assert (calls.made.count("copy"), calls.made.count("copy_part"), calls.made.count("complete")) == (2, 7, 1)
    for name in CONTENT:
        head = s3.head_object(Bucket=TARGET.bucket, Key=f"{TARGET.key}/{name}")
        assert (head["ContentType"], head["Metadata"]) == ("application/x-tfrecord", {"camera": "left"})


def test_a_second_copy_writes_nothing(s3: Any) -> None:
    upload(s3, CONTENT)
    run(folder_copy(folders()))
    calls = Calls()
    copy = folder_copy(folders(calls))
    run(copy)
    assert set(calls.made) == {"page", "head"}
    assert copy.progress().verified == {"checksum": 3}


def test_tags_are_not_copied(s3: Any) -> None:
    upload(s3, CONTENT, Tagging="owner=ada")
    run(folder_copy(folders()))
    for name in CONTENT:
        assert s3.get_object_tagging(Bucket=TARGET.bucket, Key=f"{TARGET.key}/{name}")["TagSet"] == []


def test_the_marker_is_copied_after_all_objects(s3: Any) -> None:
    upload(s3, CONTENT | {"dataset.json": b"{}"})
    written: list[str] = []
    calls = Calls()
    calls.before_each = lambda _name: written.extend(name for name in stored(s3) if name not in written)
    survey = run(folder_copy(folders(calls)))
    assert survey.objects == len(CONTENT), "the marker is no object of the dataset"
    assert stored(s3) == CONTENT | {"dataset.json": b"{}"}
    assert written == [*CONTENT, "dataset.json"]


def test_empty_keys_for_folders_are_not_copied(s3: Any) -> None:
    upload(s3, CONTENT | {"train/": b""})
    run(folder_copy(folders()))
    assert stored(s3) == CONTENT


def test_indexes_of_records_belong_to_each_copy(s3: Any) -> None:
    upload(s3, CONTENT)
    before = run(folder_copy(folders()))
    theirs, ours = {"train/_records.json": b"{}"}, {"train/_records.json": b"own", "validation/_records.json": b"own"}
    upload(s3, theirs)
    upload(s3, ours, TARGET)
    assert run(folder_copy(folders())) == before
    assert stored(s3) == CONTENT | ours


def test_a_source_without_objects_is_refused(s3: Any) -> None:
    upload(s3, {"dataset.json": b"{}"})
    with pytest.raises(MoveError, match=r"day1/1 has no objects to copy\. Correct copy_from or init_from"):
        folders().survey()


def test_an_archived_object_is_refused_before_anything_is_copied(s3: Any) -> None:
    upload(s3, CONTENT)
    upload(s3, {"train/z": b"cold"}, StorageClass="GLACIER")
    with pytest.raises(MoveError, match=r"train/z is archived \(storage class GLACIER\)"):
        folders().survey()


@pytest.mark.parametrize(
    ("theirs", "reason"),
    [
        ({"train/a": b"other"}, "its checksum, ETag or size differs"),
        ({"train/a": b"longer"}, "it has 6 bytes, and the source's has 5"),
        ({"train/aa": b"x"}, "the source has no such object"),
        ({"zzz": b"x"}, "the source has no such object"),
    ],
)
def test_other_objects_of_the_target_are_never_replaced(s3: Any, theirs: dict[str, bytes], reason: str) -> None:
    upload(s3, CONTENT)
    upload(s3, theirs, TARGET)
    with pytest.raises(TargetDiffersError, match=reason) as raised:
        run(folder_copy(folders()))
    assert "Nothing was replaced." in str(raised.value)
    assert stored(s3) == theirs


def test_a_source_that_changes_during_the_copy_is_refused(s3: Any) -> None:
    upload(s3, CONTENT)
    calls = Calls()

    def change(name: str) -> None:
        if name == "complete":
            upload(s3, {"train/a": b"FIRST"})

    calls.before_each = change
    with pytest.raises(SourceChangedError, match="changed while it was copied"):
        run(folder_copy(folders(calls)))


def test_an_object_that_is_added_during_the_copy_is_refused(s3: Any) -> None:
    upload(s3, CONTENT)
    calls = Calls()
    calls.before_each = lambda name: upload(s3, {"a": b"new"}) if name == "complete" else None
    with pytest.raises(MoveError):
        run(folder_copy(folders(calls)))


def without_checksums(*, kms: bool = False) -> None:
    """Make the objects of the source ones that were uploaded before S3 computed checksums, or with a key of KMS."""
    bucket = s3_backends["123456789012"]["aws"].buckets[SOURCE.bucket]
    for key in bucket.keys.values():
        key.checksum_algorithm = key.checksum_value = None
        key.encryption = "aws:kms" if kms else None


def in_parts(s3: Any, name: str, *parts: bytes) -> None:
    uri = SOURCE / name
    where = {"Bucket": uri.bucket, "Key": uri.key}
    upload_id = s3.create_multipart_upload(**where)["UploadId"]
    tags = [
        {
            "PartNumber": number,
            "ETag": s3.upload_part(**where, UploadId=upload_id, PartNumber=number, Body=body)["ETag"],
        }
        for number, body in enumerate(parts, start=1)
    ]
    s3.complete_multipart_upload(**where, UploadId=upload_id, MultipartUpload={"Parts": tags})


def test_objects_without_checksums_are_verified_by_etags(s3: Any) -> None:
    upload(s3, CONTENT)
    in_parts(s3, "train/d", b"12345678901", b"12345678901", b"123")
    without_checksums()
    calls = Calls()
    copy = folder_copy(folders(calls))
    run(copy)
    assert copy.progress().verified == {"etag": 4}
    assert calls.made.count("copy_part") == 3, "the parts have the sizes of the source's parts"
    assert "train/d" in stored(s3)


def test_objects_without_comparable_etags_are_verified_by_size(s3: Any) -> None:
    upload(s3, CONTENT)
    without_checksums(kms=True)
    copy = folder_copy(folders())
    run(copy)
    assert copy.progress().verified == {"size": 3}
    again = Calls()
    second = folder_copy(folders(again))
    run(second)
    assert second.progress().verified == {"size": 3}
    assert set(again.made) == {"page", "head"}, "the copies record their source in their metadata"
    assert verification_sentence({"checksum": 2, "size": 1}).startswith(
        "2 objects by the checksum of the whole object;"
    )


def test_a_copy_with_another_checksum_is_refused(s3: Any) -> None:
    """S3 would refuse such a copy itself; this is the check if it does not."""
    upload(s3, {"train/a": b"first"})
    calls = Calls()

    def damage(name: str) -> None:
        if name == "head" and stored(s3):
            upload(s3, {"train/a": b"fir5t"}, TARGET)

    calls.before_each = damage
    with pytest.raises(TargetDiffersError):
        run(folder_copy(folders(calls)))


def test_an_unfinished_upload_is_continued(s3: Any) -> None:
    upload(s3, CONTENT)
    first = Calls()

    def stop(name: str) -> None:
        if name == "copy_part" and first.made.count("copy_part") == 5:
            raise KilledError

    first.before_each = stop
    with pytest.raises(KilledError):
        run(folder_copy(folders(first)))
    calls = Calls()
    run(folder_copy(folders(calls)))
    assert calls.made.count("copy_part") == 3, "four of seven parts exist"
    assert "begin" not in calls.made
    assert stored(s3) == CONTENT
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=TARGET.bucket)


def test_an_upload_of_another_program_is_not_continued(s3: Any) -> None:
    upload(s3, CONTENT)
    uri = TARGET / "train/b"
    theirs = s3.create_multipart_upload(Bucket=uri.bucket, Key=uri.key)["UploadId"]
    s3.upload_part(Bucket=uri.bucket, Key=uri.key, UploadId=theirs, PartNumber=1, Body=b"99999999")
    run(folder_copy(folders()))
    assert stored(s3) == CONTENT


def test_a_missing_permission_is_an_error_of_the_caller(s3: Any) -> None:
    upload(s3, CONTENT)
    calls = Calls()

    def refuse(name: str) -> None:
        if name == "copy":
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "CopyObject")

    calls.before_each = refuse
    with pytest.raises(ClientError, match="AccessDenied"):
        run(folder_copy(folders(calls)))


def test_a_stopped_copy_begins_no_further_objects(s3: Any) -> None:
    upload(s3, {f"train/{number:02}": b"x" for number in range(20)})
    calls = Calls()
    copy = folder_copy(folders(calls))
    calls.before_each = lambda name: copy.stop() if name == "copy" else None
    copy.start()
    while not copy.wait(0.1):
        pass
    assert len(stored(s3)) == 1


def calls_of_a_copy(s3: Any) -> Calls:
    """Return the calls of an undisturbed copy, and delete the copy."""
    calls = Calls()
    run(folder_copy(folders(calls)))
    for name in stored(s3):
        s3.delete_object(Bucket=TARGET.bucket, Key=f"{TARGET.key}/{name}")
    return calls


def test_a_copy_that_is_killed_at_any_call_is_completed_by_the_next(s3: Any) -> None:
    content = CONTENT | {"dataset.json": b"{}"}
    upload(s3, content)
    counted = calls_of_a_copy(s3)
    s3.put_bucket_versioning(Bucket=TARGET.bucket, VersioningConfiguration={"Status": "Enabled"})
    for killed in kills(counted):
        with pytest.raises(KilledError):
            run(folder_copy(folders(killed)))
        if "dataset.json" in stored(s3):
            assert stored(s3) == content, f"killed at call {killed.kill_at}: the marker was copied before an object"
        copy = folder_copy(folders())
        run(copy)
        assert stored(s3) == content, f"killed at call {killed.kill_at}"
        assert copy.progress().verified == {"checksum": len(CONTENT)}
        versions = s3.list_object_versions(Bucket=TARGET.bucket, Prefix=f"{TARGET.key}/")["Versions"]
        assert len(versions) == len(content), f"killed at call {killed.kill_at}: an object was written twice"
        assert "Uploads" not in s3.list_multipart_uploads(Bucket=TARGET.bucket)
        for version in versions:
            s3.delete_object(Bucket=TARGET.bucket, Key=version["Key"], VersionId=version["VersionId"])
