"""podman, buildah and the scripts of containers/, as tests call them."""

import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PODMAN = (REPOSITORY / "containers" / "podman.sh").as_posix()


def podman(*arguments: str, check: bool = True) -> str:
    """Run podman with the storage and settings of containers/, and return what it prints.

    Raises:
        AssertionError: it failed; the text is what it said.
    """
    done = subprocess.run([PODMAN, *arguments], capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"podman {' '.join(arguments)}: {done.stderr}"
    return done.stdout.strip()


def build(target: str) -> str:
    """Build an image and return its id; what goes wrong is on standard error."""
    return _script("build.sh", target)


def require_containers() -> None:
    """Find out whether this machine runs containers at all.

    Raises:
        AssertionError: it does not; the text is what podman said.
    """
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
