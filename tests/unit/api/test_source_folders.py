"""Sources: packs local folders in a manifest, uploads the archives, and replaces the folders in the manifest."""

import io
import json
import os
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.support.sample_deployment import SAMPLE_BUCKETS
from traingrid import names
from traingrid.api import submit as submitting
from traingrid.api.source_folders import packed
from traingrid.api.submit import read_manifest, with_packed_sources
from traingrid.cli import main
from traingrid.cli import submit as command
from traingrid.errors import TraingridError, UsageError
from traingrid.grid.deployment import Deployment
from traingrid.grid.file import load_grid
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.line import iter_jobs
from traingrid.manifest.parse import parse

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
DATA = f"s3://{SAMPLE_BUCKETS['us-east-1']}/x"
OTHER_DATA = f"s3://{SAMPLE_BUCKETS['us-west-2']}/x"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    (folder / "part").mkdir(parents=True)
    (folder / "train.py").write_text("print('trained')\n")
    (folder / "part" / "model.py").write_text("size = 3\n")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "model.cpython-311.pyc").write_bytes(b"compiled")
    return folder


def line(**more: object) -> bytes:
    fields = {"region": "us-east-1", "s3_uri": DATA, "source": "./mine", "entry_point": "train.py"} | more
    return json.dumps(fields).encode() + b"\n"


def manifest_of(tmp_path: Path, content: bytes, name: str = "m.jsonl") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


def bucket(deployment: Deployment, region: str) -> str:
    return names.data_bucket(deployment.grid.name, deployment.account, region)


def test_a_folder_becomes_an_archive_in_the_lines_region(script: Path, tmp_path: Path, deployment: Deployment) -> None:
    content = b"# two lines\n" + line() + line(region="us-west-2", s3_uri=OTHER_DATA)
    found = packed(manifest_of(tmp_path, content), deployment)
    jobs = list(iter_jobs(parse(found.content, deployment), deployment, "0" * 8))
    assert [job.source for job in jobs] == [str(source.uri) for source in found.sources]
    assert [source.uri.bucket for source in found.sources] == [
        bucket(deployment, region) for region in ("us-east-1", "us-west-2")
    ]
    assert {source.uri.key for source in found.sources} == {found.sources[0].uri.key}
    assert [job.line for job in jobs] == [2, 3]
    with tarfile.open(fileobj=io.BytesIO(found.sources[0].archive)) as archive:
        assert archive.getnames() == ["part/model.py", "train.py"]


def test_an_archives_name_depends_only_on_its_files(script: Path, tmp_path: Path, deployment: Deployment) -> None:
    manifest = manifest_of(tmp_path, line())
    (first,) = packed(manifest, deployment).sources
    os.utime(script / "train.py", (1, 1))
    (script / "__pycache__" / "train.cpython-311.pyc").write_bytes(b"compiled")
    (again,) = packed(manifest, deployment).sources
    assert again == first
    (script / "train.py").write_text("print('more')\n")
    (other,) = packed(manifest, deployment).sources
    assert other.uri != first.uri


def test_in_csv_only_the_cell_changes(script: Path, tmp_path: Path, deployment: Deployment) -> None:
    text = f'# jobs: 2\r\nregion,s3_uri,source,entry_point,hp.note\r\nus-east-1,{DATA},mine,train.py,"a, b"\r\n'
    plain = f"us-west-2,{OTHER_DATA},,,\r\n"
    found = packed(manifest_of(tmp_path, (text + plain).encode(), "m.csv"), deployment)
    (source,) = found.sources
    assert found.content.decode() == text.replace(",mine,", f",{source.uri},") + plain


@pytest.mark.parametrize(
    "content", [b"us-east-1,s3://ragab-ml/x\n", b"\xff\xfe", b"", line(source="s3://ragab-ml/a.tar.gz")]
)
def test_a_manifest_without_local_sources_is_unchanged(tmp_path: Path, deployment: Deployment, content: bytes) -> None:
    found = packed(manifest_of(tmp_path, content), deployment)
    assert (found.content, found.sources) == (content, [])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"source": "./nowhere"}, r"m.jsonl:1: source ./nowhere: the folder .*nowhere does not exist"),
        ({"entry_point": "mine.py"}, r"m.jsonl:1: source ./mine: mine.py does not exist in "),
    ],
)
def test_a_missing_source_is_reported_with_its_line(
    script: Path, tmp_path: Path, deployment: Deployment, fields: dict[str, str], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        packed(manifest_of(tmp_path, line(**fields)), deployment)


def test_a_folder_of_data_is_refused(
    script: Path, tmp_path: Path, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traingrid.api.source_folder.MAX_BYTES", 10)
    monkeypatch.setattr("traingrid.api.source_folder.gzip", None)  # its size is checked before packing
    with pytest.raises(UsageError, match="Put data into a channel"):
        packed(manifest_of(tmp_path, line()), deployment)


def test_a_folder_outside_of_the_allowed_ones_is_refused_unread(
    script: Path, tmp_path: Path, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    manifest = manifest_of(tmp_path / "manifests", line(source="../mine"))
    monkeypatch.setattr("traingrid.api.source_folder.os.walk", None)
    with pytest.raises(UsageError, match="mine is outside of the manifest's folder") as refused:
        packed(manifest, deployment)
    assert refused.value.next_step == f"If you want to upload it, run the command in {tmp_path}."


def test_a_folder_below_the_current_one_is_packed(
    script: Path, tmp_path: Path, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "manifests").mkdir()
    monkeypatch.chdir(tmp_path)
    (source,) = packed(manifest_of(tmp_path / "manifests", line(source="../mine")), deployment).sources
    assert source.folder == script


def test_a_link_does_not_lead_outside(script: Path, tmp_path: Path, deployment: Deployment) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "mine").symlink_to(script)
    with pytest.raises(UsageError, match="outside of the manifest's folder"):
        packed(manifest_of(tmp_path / "manifests", line()), deployment)


@pytest.mark.parametrize("source", ["/", "."])
def test_the_root_and_the_home_folder_are_never_packed(
    tmp_path: Path, deployment: Deployment, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir("/")
    (tmp_path / "train.py").touch()
    with pytest.raises(UsageError, match="the root folder or your home folder"):
        packed(manifest_of(tmp_path, line(source=source)), deployment)


def test_all_wrong_sources_are_named_at_once(script: Path, tmp_path: Path, deployment: Deployment) -> None:
    content = line(source="./nowhere") + line() + line(entry_point="mine.py") + line(source="/") * 30
    with pytest.raises(UsageError) as refused:
        packed(manifest_of(tmp_path, content), deployment)
    assert refused.value.what.startswith("32 sources cannot be uploaded:\n")
    assert "m.jsonl:1: source ./nowhere: the folder" in refused.value.what
    assert "m.jsonl:3: source ./mine: mine.py does not exist in" in refused.value.what
    assert refused.value.what.endswith("... and 12 more")
    assert refused.value.next_step == "Fix these lines."


@pytest.mark.usefixtures("script")
def test_errors_of_sources_and_of_other_fields_are_named_at_once(tmp_path: Path, deployment: Deployment) -> None:
    content = line(hyperparamters={"lr": 1}) + line(source="nowhere") + line(epochs=1) + b"{broken\n"
    with pytest.raises(UsageError) as refused:
        with_packed_sources(manifest_of(tmp_path, content), deployment)
    first, *errors = refused.value.what.splitlines()
    assert first.endswith("m.jsonl is rejected and nothing was submitted.")
    places = [error.partition("m.jsonl:")[2].partition(":")[0] for error in errors]
    assert places == ["1", "3", "4", "2"]
    assert "source nowhere: the folder" in errors[-1]


@pytest.mark.parametrize("source", ["mine", "nowhere"])
@pytest.mark.usefixtures("script")
def test_errors_show_a_local_source_as_it_is_written(tmp_path: Path, deployment: Deployment, source: str) -> None:
    manifest = manifest_of(tmp_path, line(source=source, entry_point=None))
    with pytest.raises(TraingridError) as refused:
        read_manifest(manifest, deployment)
    assert f"m.jsonl:1: source '{source}': source requires entry_point" in refused.value.what
    assert "sources/" not in refused.value.what


def test_a_wrong_source_is_the_only_error_of_an_otherwise_valid_manifest(
    tmp_path: Path, deployment: Deployment
) -> None:
    with pytest.raises(UsageError, match="source nowhere: the folder") as refused:
        with_packed_sources(manifest_of(tmp_path, line(source="nowhere")), deployment)
    assert "rejected" not in refused.value.what


def test_a_local_folder_in_an_s3_manifest_is_refused_with_the_fix(deployment: Deployment) -> None:
    with pytest.raises(ManifestError) as rejected:
        parse(line(), deployment)
    (error,) = rejected.value.errors
    assert (error.field, "traingrid submit" in error.next_step) == ("source", True)


def test_the_manifest_of_the_example_scripts_is_accepted(deployment: Deployment) -> None:
    grid = load_grid(EXAMPLES / "digits" / "grid.yaml")
    digits = replace(deployment, grid=grid, account="123456789012")
    found = packed(EXAMPLES / "scripts" / "manifest.jsonl", digits)
    jobs = list(iter_jobs(parse(found.content, digits), digits, "0" * 8))
    assert [(job.entry_point, job.ranks) for job in jobs] == [("keras_fit.py", 2), ("custom_loop.py", 2)]
    assert {job.source for job in jobs} == {str(source.uri) for source in found.sources}


@pytest.fixture
def cloud(aws: None, deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Any:
    s3: Any = boto3.client("s3")
    s3.create_bucket(Bucket=bucket(deployment, "us-east-1"))
    monkeypatch.setattr(command, "find_deployment", lambda _grid: deployment)
    monkeypatch.setattr(
        submitting,
        "wait_for_report",
        lambda *_: {"state": "submitted", "jobs": 1, "submission": "ab", "batch_job": "b"},
    )
    return s3


def run(*arguments: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["traingrid", "submit", *arguments])
        try:
            main.main()
        except SystemExit as ended:
            return int(ended.code or 0)
    return 0


def stored(s3: Any, where: str) -> list[str]:
    return [item["Key"] for item in s3.list_objects_v2(Bucket=where).get("Contents", [])]


def test_submit_uploads_the_archive_and_then_the_manifest_that_names_it(
    script: Path,
    tmp_path: Path,
    deployment: Deployment,
    cloud: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(str(manifest_of(tmp_path, line()))) == 0
    (key,) = stored(cloud, bucket(deployment, "us-east-1"))
    assert key.startswith("sources/")
    assert f"uploaded source {script}: 2 files, 1 KiB packed -> s3://" in capsys.readouterr().out
    body = cloud.get_object(Bucket=deployment.manifest_bucket, Key="manifests/m.jsonl")["Body"].read()
    assert json.loads(body)["source"] == f"s3://{bucket(deployment, 'us-east-1')}/{key}"


def test_a_plan_lists_uploads_and_an_invalid_manifest_uploads_nothing(
    script: Path,
    tmp_path: Path,
    deployment: Deployment,
    cloud: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("--plan", str(manifest_of(tmp_path, line()))) == 1, "there is no data yet"
    assert f"would upload source {script}: 2 files" in capsys.readouterr().out
    assert run(str(manifest_of(tmp_path, line(instance_count=0)))) == 2
    assert stored(cloud, bucket(deployment, "us-east-1")) == stored(cloud, deployment.manifest_bucket) == []


@pytest.fixture
def messy(script: Path) -> Path:
    """The folder of a script as people have them: with an environment and files for secrets."""
    files = {
        ".env": "TOKEN=x",
        ".env.example": "TOKEN=",
        "credentials.ini": "[default]",
        "keys/server.pem": "x",
        ".DS_Store": "x",
        "._train.py": "x",
        "venv/lib/big.py": "x",
        "mine/pyvenv.cfg": "home = /usr/bin",
        "mine/lib/big.py": "x",
        ".aws/config": "[default]",
        "env/simulator.py": "class Environment: ...",
    }
    for name, text in files.items():
        (script / name).parent.mkdir(parents=True, exist_ok=True)
        (script / name).write_text(text)
    return script


def names_in(archive: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        return members.getnames()


def test_environments_and_files_for_secrets_are_left_out_and_named(
    messy: Path, tmp_path: Path, deployment: Deployment
) -> None:
    (source,) = packed(manifest_of(tmp_path, line()), deployment).sources
    assert names_in(source.archive) == [".env.example", "env/simulator.py", "part/model.py", "train.py"]
    assert sorted(source.left_out) == [".aws/", ".env", "credentials.ini", "keys/server.pem", "mine/", "venv/"]
    assert str(source).endswith(
        "; left out .aws/, mine/, venv/, .env, credentials.ini, keys/server.pem (.traingridignore decides)"
    )


def test_the_ignore_file_decides_what_is_packed(messy: Path, tmp_path: Path, deployment: Deployment) -> None:
    (messy / ".traingridignore").write_text("# mine\n!.env\n!keys/server.pem\n/part/\n*.txt\n!keep.txt\n")
    (messy / "notes.txt").write_text("x")
    (messy / "keep.txt").write_text("x")
    (source,) = packed(manifest_of(tmp_path, line()), deployment).sources
    kept = [".env", ".env.example", "env/simulator.py", "keep.txt", "keys/server.pem", "train.py"]
    assert names_in(source.archive) == kept
    assert sorted(source.left_out) == [".aws/", "credentials.ini", "mine/", "venv/"]


def test_a_file_with_a_secret_is_not_packed_unless_the_ignore_file_names_it(
    script: Path, tmp_path: Path, deployment: Deployment
) -> None:
    (script / "part" / "model.py").write_text(f"size = 3\nlogin('hf_{'a' * 34}')\n")
    manifest = manifest_of(tmp_path, line())
    with pytest.raises(UsageError, match=r"line 2 of part/model\.py looks like a secret") as refused:
        packed(manifest, deployment)
    assert "write part/model.py or !part/model.py into" in str(refused.value.next_step)
    assert "hf_" not in str(refused.value)
    (script / ".traingridignore").write_text("!part/model.py\n")
    (source,) = packed(manifest, deployment).sources
    assert names_in(source.archive) == ["part/model.py", "train.py"]


SECRET_FILES = [
    *("kaggle.json", ".databrickscfg", "secrets.toml", ".streamlit/secrets.toml", "secrets.json", "prod.env", ".s3cfg"),
    *(".boto", "rclone.conf", ".my.cnf", ".Renviron", "application_default_credentials.json", "client_secret_1.json"),
]


@pytest.mark.parametrize("name", SECRET_FILES)
def test_files_in_which_programs_store_secrets_are_left_out_and_named(
    script: Path, tmp_path: Path, deployment: Deployment, name: str
) -> None:
    (script / name).parent.mkdir(exist_ok=True)
    (script / name).write_text("password = hunter2")
    (source,) = packed(manifest_of(tmp_path, line()), deployment).sources
    assert names_in(source.archive) == ["part/model.py", "train.py"]
    assert source.left_out == (name,)


def test_a_link_out_of_the_folder_is_left_out_and_named_also_if_a_pattern_includes_it(
    script: Path, tmp_path: Path, deployment: Deployment
) -> None:
    (tmp_path / "config.json").write_text("{}")
    (script / "settings.txt").symlink_to(tmp_path / "config.json")
    (script / "data").symlink_to(tmp_path)
    (script / ".traingridignore").write_text("!settings.txt\n!data\n")
    (source,) = packed(manifest_of(tmp_path, line()), deployment).sources
    assert names_in(source.archive) == ["part/model.py", "train.py"]
    assert source.left_out == ("data (a link)", "settings.txt (a link)")


def test_a_link_in_the_folder_is_packed_as_the_file_that_it_names(
    script: Path, tmp_path: Path, deployment: Deployment
) -> None:
    (script / ".env").write_text("TOKEN=x")
    (script / ".ssh").mkdir()
    (script / ".ssh" / "config").write_text("Host *")
    for name, target in {"main.py": "train.py", "settings.txt": ".env", "hosts": ".ssh/config"}.items():
        (script / name).symlink_to(script / target)
    (script / "models").symlink_to(script / "part")
    (script / "loop").symlink_to("loop")
    (source,) = packed(manifest_of(tmp_path, line()), deployment).sources
    assert names_in(source.archive) == ["main.py", "part/model.py", "train.py"]
    assert sorted(source.left_out) == [".env", ".ssh/", "models (a link)"]


TOKEN = f"login('hf_{'a' * 34}')\n"


@pytest.mark.parametrize(
    "content",
    [
        TOKEN.encode("utf-16"),
        TOKEN.encode("utf-16-le"),
        TOKEN.encode("utf-32-be"),
        b'{"auths": {"index.docker.io": {"auth": "YW5uOmh1bnRlcjI="}}}',
        b"x = 1\n" * 2**18 + TOKEN.encode(),
        json.dumps({"cells": [{"source": "x" * 2**21}, {"source": TOKEN}]}).encode(),
    ],
    ids=["UTF-16", "UTF-16 without a mark", "UTF-32", "Docker's passwords", "a large text", "a large notebook"],
)
def test_a_secret_is_recognised_in_any_text(
    script: Path, tmp_path: Path, deployment: Deployment, content: bytes
) -> None:
    (script / "notes").write_bytes(content)
    with pytest.raises(UsageError, match="notes looks like a secret"):
        packed(manifest_of(tmp_path, line()), deployment)


def test_a_binary_file_is_packed(script: Path, tmp_path: Path, deployment: Deployment) -> None:
    (script / "weights.bin").write_bytes(bytes(range(256)) * 20 + TOKEN.encode())
    (source,) = packed(manifest_of(tmp_path, line()), deployment).sources
    assert "weights.bin" in names_in(source.archive)
