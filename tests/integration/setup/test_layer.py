"""The Lambda layer contains wheels for Lambda on any machine, even in a checkout whose path contains blanks."""

from pathlib import Path

import pytest

from tests.integration.setup.conftest import ROOT, Checkout
from tests.support.packages import needs

LIMIT = 250 * 1024**2
"""The unzipped size of a function with its layers
(https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html)."""
LAYERS = (ROOT / "build" / "layer" / "python", ROOT / "build" / "layer" / "catalog" / "python")

# A fake of uv: writes a module for the requested platform into the requested folder.
UV = """
file=machine.so
while [ $# -gt 0 ]; do
    case "$1" in
    --target) target=$2 ;;
    --python-platform) file=$2.so ;;
    esac
    shift
done
mkdir -p "$target/package"
touch "$target/package/$file"
"""


@pytest.mark.parametrize("machine", ["Linux x86_64", "Linux aarch64", "Darwin arm64"])
def test_the_layer_has_wheels_for_lambda_on_every_machine(checkout: Checkout, machine: str) -> None:
    checkout.uv(UV, machine)
    ended = checkout.run("setup/layer.sh", "build/layer")
    assert ended.returncode == 0, ended.stderr
    own = set() if machine == "Linux x86_64" else {"machine.so"}
    libraries = list((checkout.root / "build/layer").rglob("*.so"))
    assert {path.name for path in libraries} == {"x86_64-manylinux2014.so"} | own
    assert {path.parent for path in libraries} == {checkout.root / "build/layer/python/package"}
    for words in checkout.calls("uv"):
        assert words[-2:] == ["-r", f"{checkout.root}/requirements-layer.txt"]
        assert "--require-hashes" in words
    assert checkout.calls("uv")


def test_the_function_of_the_catalog_has_its_requirements_in_a_separate_folder(checkout: Checkout) -> None:
    checkout.uv(UV)
    for words in (["build/layer"], ["build/layer/catalog", "requirements-catalog-function.txt"]):
        ended = checkout.run("setup/layer.sh", *words)
        assert ended.returncode == 0, ended.stderr
    requirements = [words[-1] for words in checkout.calls("uv")]
    assert requirements[-1] == f"{checkout.root}/requirements-catalog-function.txt"
    assert f"{checkout.root}/requirements-layer.txt" in requirements
    assert list((checkout.root / "build/layer/python").rglob("*.so"))
    assert list((checkout.root / "build/layer/catalog/python").rglob("*.so"))


@needs("make setup-catalog")
def test_code_and_layers_of_the_catalogs_function_have_less_than_half_of_lambdas_limit() -> None:
    def size(folder: Path) -> int:
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

    assert 0 < sum(map(size, (*LAYERS, ROOT / "traingrid", ROOT / "lambda"))) < LIMIT / 2
    assert (LAYERS[1] / "sqlalchemy").is_dir()
    assert not (LAYERS[0] / "sqlalchemy").exists()
