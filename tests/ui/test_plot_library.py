"""The plot library: the package contains the files that npm's lock file pins."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VENDORED = ROOT / "traingrid/ui/static/uplot"


@pytest.mark.parametrize("path", ["dist/uPlot.iife.min.js", "dist/uPlot.min.css", "LICENSE"])
def test_the_package_contains_the_locked_version(path: str) -> None:
    source = ROOT / "setup/ui/node_modules/uplot" / path
    assert (VENDORED / source.name).read_bytes() == source.read_bytes(), "run `make ui-library`"
