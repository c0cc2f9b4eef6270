"""Deployed grid: the stacks of a checkout in a localcloud in this process, for rehearsals and the fault suite."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from localcloud.credentials.environments import user_environment
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.aws.clients import client
from traingrid.backends import inventory_of
from traingrid.backends.inventory import ACTIVE_STATES
from verification.checkout.deploy import deploy
from verification.checkout.fork_client import ForkClient

PATIENCE_SECONDS = 240.0
"""Shortest timeout, with a margin for busy machines."""
PATIENCE_SECONDS_PER_LINE = 2.0
"""Additional timeout for each line to be completed."""
BATCH_ENDED = ("SUCCEEDED", "FAILED")

T = TypeVar("T")


@dataclass(kw_only=True)
class DeployedGrid:
    """A deployed grid in a localcloud whose children are forked.

    Attributes:
        plane: The control plane that the CLI uses.
        fork_client: The process that forks the children.
    """

    cloud: LocalCloud
    plane: ControlPlane
    fork_client: ForkClient

    def at_rest(self, *batch_jobs: str) -> None:
        """Wait until Batch jobs and all training jobs have ended.

        Raises:
            TimeoutError: They have not ended in time.
        """
        self.ended(*batch_jobs)
        until(lambda: not self.active(), "no training job is active")

    def ended(self, *batch_jobs: str, seconds: float = 0.0) -> None:
        """Wait until Batch jobs have ended; training jobs may still run.

        Args:
            seconds: Minimum timeout of each; a job with many lines has a longer one.

        Raises:
            TimeoutError: They have not ended in time.
        """
        for job in batch_jobs:
            lines = (self.plane.batch.describe(job) or {}).get("arrayProperties", {}).get("size", 1)
            until(partial(self._has_ended, job), f"Batch job {job} ends", max(seconds, patience(lines)))

    def active(self) -> list[str]:
        """Return the names of all training jobs that have not ended."""
        grid = self.plane.deployment.grid
        return [
            job.name
            for region in grid.regions
            for state in ACTIVE_STATES
            for job in inventory_of(self.plane.deployment, region).listed(state=state)
        ]

    def output(self, name: str) -> str:
        """Return an output of the grid's control stack, e.g. the name of a function."""
        grid = self.plane.deployment.grid
        reply = client("cloudformation", grid.home).describe_stacks(StackName=names.control_stack(grid.name))
        return {output["OutputKey"]: str(output["OutputValue"]) for output in reply["Stacks"][0]["Outputs"]}[name]

    @contextmanager
    def short_lived_intake(self, seconds: int) -> Iterator[None]:
        """Shorten the intake's timeout during the block, and retry it right after that.

        The claim of a killed intake holds as long as the intake may run. In AWS that is one minute, which Lambda's
        retry delays match; here both are shorter.
        """
        home = self.plane.deployment.grid.home
        name, functions, before = self.output("IntakeFunction"), client("lambda", home), self.cloud.settings
        timeout = functions.get_function_configuration(FunctionName=name)["Timeout"]
        functions.update_function_configuration(FunctionName=name, Timeout=seconds)
        # Claims end on whole seconds.
        self.cloud.settings = replace(before, lambda_retry_delays_seconds=(seconds + 1.0, seconds + 1.0))
        try:
            yield
        finally:
            self.cloud.settings = before
            functions.update_function_configuration(FunctionName=name, Timeout=timeout)

    def _has_ended(self, batch_job: str) -> bool:
        return (self.plane.batch.describe(batch_job) or {}).get("status") in BATCH_ENDED


@contextmanager
def deployed(
    grid_file: Path,
    settings: Settings,
    first: str = "",
    prepare: Callable[[LocalCloud], None] = lambda _: None,
) -> Iterator[DeployedGrid]:
    """Deploy a grid with the real CDK CLI.

    This process has a user's environment for the localcloud during the block.

    Args:
        settings: Settings of the localcloud; its data folder also receives the CLI's logs.
        first: Function that every child calls before the orchestrator, as "module:function".
        prepare: Prepares the account before the deployment.

    Raises:
        TraingridError: The grid cannot be deployed.
    """
    with ExitStack() as stack:
        fork_client = ForkClient(first)
        stack.callback(fork_client.close)  # after the localcloud, which waits for its last children
        cloud = stack.enter_context(LocalCloud(settings))
        cloud.spawn = fork_client.spawn
        stack.enter_context(_environment(user_environment(cloud.endpoint_url)))
        prepare(cloud)
        deploy(cloud.endpoint_url, grid_file, cloud.data_dir)
        yield DeployedGrid(cloud=cloud, plane=ControlPlane.of(grid_file), fork_client=fork_client)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def patience(lines: int) -> float:
    """Return the timeout, in seconds, for this many lines to end."""
    return PATIENCE_SECONDS + PATIENCE_SECONDS_PER_LINE * lines


def until(question: Callable[[], T | None], condition: str, seconds: float = PATIENCE_SECONDS) -> T:
    """Poll a condition until it is true, and return its value.

    Raises:
        TimeoutError: It was not true in time.
    """
    deadline = time.monotonic() + seconds
    pause = 0.05
    while not (answer := question()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"timed out after {seconds:.0f} s waiting until {condition}")
        time.sleep(pause)
        pause = min(pause * 1.5, 1.0)
    return answer
