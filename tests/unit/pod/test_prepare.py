"""Prepare: the files and folders of /opt/ml, the data of each kind of channel, and the reasons of failures."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, ReadTimeoutError

from tests.unit.pod.conftest import NAME, channel, request
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri, path_in_channel
from traingrid.job import failures
from traingrid.job.data_layout import layout_of
from traingrid.job.job import Channel
from traingrid.job.observed import TrainingJobDescription
from traingrid.job.state import JobState
from traingrid.pod import download
from traingrid.pod.failure import PodError
from traingrid.pod.host import Host
from traingrid.pod.opt_ml import MOUNTED
from traingrid.pod.prepare import prepare
from traingrid.transfers import object_range, retries

Make = Callable[..., Host]
Put = Callable[..., None]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "MAX_WAIT", 0.01)
    monkeypatch.setattr(retries, "backoff_seconds", lambda *_: 0.0)


def config(host: Host, name: str) -> Any:
    return json.loads((host.base / "input/config" / f"{name}.json").read_text())


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def failure_class(text: str) -> str:
    failure = failures.failure_of_end(TrainingJobDescription(state=JobState.FAILED, reason=text))
    assert failure
    return failure.name


def test_the_host_finds_itself_by_its_host_name(host: Make, s3: Any) -> None:
    one = host(number=1)
    prepare(one, s3)
    assert config(one, "resourceconfig") == {
        "current_host": f"{NAME}-1.{NAME}",
        "current_instance_type": "ml.c5.xlarge",
        "current_group_name": "homogeneousCluster",
        "hosts": [f"{NAME}-0.{NAME}", f"{NAME}-1.{NAME}"],
        "instance_groups": [
            {
                "instance_group_name": "homogeneousCluster",
                "instance_type": "ml.c5.xlarge",
                "hosts": [f"{NAME}-0.{NAME}", f"{NAME}-1.{NAME}"],
            }
        ],
        "network_interface_name": "eth0",
    }
    assert config(one, "hyperparameters") == {"epochs": "1"}


def test_a_pod_that_is_not_in_the_list_is_an_error(host: Make) -> None:
    with pytest.raises(PodError, match="'job-0-1-7' is not in TRAINGRID_HOSTS"):
        host(number=7)


def test_folders_are_writable_for_every_user(host: Make, s3: Any, put: Put) -> None:
    put("ckpt/step-1/weights", "w")
    one = host(request(CheckpointConfig={"S3Uri": "s3://data/ckpt"}))
    prepare(one, s3)
    for folder in (*MOUNTED, "output/data", "input/data", "checkpoints/step-1"):
        assert (one.base / folder).stat().st_mode & 0o777 == 0o777
    assert (one.base / "checkpoints/step-1/weights").stat().st_mode & 0o777 == 0o666


def test_inputdataconfig_has_the_settings_of_each_channel(host: Make, s3: Any, put: Put) -> None:
    put("set/a", "A")
    described = request({**channel(), "ContentType": "text/csv", "RecordWrapperType": "RecordIO"})
    prepare(one := host(described), s3)
    assert config(one, "inputdataconfig") == {
        "train": {
            "TrainingInputMode": "File",
            "S3DistributionType": "FullyReplicated",
            "RecordWrapperType": "RecordIO",
            "ContentType": "text/csv",
        }
    }


def test_objects_below_a_prefix_keep_their_paths(host: Make, s3: Any, put: Put) -> None:
    for key, text in {"set/": "", "set/a": "A", "set/b/c": "C", "set/b/": "", "set/empty": "", "settle": "x"}.items():
        put(key, text)
    prepare(one := host(request(channel())), s3)
    assert files(one.channel("train")) == {"a": "A", "b/c": "C", "empty": ""}


def test_the_channels_of_one_flat_folder_have_only_their_own_files(host: Make, s3: Any, put: Put) -> None:
    names = ("train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001", "labels.txt")
    for name in names:
        put(f"set/{name}", name)
    layout = layout_of(Storage(), S3Uri("data", "set"), ["train", "validation"])
    channels = {name: Channel(uri=f"s3://data/set/{name}/") for name in ("train", "validation")}
    described = [channel(name, source.uri) for name, source in layout.inputs(channels).items()]
    prepare(one := host(request(*described)), s3)
    prepared = {name: list(files(one.channel(name))) for name in ("train", "validation")}
    assert prepared == {"train": [*names[:2]], "validation": [names[2]]}


@pytest.mark.parametrize(
    ("prefix", "key", "path"),
    [
        ("set/", "set/a/b", "a/b"),
        ("set", "set/a", "a"),
        ("set", "settle/a", "settle/a"),
        ("set/a", "set/a", "a"),
        ("set/part-", "set/part-1", "part-1"),
        ("", "a/b", "a/b"),
    ],
)
def test_the_path_of_an_object_follows_from_prefix_and_key(prefix: str, key: str, path: str) -> None:
    assert path_in_channel(prefix, key) == path


def test_the_objects_of_a_manifest_keep_the_rest_of_their_keys(host: Make, s3: Any, put: Put) -> None:
    put("set/a", "A")
    put("set/deep/b", "B")
    put("set/c", "C")
    put("lists/one.manifest", json.dumps([{"prefix": "s3://data/set/"}, "a", "deep/b"]))
    prepare(one := host(request(channel(uri="s3://data/lists/one.manifest", S3DataType="ManifestFile"))), s3)
    assert files(one.channel("train")) == {"a": "A", "deep/b": "B"}


def test_sharded_objects_are_divided_among_the_hosts(host: Make, s3: Any, put: Put) -> None:
    for number in range(7):
        put(f"set/{number}", str(number))
    described = request(channel(S3DataDistributionType="ShardedByS3Key"))
    found = []
    for number in range(3):
        prepare(one := host(described, number=number, hosts=3), s3)
        found.append(files(one.channel("train")))
    assert [len(part) for part in found] == [3, 2, 2]
    assert sorted(key for part in found for key in part) == [str(number) for number in range(7)]


def test_a_large_object_is_downloaded_in_pieces(host: Make, s3: Any, monkeypatch: pytest.MonkeyPatch, put: Put) -> None:
    monkeypatch.setattr(download, "PIECE_BYTES", 1000)
    monkeypatch.setattr(object_range, "CHUNK_BYTES", 64)
    text = "".join(f"{number:08d}" for number in range(1000))
    put("set/large", text)
    prepare(one := host(request(channel())), s3)
    assert files(one.channel("train")) == {"large": text}


def test_a_second_run_repairs_what_an_interrupted_one_left(host: Make, s3: Any, put: Put) -> None:
    put("set/a", "A")
    one = host(request(channel()))
    one.channel("train").mkdir(parents=True)
    (one.channel("train") / "a").write_text("half of an older, longer file")
    prepare(one, s3)
    prepare(one, s3)
    assert files(one.channel("train")) == {"a": "A"}


class Lossy:
    """S3 that loses the connection of the first replies after some bytes."""

    def __init__(self, s3: Any, losses: int) -> None:
        self.s3, self.losses, self.requests = s3, losses, list[dict[str, str]]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.s3, name)

    def get_object(self, **arguments: str) -> Any:
        self.requests.append(arguments)
        reply = self.s3.get_object(**arguments)
        self.losses -= 1
        return {"Body": Broken(reply["Body"])} if self.losses >= 0 else reply


class Broken:
    def __init__(self, body: Any) -> None:
        self.body = body

    def close(self) -> None:
        self.body.close()

    def iter_chunks(self, _size: int) -> Any:
        yield self.body.read(3)
        raise ReadTimeoutError(endpoint_url="https://s3")


def test_a_lost_connection_continues_where_it_was_lost(host: Make, s3: Any, put: Put) -> None:
    put("set/a", "0123456789")
    lossy = Lossy(s3, losses=2)
    prepare(one := host(request(channel())), lossy)
    assert files(one.channel("train")) == {"a": "0123456789"}
    assert [arguments.get("Range") for arguments in lossy.requests] == [None, "bytes=3-9", "bytes=6-9"]


def test_an_object_that_is_replaced_during_its_download_is_an_error(host: Make, s3: Any, put: Put) -> None:
    put("set/a", "0123456789")

    class Replaced(Lossy):
        def get_object(self, **arguments: str) -> Any:
            put("set/a", "another")
            return super().get_object(**arguments)

    with pytest.raises(PodError, match="s3://data/set/a was replaced") as error:
        prepare(host(request(channel())), Replaced(s3, losses=0))
    assert failure_class(str(error.value)) == "data"


def test_an_empty_prefix_is_the_error_of_sagemaker(host: Make, s3: Any) -> None:
    with pytest.raises(PodError) as error:
        prepare(host(request(channel())), s3)
    text = 'No S3 objects found under S3 URL "s3://data/set/" given in input data source.'
    assert str(error.value) == f"ClientError: Data download failed:{text}"
    assert failure_class(str(error.value)) == "data"


@pytest.mark.parametrize("keys", [("set/part", "set/part/more"), ("set/part", "set/part/more/deep")])
def test_a_key_that_is_an_object_and_a_folder_is_an_error_of_the_data(
    host: Make, s3: Any, put: Put, keys: tuple[str, ...]
) -> None:
    for key in keys:
        put(key, "x")
    with pytest.raises(PodError, match=rf"s3://data/{keys[1]} .* Rename the object or the folder") as caught:
        prepare(host(request(channel())), s3)
    assert (
        failures.failure_of_end(TrainingJobDescription(state=JobState.FAILED, phase="Failed", reason=str(caught.value)))
        is failures.DATA
    )


def test_a_prefix_with_only_folder_markers_is_empty(host: Make, s3: Any, put: Put) -> None:
    put("set/")
    with pytest.raises(PodError, match="No S3 objects found"):
        prepare(host(request(channel())), s3)


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        ('[{"prefix": "s3://data/set/"}, "missing"]', 'No S3 objects found under S3 URL "s3://data/set/missing"'),
        ('[{"prefix": "s3://data/set/"}]', "No S3 objects found"),
        ('{"prefix": 1}', "is malformed"),
        ('[{"prefix": "s3://data/set/"}, "../other"]', "outside of its folder"),
    ],
)
def test_a_wrong_manifest_is_an_error_of_the_data(host: Make, s3: Any, put: Put, manifest: str, reason: str) -> None:
    put("set/../other", "x")
    put("one.manifest", manifest)
    with pytest.raises(PodError, match=reason) as error:
        prepare(host(request(channel(uri="s3://data/one.manifest", S3DataType="ManifestFile"))), s3)
    assert failure_class(str(error.value)) == "data"


def test_a_missing_bucket_is_an_error_of_the_data(host: Make, s3: Any) -> None:
    with pytest.raises(PodError, match="NoSuchBucket") as error:
        prepare(host(request(channel(uri="s3://nothing-here/set/"))), s3)
    assert failure_class(str(error.value)) == "data"


class Refusing:
    """S3 whose call of one operation fails with each of the errors, and then works."""

    def __init__(self, s3: Any, operation: str, *errors: Exception) -> None:
        self.s3, self.operation, self.errors = s3, operation, list(errors)

    def __getattr__(self, name: str) -> Any:
        return self._refuse if name == self.operation else getattr(self.s3, name)

    def _refuse(self, **arguments: Any) -> Any:
        if self.errors:
            raise self.errors.pop(0)
        return getattr(self.s3, self.operation)(**arguments)


def denied(operation: str) -> ClientError:
    text = (
        "User: arn:aws:sts::123456789012:assumed-role/training/eks-1 is not authorized to perform: s3:GetObject on "
        "resource: arn:aws:s3:::data/set/a because no identity-based policy allows it"
    )
    return ClientError({"Error": {"Code": "AccessDenied", "Message": text}}, operation)


def test_a_denied_request_names_the_role(host: Make, s3: Any, put: Put) -> None:
    put("set/a", "A")
    with pytest.raises(PodError) as error:
        prepare(host(request(channel())), Refusing(s3, "get_object", denied("GetObject")))
    assert str(error.value) == (
        "ClientError: Data download failed:Unable to download s3://data/set/: Access denied: role training is not "
        "allowed to perform s3:GetObject on arn:aws:s3:::data/set/a. Check the permissions of the role "
        "arn:aws:iam::123456789012:role/training, which the pod should have."
    )
    assert failure_class(str(error.value)) == "permission"


def test_a_pod_without_credentials_names_the_role(host: Make, s3: Any) -> None:
    with pytest.raises(PodError, match="Could not assume role arn:aws:iam::123456789012:role/training") as error:
        prepare(host(request(channel())), Refusing(s3, "list_objects_v2", NoCredentialsError()))
    assert failure_class(str(error.value)) == "permission"


@pytest.mark.parametrize("operation", ["list_objects_v2", "get_object", "head_object"])
def test_an_outage_is_waited_out(host: Make, s3: Any, put: Put, operation: str) -> None:
    put("set/a", "A")
    put("one.manifest", json.dumps([{"prefix": "s3://data/set/"}, "a"]))
    lost = [EndpointConnectionError(endpoint_url="https://s3"), ReadTimeoutError(endpoint_url="https://s3")]
    described = request(channel(), channel("second", "s3://data/one.manifest", S3DataType="ManifestFile"))
    prepare(one := host(described), Refusing(s3, operation, *lost))
    assert files(one.base / "input/data") == {"train/a": "A", "second/a": "A"}


def test_an_endless_outage_is_an_error_of_the_data(
    host: Make, s3: Any, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "PATIENCE_SECONDS", -1.0)
    put("set/a", "A")
    lost = EndpointConnectionError(endpoint_url="https://s3")
    with pytest.raises(PodError, match="Could not connect") as error:
        prepare(host(request(channel())), Refusing(s3, "get_object", lost))
    assert failure_class(str(error.value)) == "data"


def test_data_that_exceeds_the_volume_names_volume_gb(host: Make, s3: Any, put: Put) -> None:
    put("set/a", "A")
    small = request(channel(), ResourceConfig={"InstanceType": "ml.c5.xlarge", "VolumeSizeInGB": 1e-10})
    with pytest.raises(PodError, match=r"Insufficient disk space: .* Set a higher volume_gb") as error:
        prepare(host(small), s3)
    assert failure_class(str(error.value)) == "data"


def test_a_full_disk_names_volume_gb(host: Make, s3: Any, put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    put("set/a", "A")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(download.Downloads, "_fetch", full)
    with pytest.raises(PodError, match=r"the volume has 1 GB\. Set a higher volume_gb"):
        prepare(host(request(channel())), s3)


def test_a_mounted_channel_must_have_content(host: Make, s3: Any) -> None:
    one = host(request(channel(mode="FastFile")))
    one.channel("train").mkdir(parents=True)
    with pytest.raises(PodError, match='No S3 objects found under S3 URL "s3://data/set/"'):
        prepare(one, s3)
    (one.channel("train") / "a").touch()
    prepare(one, s3)
    assert config(one, "inputdataconfig")["train"]["TrainingInputMode"] == "File"


def test_a_channel_that_is_not_mounted_is_an_error(host: Make, s3: Any) -> None:
    system = {"FileSystemId": "fs-1", "DirectoryPath": "/data", "FileSystemType": "EFS", "FileSystemAccessMode": "ro"}
    one = host(request({"ChannelName": "train", "InputMode": "File", "DataSource": {"FileSystemDataSource": system}}))
    with pytest.raises(PodError, match="Unable to download train"):
        prepare(one, s3)
    one.channel("train").mkdir(parents=True)
    with pytest.raises(PodError, match="No files found in fs-1:/data"):
        prepare(one, s3)


def test_checkpoints_are_restored_from_their_folder_only(host: Make, s3: Any, put: Put) -> None:
    put("ckpt/step-1/weights", "w")
    put("ckpt-of-another/step-9", "x")
    prepare(one := host(request(CheckpointConfig={"S3Uri": "s3://data/ckpt"})), s3)
    assert files(one.base / "checkpoints") == {"step-1/weights": "w"}
    assert config(one, "checkpointconfig") == {"S3Uri": "s3://data/ckpt", "LocalPath": "/opt/ml/checkpoints"}


def test_a_job_without_earlier_checkpoints_starts_with_an_empty_folder(host: Make, s3: Any) -> None:
    described = request(CheckpointConfig={"S3Uri": "s3://data/ckpt", "LocalPath": "/opt/ml/elsewhere"})
    prepare(one := host(described), s3)
    assert files(one.base / "elsewhere") == {}


def test_more_objects_than_a_page_lists_are_downloaded(host: Make, s3: Any, put: Put) -> None:
    s3.meta.events.register("provide-client-params.s3.ListObjectsV2", lambda params, **_: {**params, "MaxKeys": 10})
    for number in range(25):
        put(f"set/{number:05d}", str(number))
    prepare(one := host(request(channel())), s3)
    assert len(files(one.channel("train"))) == 25
