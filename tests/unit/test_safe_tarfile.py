"""Safe tarfile: extraction is filtered in every Python 3.11, including versions without filters (before 3.11.4)."""

import importlib
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(params=["traingrid.safe_tarfile", "training_container.safe_tarfile"])
def old_python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module as Python 3.11.2 imports it."""
    module = importlib.import_module(request.param)
    with monkeypatch.context() as python:
        python.delattr(tarfile, "data_filter", raising=False)
        yield importlib.reload(module).tarfile
    importlib.reload(module)


def archive(entry: tarfile.TarInfo, content: bytes = b"") -> io.BytesIO:
    packed = io.BytesIO()
    entry.size = len(content)
    with tarfile.open(fileobj=packed, mode="w:gz") as members:
        members.addfile(entry, io.BytesIO(content))
    packed.seek(0)
    return packed


def test_an_ordinary_archive_is_unpacked(old_python: ModuleType, tmp_path: Path) -> None:
    with old_python.open(fileobj=archive(tarfile.TarInfo("part/model.py"), b"size = 3"), mode="r:gz") as members:
        members.extractall(tmp_path, filter="data")
    assert (tmp_path / "part" / "model.py").read_bytes() == b"size = 3"


@pytest.mark.parametrize(
    ("name", "kind", "link"),
    [
        ("../outside", tarfile.REGTYPE, ""),
        ("passwords", tarfile.SYMTYPE, "/etc/passwd"),
        ("above", tarfile.SYMTYPE, "../../outside"),
        ("disk", tarfile.BLKTYPE, ""),
    ],
)
def test_a_member_outside_of_the_folder_is_refused(
    *, old_python: ModuleType, tmp_path: Path, name: str, kind: bytes, link: str
) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, link
    with (
        old_python.open(fileobj=archive(entry), mode="r:gz") as members,
        pytest.raises(old_python.FilterError),
    ):
        members.extractall(tmp_path / "target", filter="data")


def test_the_product_extracts_with_this_tarfile_only() -> None:
    extracting = [
        path
        for folder in ("traingrid", "training_container", "lambda", "batch_job", "localcloud", "verification")
        for path in (ROOT / folder).rglob("*.py")
        if "extractall(" in path.read_text() and path.name != "safe_tarfile.py"
    ]
    assert len(extracting) == 5
    for path in extracting:
        assert "safe_tarfile import tarfile" in path.read_text(), path
        assert "import tarfile\n" not in path.read_text().replace("safe_tarfile import tarfile\n", ""), path
        assert path.read_text().count("extractall(") == path.read_text().count('filter="data")'), path
