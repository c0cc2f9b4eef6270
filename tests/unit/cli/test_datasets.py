"""Markers of `traingrid upload --version`, and refusals before anything is uploaded."""

import json
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from traingrid.api import data as api_data
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli import data
from traingrid.cli.datasets import marker_of
from traingrid.cli.main import cli
from traingrid.errors import UsageError
from traingrid.grid.deployment import Deployment


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deployment: Deployment) -> Path:
    (tmp_path / "day/train").mkdir(parents=True)
    (tmp_path / "day/train/a").write_bytes(b"12345")
    monkeypatch.setattr(data, "find_deployment", lambda _: deployment)
    monkeypatch.setattr(data, "upload_folder", lambda *_: pytest.fail("uploaded"))
    return tmp_path / "day"


def test_a_marker_counts_the_files_of_a_folder(folder: Path) -> None:
    options = {"dataset": "day", "version": "1", "campaign": None, "format": None}
    (folder / "train/_records.json").write_text("{}")
    files = [folder / "train/_records.json", folder / "train/a"]
    assert json.loads(marker_of(options, ["sensor=a=b"], files)) == {
        "dataset": "day",
        "version": "1",
        "attributes": {"sensor": "a=b"},
        "bytes": 5,
        "objects": 1,
    }


@pytest.mark.parametrize("words", [["sensor"], ["=x"], ["a=1", "a=2"]])
def test_an_invalid_attribute_is_refused(words: list[str]) -> None:
    with pytest.raises(UsageError, match="--attribute"):
        marker_of({}, words, [])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--campaign", "oslo"], "require --version"),
        (["--attribute", "a=1"], "require --version"),
        (["--version", "a/b"], "version: string should match pattern"),
        (["--version", "1", "--name", "a#b"], "dataset: string should match pattern"),
        (["--version", "1", "--campaign", "x" * 129], "campaign: string should have at most 128 characters"),
    ],
)
def test_nothing_is_uploaded_with_invalid_options(folder: Path, words: list[str], reason: str) -> None:
    ended = CliRunner().invoke(cli, ["upload", str(folder), "us-east-1", *words])
    assert isinstance(ended.exception, UsageError)
    assert reason in str(ended.exception)


def test_a_folder_with_a_marker_needs_no_version(folder: Path) -> None:
    (folder / "dataset.json").write_text("{}")
    ended = CliRunner().invoke(cli, ["upload", str(folder), "us-east-1", "--version", "1"])
    assert "has a marker, dataset.json, and --version would add another one" in str(ended.exception)


@pytest.mark.parametrize("version", [[], ["--version", "1"]])
def test_an_upload_lists_its_folder_once(folder: Path, version: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lists: list[Path] = []
    paths: list[list[str]] = []

    def files_below(path: Path) -> list[Path]:
        lists.append(path)
        return [path / "train/a"]

    def other_objects(_deployment: Deployment, _region: str, uploaded: Iterable[str], _target: S3Uri) -> list[str]:
        paths.append(list(uploaded))
        return ["b"]

    monkeypatch.setattr(api_data, "client", lambda *_: Mock())
    monkeypatch.setattr(data, "upload_folder", api_data.upload_folder)
    monkeypatch.setattr(data, "channels_sentence", lambda *_: "")
    monkeypatch.setattr(data, "register", lambda *_: {})
    monkeypatch.setattr(data, "registered_sentences", lambda _: [])
    monkeypatch.setattr(data, "other_objects", other_objects)
    for module in (data, api_data):
        monkeypatch.setattr(module, "files_below", files_below)
    ended = CliRunner().invoke(cli, ["upload", str(folder), "us-east-1", *version])
    assert ended.exit_code == 0, ended.output
    assert (lists, paths) == ([folder], [["train/a"]])
    assert "has 1 object that the folder does not have: b." in ended.stderr
