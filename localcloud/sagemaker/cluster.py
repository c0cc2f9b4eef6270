"""The hosts of a running training job: one process group per host, monitored together."""

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from moto.logs.models import logs_backends

from localcloud.ecr.process_images import ProcessImage
from localcloud.log_streams import LogStream
from localcloud.processes.process_group import ProcessGroup, search_path
from localcloud.sagemaker.hosts import HostNetwork
from localcloud.sagemaker.request import Host


class TrainingHosts:
    """Starts the image on every host, stops all hosts when one fails, and collects the exit codes.

    Attributes:
        exit_codes: Exit code of every ended host, in order of ending.
        is_interrupted: True if the instances were interrupted while hosts ran and none had failed.
    """

    def __init__(self, *, grace_seconds: float, deadline: float) -> None:
        """Create a cluster without hosts.

        Args:
            grace_seconds: Time between SIGTERM and SIGKILL.
            deadline: Time of `time.monotonic` at which the job's maximum runtime ends.
        """
        self.exit_codes: dict[str, int] = {}
        self.is_interrupted = False
        self._grace_seconds = grace_seconds
        self._deadline = deadline
        self._groups: dict[str, ProcessGroup] = {}
        self._news: queue.Queue[tuple[str, int] | Literal["stop", "interrupt"]] = queue.Queue()

    def start(
        self,
        host: Host,
        image: ProcessImage,
        environment: Mapping[str, str],
        output: Callable[[str], None],
    ) -> None:
        """Start one host.

        Raises:
            OSError: If the image's program cannot be started.
        """
        group = ProcessGroup(
            image.command,
            environment=environment,
            working_directory=image.working_directory,
            on_line=output,
            label=f"training/{environment['TRAINING_JOB_NAME']}/{host.name}",
        )
        self._groups[host.name] = group
        threading.Thread(target=self._watch, args=(host.name, group), name=f"host-{host.name}", daemon=True).start()

    def stop(self) -> None:
        """Send SIGTERM to every host, and SIGKILL after the grace period. Thread-safe."""
        self._news.put("stop")

    def interrupt(self) -> None:
        """Stop every host because the instances are interrupted. Thread-safe."""
        self._news.put("interrupt")

    def kill(self) -> None:
        """Send SIGKILL to every host and wait for their end."""
        for group in self._groups.values():
            group.kill()
        for group in self._groups.values():
            group.wait()

    def follow(self, on_overtime: Callable[[], None]) -> None:
        """Wait until every host has ended.

        Args:
            on_overtime: Called once at the deadline, before the hosts are stopped.
        """
        overtime = False
        while len(self.exit_codes) < len(self._groups):
            try:
                news = self._news.get(timeout=None if overtime else max(0.0, self._deadline - time.monotonic()))
            except queue.Empty:
                overtime = True
                on_overtime()
                self._stop_all()
                continue
            if isinstance(news, str):
                self.is_interrupted |= news == "interrupt" and not self.first_failure
                self._stop_all()
                continue
            host, code = news
            self.exit_codes[host] = code
            if code != 0:
                self._stop_all()

    @property
    def first_failure(self) -> tuple[str, int] | None:
        """Return the first host that failed and its exit code, or None."""
        return next(((host, code) for host, code in self.exit_codes.items() if code != 0), None)

    def _stop_all(self) -> None:
        for host, group in self._groups.items():
            if host not in self.exit_codes:
                group.stop(self._grace_seconds)

    def _watch(self, host: str, group: ProcessGroup) -> None:
        code = group.wait()
        self._news.put((host, 0 if code is None else code))


def host_environment(
    base: Mapping[str, str], network: HostNetwork, host: Host, folder: Path, opt_ml: Path
) -> dict[str, str]:
    """Return a host's environment: the job's variables, its own /opt/ml and /tmp, and the job's ssh on the PATH."""
    programs = network.programs_for(host.name, folder / "bin")
    host_variables = {"SAGEMAKER_BASE_DIR": str(opt_ml), "TMPDIR": str(network.temporary(host.name))}
    return {**base, **host_variables, "PATH": search_path(programs, base["PATH"])}


def log_streams(account: str, region: str, group: str, job: str, hosts: Sequence[Host]) -> dict[str, LogStream]:
    """Return the hosts' log streams, with SageMaker's names: <job>/algo-<n>-<epoch seconds>.

    A new job can have the name and the start second of a deleted job, whose streams still exist.
    """
    existing = logs_backends[account][region].groups[group].streams
    at = int(time.time())
    while any(f"{job}/{host.name}-{at}" in existing for host in hosts):
        at += 1
    return {host.name: LogStream(account, region, group, f"{job}/{host.name}-{at}") for host in hosts}
