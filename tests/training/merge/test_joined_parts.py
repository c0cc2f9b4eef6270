"""Archives of models are unpacked, and their files are joined unless they conflict."""

import io
import tarfile
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from training_container.merge.parts import MergeError, MergePart, join, unpack

NAMES = ("part-000-0a1b2c3d-0.tar.gz", "part-001-0a1b2c3d-3.tar.gz")


def archive(path: Path, **files: str) -> None:
    with tarfile.open(path, "w:gz") as opened:
        for name, text in files.items():
            member = tarfile.TarInfo(name.replace("__", "/"))
            member.size = len(text)
            opened.addfile(member, io.BytesIO(text.encode()))


@pytest.fixture
def channel(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    (tmp_path / "scratch").mkdir()
    return tmp_path / "models"


def unpacked(channel: Path, *contents: dict[str, str]) -> list[MergePart]:
    for name, files in zip(NAMES, contents, strict=True):
        archive(channel / name, **files)
    return unpack(channel, channel.parent / "scratch", len(contents))


def test_the_parts_are_those_of_the_names_in_their_order(channel: Path) -> None:
    parts = unpacked(channel, {"a": "1"}, {"b": "2"})
    assert [str(part) for part in parts] == ["job 0 of 0a1b2c3d", "job 3 of 0a1b2c3d"]
    assert [(part.folder / name).read_text() for part, name in zip(parts, "ab", strict=True)] == ["1", "2"]


def test_a_missing_model_is_noticed(channel: Path) -> None:
    archive(channel / NAMES[0], a="1")
    with pytest.raises(MergeError, match=r"^The channel has 1 models instead of 2\."):
        unpack(channel, channel.parent / "scratch", 2)


def test_a_truncated_archive_is_named(channel: Path) -> None:
    archive(channel / NAMES[0], a="1" * 1000)
    content = (channel / NAMES[0]).read_bytes()
    (channel / NAMES[0]).write_bytes(content[: len(content) // 2])
    with pytest.raises(MergeError, match=r"^The model of job 0 of 0a1b2c3d cannot be unpacked: "):
        unpack(channel, channel.parent / "scratch", 1)


def test_an_archive_cannot_write_outside_of_its_folder(channel: Path) -> None:
    with pytest.raises(MergeError, match=r"^The model of job 0 of 0a1b2c3d cannot be unpacked: "):
        unpacked(channel, {"..__x": "1"}, {"b": "2"})
    assert not (channel.parent / "scratch" / "x").exists()


def test_the_files_of_all_parts_become_one_model(channel: Path, tmp_path: Path) -> None:
    parts = unpacked(channel, {"rows-0.csv": "1", "same": "x"}, {"deep__rows-1.csv": "2", "same": "x"})
    assert join(parts, tmp_path / "model", "shared") == 3
    found = {str(path.relative_to(tmp_path / "model")) for path in (tmp_path / "model").rglob("*") if path.is_file()}
    assert found == {"rows-0.csv", "deep/rows-1.csv", "same"}
    assert (tmp_path / "model" / "deep" / "rows-1.csv").read_text() == "2"


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"rows": "1"}, {"rows": "2"}, "The file rows of job 3 of 0a1b2c3d differs from that of job 0 of 0a1b2c3d."),
        ({"rows": "1"}, {"rows__a": "2"}, "The file rows/a of job 3 of 0a1b2c3d needs a folder, where job 0"),
        ({"rows__a": "1"}, {"rows": "2"}, "The file rows of job 3 of 0a1b2c3d is a folder of job 0 of 0a1b2c3d."),
    ],
)
def test_conflicting_names_are_rejected_and_nothing_is_moved(
    channel: Path, tmp_path: Path, first: dict[str, str], second: dict[str, str], expected: str
) -> None:
    parts = unpacked(channel, {"a": "0"} | first, second)
    with pytest.raises(MergeError) as error:
        join(parts, tmp_path / "model", "shared")
    assert str(error.value).startswith(expected)
    assert not (tmp_path / "model").exists()


def test_in_folders_names_do_not_conflict(channel: Path, tmp_path: Path) -> None:
    parts = unpacked(channel, {"rows": "1"}, {"rows": "2"})
    assert join(parts, tmp_path / "model", "folders") == 2
    assert [(tmp_path / "model" / f"0a1b2c3d-{index}" / "rows").read_text() for index in (0, 3)] == ["1", "2"]


def test_links_keep_their_targets_and_conflict_like_files(channel: Path, tmp_path: Path) -> None:
    first, second = unpacked(channel, {"a": "1", "deep__b": "2"}, {"a": "1", "deep__c": "3"})
    for part in (first, second):
        (part.folder / "latest").symlink_to("a")
    assert join([first, second], tmp_path / "model", "shared") == 4
    assert (tmp_path / "model" / "latest").readlink() == Path("a")
    (second.folder / "latest").unlink()
    (second.folder / "latest").symlink_to("deep")
    with pytest.raises(MergeError, match=r"^The file latest of job 3 of 0a1b2c3d differs from that of job 0"):
        join([first, second], tmp_path / "other", "shared")
    (first.folder / "latest").unlink()
    (first.folder / "latest").mkdir()
    (first.folder / "latest" / "x").write_text("x")
    with pytest.raises(MergeError, match=r"^The file latest/x of job 0 of 0a1b2c3d needs a folder, where job 3"):
        join([second, first], tmp_path / "other", "shared")
    assert not (tmp_path / "other").exists()


def test_hard_links_of_an_archive_are_unpacked(channel: Path) -> None:
    with tarfile.open(channel / NAMES[0], "w:gz") as opened:
        for name in ("a", "b"):
            member = tarfile.TarInfo(name)
            member.size = 1
            opened.addfile(member, io.BytesIO(b"1"))
        link = tarfile.TarInfo("c")
        link.type, link.linkname = tarfile.LNKTYPE, "a"
        opened.addfile(link)
    (part,) = unpack(channel, channel.parent / "scratch", 1)
    assert {path.name: path.read_text() for path in part.folder.iterdir()} == dict.fromkeys("abc", "1")


def parts_with(files: int, folder: Path) -> list[MergePart]:
    parts = [MergePart(submission="0a1b2c3d", index=index, folder=folder / str(index)) for index in range(4)]
    for part in parts:
        part.folder.mkdir(parents=True)
        for number in range(files):
            (part.folder / f"{part.index}-{number}").touch()
    return parts


def peak(run: Callable[[], object]) -> int:
    """Return the bytes that a function allocates at most."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_many_files_are_joined_in_linear_time_and_bounded_memory(tmp_path: Path) -> None:
    parts = parts_with(1000, tmp_path / "parts")
    began = time.process_time()
    most = peak(lambda: join(parts, tmp_path / "model", "shared"))
    assert len(list((tmp_path / "model").iterdir())) == 4000
    assert time.process_time() - began < 20  # a comparison of all pairs takes more than 40 s
    assert most < 2_000_000  # pathlib keeps a table of names; a list of all paths has more


def test_the_memory_of_an_archive_does_not_grow_with_its_files(channel: Path) -> None:
    found = []
    for count in (100, 2000):
        archive(channel / NAMES[0], **{f"file-{number}": "1" for number in range(count)})
        (channel.parent / str(count)).mkdir()
        found.append(peak(partial(unpack, channel, channel.parent / str(count), 1)))
    assert found[1] < found[0] + 200_000
