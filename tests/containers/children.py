"""Children: Batch children of localcloud in containers of the orchestrator's image, limited by their job definition."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from localcloud.processes.program import Program
from tests.containers.engine import PODMAN, podman
from verification.checkout.images import ORCHESTRATOR

# The limits of this job definition's containers: no writable file system, no privileges, grid.yaml's default memory.
# podman would otherwise mount a file system in memory on /tmp.
CONFINED = (
    *("--read-only", "--read-only-tmpfs=false", "--cap-drop", "all", "--security-opt", "no-new-privileges"),
    *("--memory", "512m", "--memory-swap", "512m"),
)
# Paths that a process on this machine gets instead of the image's.
_OF_THE_PROCESS = {"PATH", "HOME", "LANG", *ORCHESTRATOR.environment}
_OF_PODMAN = ("PATH", "HOME", "XDG_CACHE_HOME", "STORAGE_DRIVER")


class Children:
    """Starts children; `spawn` is passed to `LocalCloud.spawn`.

    Attributes:
        started: The names of the containers.
    """

    def __init__(self, image: str) -> None:
        self.started: list[str] = []
        self._image = image

    def spawn(self, command: Sequence[str], environment: Mapping[str, str], folder: str | Path) -> Program:
        """Start a program, with the interface of `localcloud.processes.process_group.Spawn`.

        The process is podman, which forwards signals, and ends with the container's exit code. podman's command line
        contains variables' names, but not their values. The container's processes are children of podman's monitor, an
        orphan that the subreaper adopts (localcloud/processes/subreaper.py).
        """
        if list(command[1:]) != ["-m", "batch_job"]:
            return Program(command, environment, folder)
        variables = {name: value for name, value in environment.items() if name not in _OF_THE_PROCESS}
        name = container(variables["AWS_BATCH_JOB_ID"], variables["AWS_BATCH_JOB_ATTEMPT"])
        self.started.append(name)
        # As in Batch, the container has network access: this machine's, on which localcloud listens.
        run = [PODMAN, "run", "--rm", "--name", name, "--network", "host", *CONFINED]
        run += [word for variable in variables for word in ("--env", variable)]
        of_podman = {variable: os.environ[variable] for variable in _OF_PODMAN if variable in os.environ}
        return Program([*run, self._image], {**variables, **of_podman}, "/")

    def remaining(self) -> list[str]:
        """Return the names of containers that still exist."""
        there = podman("ps", "--all", "--format", "{{.Names}}").splitlines()
        return [name for name in self.started if name in there]

    def remove(self) -> None:
        """Remove the remaining containers."""
        if left := self.remaining():
            podman("rm", "--force", "--time", "0", "--ignore", *left, check=False)


def container(child: str, attempt: int | str) -> str:
    """Return the name of the container of a child's attempt."""
    return f"traingrid-child-{child.replace(':', '-')}-{attempt}"
