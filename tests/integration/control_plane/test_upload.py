from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from localcloud.faults.plan import CallFault, Effect, FaultPlan
from localcloud.server.local_cloud import LocalCloud
from tests.integration.control_plane.account import Account
from traingrid.api.data import other_objects, upload_folder
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri


@pytest.fixture(autouse=True)
def no_faults_afterwards(cloud: LocalCloud) -> Iterator[None]:
    yield
    cloud.faults.set(FaultPlan())


def upload(account: Account, key: str, content: bytes = b"a manifest") -> str:
    return account.storage.write_new(S3Uri(account.deployment.manifest_bucket, key), content, "text/csv")


def versions(account: Account, key: str) -> list[str]:
    s3 = client("s3", account.deployment.grid.home)
    found = s3.list_object_versions(Bucket=account.deployment.manifest_bucket, Prefix=key).get("Versions", [])
    return [version["VersionId"] for version in found if version["Key"] == key]


@pytest.mark.parametrize("effect", ["lose_reply", "error_before", "error_after", "throttle"])
def test_an_upload_creates_one_version_despite_faults(account: Account, cloud: LocalCloud, effect: Effect) -> None:
    previous = upload(account, f"manifests/{effect}.csv")
    upload(account, f"manifests/{effect}.csv.report.json")
    cloud.faults.set(FaultPlan(calls=(CallFault(effect=effect, action="PutObject", times=1),)))
    uploaded = upload(account, f"manifests/{effect}.csv")
    assert versions(account, f"manifests/{effect}.csv") == [uploaded, previous]
    assert cloud.faults.struck() == {"calls/0": 1}


def test_an_upload_of_a_folder_names_the_objects_that_it_does_not_replace(account: Account, tmp_path: Path) -> None:
    region = account.deployment.grid.home
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("1")
    target = upload_folder(account.deployment, tmp_path, region, "points")
    for name in ("dataset.json", "_SUCCESS", "day_$folder$"):  # no data
        account.storage.write(target / name, b"", "application/json")
    assert other_objects(account.deployment, region, ["a.csv", "b.csv"], target) == []
    assert other_objects(account.deployment, region, ["a.csv"], target) == ["b.csv"]


def test_an_upload_that_s3_rejects_is_not_retried(account: Account, cloud: LocalCloud) -> None:
    with pytest.raises(ClientError, match="NoSuchBucket"):
        account.storage.write_new(S3Uri("nobody-has-it", "x"), b"", "text/csv")


def test_an_upload_that_never_succeeds_raises_the_error(
    account: Account, cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traingrid.aws.s3.backoff_seconds", lambda _tries, _cap: 0.0)
    cloud.faults.set(FaultPlan(calls=(CallFault(effect="error_before", action="PutObject"),)))
    with pytest.raises((ClientError, BotoCoreError), match="InternalError"):
        upload(account, "manifests/never.csv")
    assert cloud.faults.struck() == {"calls/0": 5}
    assert versions(account, "manifests/never.csv") == []
