"""A grid deployed into a localcloud of this very process: what rehearsals and the fault suite begin with."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from localcloud.deploy import deploy
from localcloud.forking import Nursery
from localcloud.isolation import user_environment
from localcloud.server import LocalCloud
from localcloud.settings import Settings
from traingrid import names
from traingrid.cli.status import ControlPlane
from traingrid.clients import client
from traingrid.queued_jobs import training_jobs_in
from traingrid.training_jobs import ACTIVE_STATES

PATIENCE_SECONDS = 240.0
"""How long the least of things may take on a machine that does much else."""
PATIENCE_SECONDS_PER_LINE = 2.0
"""And how much longer for each line that there is to bring to its end."""
BATCH_ENDED = ("SUCCEEDED", "FAILED")

T = TypeVar("T")


@dataclass(kw_only=True)
class Stage:
    """A deployed grid in a localcloud whose children are forked.

    Attributes:
        cloud: The localcloud.
        plane: The control plane, as the CLI reads it.
        nursery: Where children are forked.
    """

    cloud: LocalCloud
    plane: ControlPlane
    nursery: Nursery

    def at_rest(self, *batch_jobs: str) -> None:
        """Wait until Batch jobs have ended, and with them every training job.

        Raises:
            TimeoutError: They have not in time.
        """
        self.ended(*batch_jobs)
        until(lambda: not self.active(), "no training job is active")

    def ended(self, *batch_jobs: str, seconds: float = 0.0) -> None:
        """Wait until Batch jobs have ended; training jobs may go on.

        Args:
            batch_jobs: Their ids.
            seconds: How long each may take; as long as its lines need where that is longer.

        Raises:
            TimeoutError: They have not in time.
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
            for job in training_jobs_in(self.plane.deployment, region).listed(state=state)
        ]

    def output(self, name: str) -> str:
        """Return an output of the grid's control stack, e.g. the name of a function."""
        grid = self.plane.deployment.grid
        found = client("cloudformation", grid.home).describe_stacks(StackName=names.control_stack(grid.name))
        return {output["OutputKey"]: str(output["OutputValue"]) for output in found["Stacks"][0]["Outputs"]}[name]

    @contextmanager
    def short_lived_intake(self, seconds: int) -> Iterator[None]:
        """Let the intake run so long at most meanwhile, and be tried again right after that.

        The claim of an intake that was killed holds for as long as it might have run: in AWS a minute, and so long are
        Lambda's retries there.
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
) -> Iterator[Stage]:
    """Deploy a grid with the real CDK CLI.

    Leaves this process with a user's environment of the localcloud while it lasts.

    Args:
        grid_file: The grid's description.
        settings: The localcloud's; its folder also takes the CLI's logs.
        first: What every child calls before the orchestrator, as "module:function".
        prepare: Prepares the account before the deployment.

    Raises:
        TraingridError: It cannot be deployed.
    """
    with ExitStack() as stack:
        nursery = Nursery(first)
        stack.callback(nursery.close)  # after the localcloud, whose last children it tells the end of
        cloud = stack.enter_context(LocalCloud(settings))
        cloud.spawn = nursery.spawn
        stack.enter_context(_environment(user_environment(cloud.endpoint_url)))
        prepare(cloud)
        deploy(cloud.endpoint_url, grid_file, cloud.data_dir)
        yield Stage(cloud=cloud, plane=ControlPlane.of(grid_file), nursery=nursery)


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
    """Return how many seconds so many lines may take to their end."""
    return PATIENCE_SECONDS + PATIENCE_SECONDS_PER_LINE * lines


def until(question: Callable[[], T | None], what: str, seconds: float = PATIENCE_SECONDS) -> T:
    """Return the first true answer to a question.

    Raises:
        TimeoutError: There was none in time.
    """
    deadline = time.monotonic() + seconds
    pause = 0.05
    while not (answer := question()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"within {seconds:.0f} s it did not come to this: {what}")
        time.sleep(pause)
        pause = min(pause * 1.5, 1.0)
    return answer
