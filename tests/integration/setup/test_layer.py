"""The Lambda layer contains wheels for Lambda on any machine, even in a checkout whose path contains blanks."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.setup.conftest import ROOT, Checkout
from tests.support.packages import needs

LIMIT = 250 * 1024**2
"""The unzipped size of a function with its layers
(https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html)."""
LAYERS = (ROOT / "build" / "layer" / "python", ROOT / "build" / "layer" / "catalog" / "python")

HANDLERS = {path.stem for path in (ROOT / "lambda").glob("*.py")} - {"__init__", "follow_ledger"}
"""The modules of the functions, without that of `catalog: dsql`, which has a second layer."""

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
    checkout.program(checkout.root / ".venv/bin/python", "")
    ended = checkout.run("setup/layer.sh", "build/layer", "layer")
    assert ended.returncode == 0, ended.stderr
    own = set() if machine == "Linux x86_64" else {"machine.so"}
    libraries = list((checkout.root / "build/layer").rglob("*.so"))
    assert {path.name for path in libraries} == {"x86_64-manylinux2014.so"} | own
    assert {path.parent for path in libraries} == {checkout.root / "build/layer/python/package"}
    for words in checkout.calls("uv"):
        assert words[-2:] == ["-r", f"{checkout.root}/setup/requirements/layer.txt"]
        assert "--require-hashes" in words
    assert checkout.calls("uv")


def test_the_function_of_the_catalog_has_its_requirements_in_a_separate_folder(checkout: Checkout) -> None:
    checkout.uv(UV)
    checkout.program(checkout.root / ".venv/bin/python", "")
    for words in (["build/layer", "layer"], ["build/layer/catalog", "catalog-function"]):
        ended = checkout.run("setup/layer.sh", *words)
        assert ended.returncode == 0, ended.stderr
    requirements = [words[-1] for words in checkout.calls("uv")]
    assert requirements[-1] == f"{checkout.root}/setup/requirements/catalog-function.txt"
    assert f"{checkout.root}/setup/requirements/layer.txt" in requirements
    assert list((checkout.root / "build/layer/python").rglob("*.so"))
    assert list((checkout.root / "build/layer/catalog/python").rglob("*.so"))


def test_functions_bring_the_pinned_sdk_with_the_services_that_they_call() -> None:
    services = (ROOT / "setup" / "layer-services.txt").read_text().split()
    script = """
import importlib, sys
for name in sys.argv[1].split(): importlib.import_module(f"lambda.{name}")
import boto3
for name in sys.argv[2].split(): boto3.client(name, region_name="us-east-1")
print(boto3.__version__, boto3.__file__)
"""
    without_site_packages = [sys.executable, "-S", "-c", script, " ".join(sorted(HANDLERS)), " ".join(services)]
    environment = {"PYTHONPATH": f"{ROOT}:{LAYERS[0]}"}
    ended = subprocess.run(without_site_packages, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    version, file = ended.stdout.split(maxsplit=1)
    assert Path(file.strip()).parent == LAYERS[0] / "boto3"
    assert f"boto3=={version} " in (ROOT / "requirements.txt").read_text()
    assert {path.name for path in (LAYERS[0] / "botocore" / "data").iterdir() if path.is_dir()} == set(services)


def test_functions_need_not_compile_the_layer() -> None:
    """Lambda cannot write to /opt, so each cold start would compile it."""
    sources = {path.with_suffix("") for path in LAYERS[0].rglob("*.py")}
    assert {path.parents[1] / path.name.partition(".")[0] for path in LAYERS[0].rglob("*.cpython-311.pyc")} == sources


def test_a_layer_has_the_same_bytes_in_another_folder(checkout: Checkout) -> None:
    """Otherwise each synthesis would deploy the layer again. A set is compiled in the order of its hashes."""
    module = "COLOURS = lambda name: name in {'red', 'green', 'blue', 'black'}"
    checkout.uv(UV.replace('touch "$target/package/$file"', f'echo "{module}" >"$target/package/colours.py"'))
    (checkout.root / ".venv/bin").mkdir(parents=True)
    (checkout.root / ".venv/bin/python").symlink_to(sys.executable)
    compiled = []
    for folder in ("build/layer", "build/another layer"):
        ended = checkout.run("setup/layer.sh", folder, "layer")
        assert ended.returncode == 0, ended.stderr
        (file,) = (checkout.root / folder).rglob("*.pyc")
        compiled.append(file.read_bytes())
    assert compiled[0] == compiled[1]


@needs("make setup-catalog")
def test_code_and_layers_of_the_catalogs_function_have_less_than_half_of_lambdas_limit() -> None:
    def size(folder: Path) -> int:
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

    assert 0 < sum(map(size, (*LAYERS, ROOT / "traingrid", ROOT / "lambda"))) < LIMIT / 2
    assert (LAYERS[1] / "sqlalchemy").is_dir()
    assert not (LAYERS[0] / "sqlalchemy").exists()
