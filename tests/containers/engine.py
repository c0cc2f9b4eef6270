"""Engine: runs podman, buildah and the scripts of containers/ for tests."""

import os
import subprocess
from pathlib import Path

from tests.support.packages import CONTAINERS, require

REPOSITORY = Path(__file__).resolve().parents[2]
PODMAN = (REPOSITORY / "containers" / "podman.sh").as_posix()


def podman(*arguments: str, check: bool = True) -> str:
    """Run podman with the storage and settings of containers/, and return its output.

    Raises:
        AssertionError: podman failed; the text is its error output.
    """
    done = subprocess.run([PODMAN, *arguments], capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"podman {' '.join(arguments)}: {done.stderr}"
    return done.stdout.strip()


def build(target: str) -> str:
    """Build an image and return its id. Errors are printed on standard error."""
    return _script("build.sh", target)


def public_base() -> str:
    """Create the base image that resembles the public one, once, and return its name."""
    return _script("public_base.sh")


def build_unmodified(context: Path, dockerfile: str, target: str, base: str) -> str:
    """Build an unmodified Dockerfile, with its base as the only build argument, and return the image's id.

    Raises:
        AssertionError: The build failed; the text is the end of its log.
    """
    script = (
        'here=$5; . "$here/engine.sh"; exec buildah bud --isolation chroot --layers --force-rm --pull-never '
        '--build-arg BASE="$1" ${2:+--target "$2"} --file "$3/$4" --iidfile "$3/.id" "$3"'
    )
    folder = (REPOSITORY / "containers").as_posix()
    command = ["sh", "-ec", script, "build", base, target, str(context), dockerfile, folder]
    clean = {"PATH": os.environ["PATH"], "HOME": str(Path.home())}  # without proxies and settings of the caller
    clean |= {name: os.environ[name] for name in ("XDG_CACHE_HOME", "STORAGE_DRIVER") if name in os.environ}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return (context / ".id").read_text().strip()


def require_containers() -> None:
    """Check that this machine can run containers; skip the test of the caller if it lacks the programs for it.

    Raises:
        AssertionError: It cannot; the text contains podman's error.
    """
    require(CONTAINERS)
    base = _script("base.sh")
    tried = subprocess.run(
        [PODMAN, "run", "--rm", "--network", "none", base, "true"], capture_output=True, text=True, check=False
    )
    assert tried.returncode == 0, (
        f"This machine does not run containers, so no image can be tested here: {tried.stderr.strip()}. "
        "It takes root with the right to mount and to make networks; a container needs --privileged for that."
    )


def _script(name: str, *arguments: str) -> str:
    command = [(REPOSITORY / "containers" / name).as_posix(), *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
