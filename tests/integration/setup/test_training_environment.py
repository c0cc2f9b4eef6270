"""Horovod is built with MPI if MPI is installed, verified, and rebuilt when MPI is installed later; pip is a fake."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.setup.conftest import ROOT, Checkout

# A fake of pip: `wheel` writes a wheel with the build's variables unless pip's cache contains one, and `install`
# installs it unless the same version is installed.
PIP = """
caching=1 forced=0 folder= last=
for word in "$@"; do
    case "$word" in --no-cache-dir) caching=0 ;; --force-reinstall) forced=1 ;; esac
    [ "$last" != --wheel-dir ] || folder=$word
    last=$word
done
cached=${XDG_CACHE_HOME}/pip-horovod
installed=$(dirname "$0")/../horovod
case "$1 $last" in
"wheel "*)
    [ $caching = 1 ] && [ -e "$cached" ] || echo "Gloo${HOROVOD_WITH_MPI:+ MPI}" >"$cached"
    cp "$cached" "$folder/horovod-0.28.1.whl"
    ;;
*.whl) [ $forced = 0 ] && [ -e "$installed" ] || cp "$last" "$installed" ;;
esac
"""
PYTHON = f"""
case "$*" in
*setup/step.py*) exec "{sys.executable}" "$@" ;;
*"-m pip wheel"*) echo "compiled by|$0|$MAKEFLAGS" >>"$CALLS"; shift 2; exec "$(dirname "$0")/pip" "$@" ;;
*"-m venv --clear"*) rm -rf "$4"; mkdir -p "$4/bin"; cp "$PROGRAMS/venv-pip" "$4/bin/pip"; cp "$0" "$4/bin/python" ;;
*horovod*)
    [ -z "${{BROKEN:-}}" ] || {{ echo "ImportError: libmpi.so.40" >&2; exit 1; }}
    cat "$(dirname "$0")/../horovod"
    ;;
*) echo cpython-311 ;;
esac
"""
_SYSTEM = """
awk basename cat cksum cmp cp cut dirname getconf grep head ln ls mkdir mktemp mv rm sed sh sleep tail touch tr uname
"""
ENVIRONMENT = "an environment"


@pytest.fixture
def set_up(checkout: Checkout) -> Checkout:
    checkout.program("venv-pip", PIP)
    checkout.environment |= {
        "PYTHON": str(checkout.program("python3.11", PYTHON)),
        "PROGRAMS": str(checkout.programs),
        "CALLS": str(checkout.calls_file),
        "PATH": f"{checkout.programs}:{_system(checkout)}",
    }
    checkout.uv("")
    checkout.program(checkout.root / "training_container/native/build.sh", "")
    return checkout


def _system(checkout: Checkout) -> Path:
    """Return a folder with the system programs that set-up uses, except those of an installed MPI."""
    folder = checkout.programs.parent / "system"
    folder.mkdir()
    for name in _SYSTEM.split():
        (folder / name).symlink_to(str(shutil.which(name)))
    return folder


def install_mpi(checkout: Checkout) -> None:
    checkout.program("mpirun", 'echo "mpirun (Open MPI) 4.1.4"')
    checkout.program("mpicxx", "")


def horovod(checkout: Checkout) -> str:
    return (checkout.root / ENVIRONMENT / "horovod").read_text().strip()


def test_horovod_has_mpi_after_mpi_was_installed(set_up: Checkout) -> None:
    ended = set_up.run("setup/training.sh", ENVIRONMENT)
    assert (ended.returncode, horovod(set_up)) == (0, "Gloo"), ended.stderr
    assert "libopenmpi-dev" in ended.stderr
    install_mpi(set_up)
    ended = set_up.run("setup/training.sh", ENVIRONMENT)
    assert (ended.returncode, horovod(set_up)) == (0, "Gloo MPI"), ended.stderr
    assert "Horovod Gloo MPI" in ended.stdout


def test_horovod_is_compiled_through_a_path_without_blanks(set_up: Checkout) -> None:
    """Horovod's CMake files split TensorFlow's flags at blanks, and the environment's path contains blanks."""
    assert set_up.run("setup/training.sh", ENVIRONMENT).returncode == 0
    ((program, _),) = set_up.calls("compiled by")
    assert " " not in program
    assert " " in ENVIRONMENT


def test_horovod_is_compiled_on_all_processors_also_by_make(set_up: Checkout) -> None:
    """Its setup.py uses one processor with the variable of a `make` that has no jobs for it."""
    set_up.environment["MAKEFLAGS"] = " -j3 --jobserver-auth=3,4"
    assert set_up.run("setup/training.sh", ENVIRONMENT).returncode == 0
    ((_, make_flags),) = set_up.calls("compiled by")
    assert make_flags == f"-j{min(os.sysconf('SC_NPROCESSORS_ONLN'), 8)}"


def test_a_wheel_is_compiled_once_for_each_mpi(set_up: Checkout) -> None:
    install_mpi(set_up)
    for _ in range(2):
        assert set_up.run("setup/training.sh", ENVIRONMENT).returncode == 0
    assert sum(words[0] == "wheel" for words in set_up.calls("venv-pip") + set_up.calls("pip")) == 1


def test_a_wheel_without_the_mpi_that_is_present_fails_set_up_and_is_not_kept(set_up: Checkout) -> None:
    install_mpi(set_up)
    set_up.program("venv-pip", PIP.replace("${HOROVOD_WITH_MPI:+ MPI}", ""))
    ended = set_up.run("setup/training.sh", ENVIRONMENT)
    assert ended.returncode == 1
    assert "Horovod was built without MPI (it has: Gloo)" in ended.stderr
    assert "run 'make setup' again" in ended.stderr
    set_up.program("venv-pip", PIP)
    assert set_up.run("setup/training.sh", ENVIRONMENT).returncode == 0
    assert horovod(set_up) == "Gloo MPI"


def test_a_horovod_that_cannot_be_imported_fails_set_up_with_the_reason(set_up: Checkout) -> None:
    set_up.environment["BROKEN"] = "1"
    ended = set_up.run("setup/training.sh", ENVIRONMENT)
    assert ended.returncode == 1
    assert "ImportError: libmpi.so.40" in ended.stderr
    assert "cannot be imported" in ended.stderr


def test_make_rebuilds_the_environment_only_when_mpi_is_installed(set_up: Checkout) -> None:
    """The Makefile's rule, with the files that it depends on. The control set-up is not repeated."""
    for path in (ROOT / "Makefile", *ROOT.glob("*/*.mk")):
        (set_up.root / path.relative_to(ROOT)).parent.mkdir(exist_ok=True)
        shutil.copy(path, set_up.root / path.relative_to(ROOT))
    set_up.program(set_up.root / "setup/prerequisites.sh", "")

    def made() -> str:
        """Return the output of `make`, in which set-up reports the Horovod that it installed."""
        ended = subprocess.run(
            [str(shutil.which("make")), ".venv-training/.installed", f"PYTHON={set_up.environment['PYTHON']}"],
            cwd=set_up.root,
            env=set_up.environment | {"HOME": str(set_up.root)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    assert "Horovod Gloo" in made()
    assert "Horovod" not in made()
    install_mpi(set_up)
    assert "Horovod Gloo MPI" in made()
    assert "Horovod" not in made()
