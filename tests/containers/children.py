"""Batch children of localcloud in containers of the orchestrator's image, confined as their job definition says."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from localcloud.checkout_images import ORCHESTRATOR
from localcloud.programs import Program
from tests.containers.engine import PODMAN, podman

# What a container of this job definition has: no place to write, no privileges, as much memory as grid.yaml says by
# default. podman would put a file system in memory on /tmp otherwise.
CONFINED = (
    *("--read-only", "--read-only-tmpfs=false", "--cap-drop", "all", "--security-opt", "no-new-privileges"),
    *("--memory", "512m", "--memory-swap", "512m"),
)
# What a process of this machine is given in the image's place.
_OF_THE_PROCESS = {"PATH", "HOME", "LANG", *ORCHESTRATOR.environment}
_OF_PODMAN = ("PATH", "HOME", "XDG_CACHE_HOME", "STORAGE_DRIVER")


class Children:
    """Starts children; `spawn` is for `LocalCloud.spawn`.

    Attributes:
        started: The names of their containers.
    """

    def __init__(self, image: str) -> None:
        self.started: list[str] = []
        self._image = image

    def spawn(self, command: Sequence[str], environment: Mapping[str, str], folder: str | Path) -> Program:
        """Start a program as `localcloud.processes.Spawn` says.

        podman stands for it: it passes signals on, and ends with the container's exit code. A variable is named on
        podman's command line and not shown there. What is in the container is below podman's monitor, an orphan
        that the keeper adopts (localcloud/keeper.py).
        """
        if list(command[1:]) != ["-m", "batch_job"]:
            return Program(command, environment, folder)
        variables = {name: value for name, value in environment.items() if name not in _OF_THE_PROCESS}
        name = container(variables["AWS_BATCH_JOB_ID"], variables["AWS_BATCH_JOB_ATTEMPT"])
        self.started.append(name)
        # As in Batch the network is there: of this machine, where localcloud listens.
        run = [PODMAN, "run", "--rm", "--name", name, "--network", "host", *CONFINED]
        run += [word for variable in variables for word in ("--env", variable)]
        of_podman = {variable: os.environ[variable] for variable in _OF_PODMAN if variable in os.environ}
        return Program([*run, self._image], {**variables, **of_podman}, "/")

    def remaining(self) -> list[str]:
        """Return the names of containers that are still there."""
        there = podman("ps", "--all", "--format", "{{.Names}}").splitlines()
        return [name for name in self.started if name in there]

    def remove(self) -> None:
        """Remove what is left of them."""
        if left := self.remaining():
            podman("rm", "--force", "--time", "0", "--ignore", *left, check=False)


def container(child: str, attempt: int | str) -> str:
    """Return the name of the container in which an attempt of a child runs."""
    return f"traingrid-child-{child.replace(':', '-')}-{attempt}"
