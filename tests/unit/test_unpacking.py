"""Unpacking: nothing in an archive of another program is placed outside of its folder, or fills memory and disk."""

import gzip
import io
import os
import struct
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from traingrid import unpacking
from traingrid.unpacking import ArchiveError, ArchiveLimits, FolderConflictError, TooLargeError, shown, unpack

ROOT = Path(__file__).resolve().parents[2]
LIMITS = ArchiveLimits(size=2**24, members=1000, hint="Ask")
Pack = Callable[..., Path]


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", **values: object) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, link
    for key, value in values.items():
        setattr(entry, key, value)
    return entry


def packed(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        for entry, body in members:
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))
    return content.getvalue()


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    """Write an archive with these members, in a folder whose other files must not change."""
    (tmp_path / "neighbour").mkdir()
    (tmp_path / "neighbour" / ".bashrc").write_text("mine")

    def write(*members: tarfile.TarInfo | tuple[tarfile.TarInfo, bytes]) -> Path:
        path = tmp_path / "archive.tar.gz"
        path.write_bytes(packed(*(one if isinstance(one, tuple) else (one, b"") for one in members)))
        return path

    return write


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def beyond_the_longest_path() -> Iterator[tarfile.TarInfo | tuple[tarfile.TarInfo, bytes]]:
    """The members of an archive that leads Python's filter `data` out of the folder.

    Short links beside folders with long names make a path that the system resolves, and that is too long to be checked
    (https://github.com/python/cpython/issues/135034).
    """
    long, short = "d" * 247, ""
    for step in "abcdefghijklmnop":
        yield member(f"{short}{long}", tarfile.DIRTYPE)
        yield member(f"{short}{step}", tarfile.SYMTYPE, long)
        short += f"{step}/"
    yield member(f"{short}{'l' * 254}", tarfile.SYMTYPE, "../" * 16)
    yield member("escape", tarfile.SYMTYPE, f"{short}{'l' * 254}/../neighbour")
    yield member("file", tarfile.LNKTYPE, "escape/.bashrc")
    yield member("file"), b"theirs"
    yield member("escape/new"), b"theirs"


HOSTILE: dict[str, tuple[list[Any], str]] = {
    "above": ([(member("../outside"), b"x")], "'../outside' leads out of the folder"),
    "above within": ([(member("a/../../outside"), b"x")], "leads out of the folder"),
    "absolute": ([(member("/tmp/outside"), b"x")], "'/tmp/outside' leads out of the folder"),
    "device": ([member("disk", tarfile.BLKTYPE)], "'disk' is not a file, a folder or a link"),
    "terminal": ([member("tty", tarfile.CHRTYPE)], "'tty' is not a file"),
    "pipe": ([member("pipe", tarfile.FIFOTYPE)], "'pipe' is not a file"),
    "file and folder": ([(member("a"), b"x"), (member("a/b"), b"x")], "'a/b' is a file and a folder"),
    "folder and file": ([(member("a/b"), b"x"), (member("a"), b"x")], "'a' is a file and a folder"),
    "link and folder": (
        [(member("f"), b"x"), (member("a/b"), b"x"), member("a", tarfile.SYMTYPE, "f")],
        "'a' is a link",
    ),
    "long name": ([(member("n" * 300), b"x")], "is too long: the limits are 1,024 bytes, 255 for each part"),
    "long path": ([(member("n/" * 600 + "n"), b"x")], "is too long"),
    "deep": ([(member("n/" * 200 + "n"), b"x")], "is too long: .* 100 folders"),
    "large header": ([(member("x", pax_headers={"comment": "c" * 10**6}), b"")], "headers of more than 65,536 bytes"),
    "digits": ([(member("x", pax_headers={"comment": "1" * 5000}), b"")], "256 digits"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_member_is_refused_and_nothing_is_unpacked(pack: Pack, tmp_path: Path, name: str) -> None:
    members, reason = HOSTILE[name]
    with pytest.raises(ArchiveError, match=reason):
        unpack(pack((member("good"), b"x"), *members), tmp_path / "target", LIMITS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive.tar.gz", "neighbour"]


def test_links_beyond_the_longest_path_lead_nowhere(pack: Pack, tmp_path: Path) -> None:
    archive = pack(*beyond_the_longest_path())
    assert {"escape", "file"} & set(unpack(archive, tmp_path / "target", LIMITS)) == {"escape"}
    assert content(tmp_path / "neighbour") == {".bashrc": b"mine"}
    assert content(tmp_path / "target") == dict.fromkeys(("file", "escape/new"), b"theirs")


@pytest.mark.parametrize(
    "link",
    ["/etc/passwd", "../neighbour/.bashrc", "a/../../neighbour/.bashrc", "missing", "loop", ".", "folder", "l" * 2000],
)
@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_a_link_to_something_else_than_a_file_of_the_archive_is_left_out(
    pack: Pack, tmp_path: Path, kind: bytes, link: str
) -> None:
    archive = pack(
        member("folder", tarfile.DIRTYPE),
        member("back", kind, "loop"),
        member("loop", kind, "back"),
        member("link", kind, link),
        (member("file"), b"x"),
    )
    assert set(unpack(archive, tmp_path / "target", LIMITS)) == {"back", "loop", "link"}
    assert content(tmp_path / "target") == {"file": b"x"}
    assert not any(path.is_symlink() for path in (tmp_path / "target").rglob("*"))


def test_nothing_is_written_through_a_link(pack: Pack, tmp_path: Path) -> None:
    archive = pack(member("link", tarfile.SYMTYPE, "../neighbour"), (member("link/.bashrc"), b"theirs"))
    assert unpack(archive, tmp_path / "target", LIMITS) == ["link"]
    assert content(tmp_path / "neighbour") == {".bashrc": b"mine"}
    assert content(tmp_path / "target") == {"link/.bashrc": b"theirs"}


def test_links_to_files_of_the_archive_are_these_files(pack: Pack, tmp_path: Path) -> None:
    archive = pack(
        member("snapshots/main/model.bin", tarfile.SYMTYPE, "../../blobs/f00d"),
        (member("blobs/f00d"), b"weights"),
        member("second", tarfile.LNKTYPE, "blobs/f00d"),
        member("chain", tarfile.SYMTYPE, "second"),
    )
    assert unpack(archive, tmp_path / "target", LIMITS) == []
    names = ("snapshots/main/model.bin", "blobs/f00d", "second", "chain")
    assert content(tmp_path / "target") == dict.fromkeys(names, b"weights")
    assert not any(path.is_symlink() for path in (tmp_path / "target").rglob("*"))


def test_files_on_a_file_system_without_links_are_copied_within_the_limits(
    pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    archive = pack((member("a"), b"x" * 20_000), member("b", tarfile.LNKTYPE, "a"))
    assert unpack(archive, tmp_path / "target", LIMITS) == []
    assert content(tmp_path / "target") == dict.fromkeys("ab", b"x" * 20_000)
    with pytest.raises(TooLargeError):
        unpack(archive, tmp_path / "other", ArchiveLimits(size=35_000, members=9, hint=""))


def test_modes_are_those_of_a_program_or_a_file(pack: Pack, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    users = os.umask(0o022)
    request.addfinalizer(lambda: os.umask(users))
    unpack(pack(member("run", mode=0o6777), member("text", mode=0o666)), tmp_path / "target", LIMITS)
    assert [(tmp_path / "target" / name).stat().st_mode & 0o7777 for name in ("run", "text")] == [0o755, 0o644]


def test_a_later_member_replaces_an_earlier_one(pack: Pack, tmp_path: Path) -> None:
    archive = pack(
        *((member("a"), b"first"), (member("a"), b"second")),
        member("a", tarfile.LNKTYPE, "a"),
        *(member("b", tarfile.LNKTYPE, "a"), (member("b"), b"own")),
    )
    assert unpack(archive, tmp_path / "target", LIMITS) == []
    assert content(tmp_path / "target") == {"a": b"second", "b": b"own"}


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_zeros_are_not_unpacked_beyond_the_limit(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    entry = member("zeros", size=2**40)
    (tmp_path / "a").write_bytes(compress(entry.tobuf() + bytes(2**25)))
    with pytest.raises(TooLargeError, match=r"its files have more than 16,777,216 bytes\. Ask"):
        unpack(tmp_path / "a", tmp_path / "target", LIMITS)
    (tmp_path / "b").write_bytes(compress(packed_plainly() + bytes(2**25)))
    with pytest.raises(TooLargeError):
        unpack(tmp_path / "b", tmp_path / "target", LIMITS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def packed_plainly() -> bytes:
    return gzip.decompress(packed((member("a"), b"x")))


def test_a_sparse_file_is_not_unpacked_beyond_the_limit(tmp_path: Path) -> None:
    header = bytearray(member("holes", tarfile.GNUTYPE_SPARSE).tobuf(tarfile.GNU_FORMAT))
    header[386:410] = b"%011o\0%011o\0" % (2**32, 0)  # one empty piece, 4 GiB after the start
    header[483:495] = b"%011o\0" % 2**32
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    (tmp_path / "a").write_bytes(bytes(header) + bytes(10240))
    with pytest.raises(TooLargeError):
        unpack(tmp_path / "a", tmp_path / "target", LIMITS)


def test_many_files_are_not_unpacked_beyond_the_limit(pack: Pack, tmp_path: Path) -> None:
    with pytest.raises(TooLargeError, match=r"it has more than 1,000 files\. Ask"):
        unpack(pack(*(member(f"{number}") for number in range(1001))), tmp_path / "target", LIMITS)
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.LNKTYPE])
def test_folders_on_the_way_to_files_count(pack: Pack, tmp_path: Path, kind: bytes) -> None:
    deep = [member(f"{number}/" + "x/" * 90 + "f", kind, "file") for number in range(11)]
    with pytest.raises(TooLargeError, match=r"it has more than 1,000 files\. Ask"):
        unpack(pack(member("file"), *deep), tmp_path / "target", LIMITS)
    assert not (tmp_path / "target").exists()


def test_as_many_files_and_folders_as_the_limit_are_unpacked(pack: Pack, tmp_path: Path) -> None:
    limits = ArchiveLimits(size=2**20, members=4, hint="Ask")
    archive = pack(member("a", tarfile.DIRTYPE), member("a/b/c"), member("a/d"))
    unpack(archive, tmp_path / "target", limits)
    assert len(list((tmp_path / "target").rglob("*"))) == 4


def test_many_links_are_not_kept_in_memory(pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "_MAX_LINKS", 10)
    with pytest.raises(ArchiveError, match="more than 10 links"):
        unpack(pack(*(member(f"{n}", tarfile.SYMTYPE, "x") for n in range(11))), tmp_path / "target", LIMITS)


def test_a_header_that_points_back_is_refused(tmp_path: Path) -> None:
    header = bytearray(member("again").tobuf(tarfile.GNU_FORMAT))
    header[124:136] = struct.pack(">B3xq", 0xFF, -1024).replace(b"\0\0\0", b"\xff\xff\xff", 1)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    (tmp_path / "a").write_bytes(packed_plainly()[:1024] + bytes(header) + bytes(10240))
    with pytest.raises(ArchiveError, match="points to a place before it"):
        unpack(tmp_path / "a", tmp_path / "target", LIMITS)


@pytest.mark.parametrize(
    "damaged",
    [b"", b"no archive", packed((member("a"), b"x"))[:-8], b"\x1f\x8b"],
    ids=["empty", "a text", "cut off", "only two bytes"],
)
def test_a_damaged_archive_is_refused(tmp_path: Path, damaged: bytes) -> None:
    (tmp_path / "a").write_bytes(damaged)
    with pytest.raises(ArchiveError):
        unpack(tmp_path / "a", tmp_path / "target", LIMITS)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_an_archive_without_its_end_is_refused(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    whole = gzip.decompress(packed((member("a"), b"x"), (member("b"), b"y")))
    for cut in (1024, 1024 + 511, 1536, 2048):
        (tmp_path / "a").write_bytes(compress(whole[:cut]))
        with pytest.raises(ArchiveError):
            unpack(tmp_path / "a", tmp_path / "target", LIMITS)
    damaged = whole[:1024] + b"x" * 512 + whole[1536:]
    (tmp_path / "a").write_bytes(compress(damaged))
    with pytest.raises(ArchiveError, match="damaged after its first 1,024 bytes"):
        unpack(tmp_path / "a", tmp_path / "target", LIMITS)
    (tmp_path / "a").write_bytes(compress(whole[:2560]))
    assert unpack(tmp_path / "a", tmp_path / "target", LIMITS) == [], "tools write one block of zeros, two or twenty"


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_second_archive_in_the_same_file_is_refused(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    (tmp_path / "a").write_bytes(compress(packed_plainly()) + compress(packed_plainly()))
    with pytest.raises(ArchiveError, match="has more after its end"):
        unpack(tmp_path / "a", tmp_path / "target", LIMITS)
    assert not (tmp_path / "target").exists()


def test_files_are_added_to_a_folder_but_not_through_its_links(pack: Pack, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "notes").write_text("mine")
    (target / "file").symlink_to(tmp_path / "neighbour" / ".bashrc")
    unpack(pack((member("file"), b"x"), (member("a/b"), b"y")), target, LIMITS)
    assert content(target) == {"notes": b"mine", "file": b"x", "a/b": b"y"}
    (target / "link").symlink_to(tmp_path / "neighbour")
    for name in ("link/.bashrc", "notes/a", "a"):
        with pytest.raises(FolderConflictError, match="move it, or use another folder"):
            unpack(pack((member("before"), b"x"), (member(name), b"x")), target, LIMITS)
    assert not (target / "before").exists()
    assert content(tmp_path / "neighbour") == {".bashrc": b"mine"}


def test_the_disk_limits_an_archive(tmp_path: Path) -> None:
    limits = ArchiveLimits.of_disk(tmp_path, "Ask")
    disk = os.statvfs(tmp_path)
    assert 0 < limits.size < disk.f_blocks * disk.f_frsize
    assert limits.members > 0


def test_an_archive_limits_itself() -> None:
    assert ArchiveLimits.of_archive(10, "").size == 4 * 2**30
    assert ArchiveLimits.of_archive(10**9, "").size == 10**11


def test_links_that_were_left_out_are_named() -> None:
    assert shown([]) == ""
    assert shown(["a", "b"]).startswith("Left out 'a', 'b': links to places")
    assert " and 2 more: " in shown([str(number) for number in range(12)])


def test_the_product_and_the_image_unpack_in_the_same_way_and_in_no_other() -> None:
    texts = {path.read_text() for path in ROOT.glob("t*/unpacking.py")}
    assert len(texts) == 1
    folders = ("traingrid", "training_container", "lambda", "batch_job", "localcloud", "verification", "examples")
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        for call in ("extractall(", "unpack_archive(", "data_filter"):
            assert call not in path.read_text(), path


def test_the_oldest_python_of_debian_unpacks(pack: Pack, tmp_path: Path) -> None:
    python = next((path for path in [Path("/usr/bin/python3.11")] if path.exists()), sys.executable)
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path; import unpacking as u; "
        "print(u.unpack(Path(sys.argv[2]), Path(sys.argv[3]), u.ArchiveLimits.of_archive(1, '')))"
    )
    archive = pack((member("a/b"), b"x"), member("c", tarfile.SYMTYPE, "/etc/passwd"))
    command = [python, "-I", "-c", script, ROOT / "training_container", archive, tmp_path / "target"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "['c']\n"
    assert content(tmp_path / "target") == {"a/b": b"x"}
