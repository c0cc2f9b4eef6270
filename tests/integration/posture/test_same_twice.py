"""Reproducible synthesis: unchanged inputs produce the same templates in any folder and at any time."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.stacks.templates import ROOT

PARTS = ("app.py", "cdk.json", "grid.yaml", "lambda", "stacks", "traingrid")


def a_checkout(folder: Path, *, written: float) -> Path:
    """Return a copy of all files that synthesis reads, with this modification time."""
    folder.mkdir()
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, folder / part)
    library = folder / "build" / "layer" / "python" / "library.py"
    library.parent.mkdir(parents=True)
    library.write_text("ANSWER = 42\n")
    for path in folder.rglob("*"):
        os.utime(path, (written, written))
    return folder


def synthesised_in(checkout: Path, out: Path, **environment: str) -> dict[str, str]:
    """Return all templates and asset manifests that the CDK CLI would get there, by file name."""
    context = json.loads((checkout / "cdk.json").read_text())["context"]
    subprocess.run(
        [sys.executable, checkout / "app.py"],
        cwd=checkout,
        env={**os.environ, "CDK_OUTDIR": str(out), "CDK_CONTEXT_JSON": json.dumps(context), **environment},
        check=True,
    )
    return {file.name: file.read_text() for kind in ("template", "assets") for file in out.glob(f"*.{kind}.json")}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("first")
    checkout = a_checkout(folder / "checkout", written=time.time())
    return synthesised_in(checkout, folder / "out", TZ="UTC", PYTHONHASHSEED="1", LC_ALL="C")


def test_another_folder_time_or_order_produces_the_same_templates(first: dict[str, str], tmp_path: Path) -> None:
    checkout = a_checkout(tmp_path / "another folder", written=1_000_000_000)
    (checkout / "traingrid" / "__pycache__").mkdir(exist_ok=True)
    (checkout / "traingrid" / "__pycache__" / "left.pyc").write_bytes(os.urandom(8))
    again = synthesised_in(checkout, tmp_path / "out", TZ="Asia/Tokyo", PYTHONHASHSEED="2", LC_ALL="C.UTF-8")
    assert len(first) == 2 * 11
    assert again == first


def test_a_change_of_a_function_changes_its_template(first: dict[str, str], tmp_path: Path) -> None:
    checkout = a_checkout(tmp_path / "checkout", written=time.time())
    with (checkout / "lambda" / "reconcile.py").open("a") as source:
        source.write("# changed\n")
    changed = synthesised_in(checkout, tmp_path / "out")
    assert {name for name in first if first[name] != changed[name]} == {
        f"traingrid-{stack}.{kind}.json" for stack in ("builds", "control") for kind in ("template", "assets")
    }
