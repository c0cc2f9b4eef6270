"""The Lambda layer contains wheels for Lambda on any machine, even in a checkout whose path contains blanks."""

import pytest

from tests.integration.setup.conftest import Checkout

# A fake of pip: writes a module for the requested platform into the requested folder.
PIP = """
file=machine.so
while [ $# -gt 0 ]; do
    case "$1" in
    --target) target=$2 ;;
    --platform) file=$2.so ;;
    esac
    shift
done
mkdir -p "$target/package"
touch "$target/package/$file"
"""


@pytest.fixture
def filled(checkout: Checkout) -> Checkout:
    checkout.program(checkout.root / ".venv/bin/pip", PIP)
    return checkout


@pytest.mark.parametrize("machine", ["Linux x86_64", "Linux aarch64", "Darwin arm64"])
def test_the_layer_has_wheels_for_lambda_on_every_machine(filled: Checkout, machine: str) -> None:
    filled.program("uname", f'echo "{machine}"')
    ended = filled.run("setup/layer.sh", "build/layer")
    assert ended.returncode == 0, ended.stderr
    own = set() if machine == "Linux x86_64" else {"machine.so"}
    found = {path.name for path in (filled.root / "build/layer").rglob("*.so")}
    assert found == {"manylinux2014_x86_64.so"} | own
    assert {path.parent for path in (filled.root / "build/layer").rglob("*.so")} == {
        filled.root / "build/layer/python/package"
    }
    for words in filled.calls("pip"):
        assert words[-2:] == ["-r", f"{filled.root}/requirements-layer.txt"]
        assert "--require-hashes" in words
