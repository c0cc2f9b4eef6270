"""P1: time from a child's process start to an accepted CreateTrainingJob, compared with the original recipe."""

import statistics
import subprocess
import time
from dataclasses import dataclass
from typing import Any

from bench.machine import CHECKOUT, peak_memory_mib
from bench.size import size
from bench.world import ACCOUNT, IDLE_TAG, Array, World
from localcloud.credentials.environments import user_environment
from traingrid import names
from verification.checkout.images import ORCHESTRATOR

ROUNDS = size(7, 1)
POLL_SECONDS = 0.005
PATIENCE_SECONDS = 120
RECIPE_PYTHON = CHECKOUT / ".venv-bench/bin/python"


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One launch of a training job.

    Attributes:
        seconds: Time from the process's start to the CreateTrainingJob entry in localcloud's record.
        peak_mib: Peak memory of the process until then.
        peak_mib_at_end: Peak memory of the process until its end.
    """

    seconds: float
    peak_mib: float
    peak_mib_at_end: float


def launches(world: World) -> dict[str, Any]:
    """Launch in both ways alternately and return medians and ratios over `ROUNDS` rounds, after one warm-up round.

    Both use the same manifest, line, Region, role and image, and launch a training job that ends immediately.
    """
    array = world.submit("launch.csv", lines=2 * (ROUNDS + 1))
    ours, theirs = [], []
    for number in range(ROUNDS + 1):
        index = 2 * number  # every second line is in the home Region
        ours.append(launch(world, *_child(world, array, index)))
        theirs.append(launch(world, *_original(world, array, index)))
    child, original = _medians(ours[1:]), _medians(theirs[1:])
    return {
        "rounds": ROUNDS,
        "child": child,
        "original_recipe": original,
        "times_faster": round(original["seconds"] / child["seconds"], 2),
        "times_less_memory": round(original["peak_mib"] / child["peak_mib"], 2),
        "times_less_memory_at_end": round(original["peak_mib_at_end"] / child["peak_mib_at_end"], 2),
    }


def launch(world: World, command: list[str], environment: dict[str, str]) -> Launch:
    """Start a process, and wait until its training job is accepted and the process has ended.

    Raises:
        RuntimeError: The process failed, or created no training job.
    """
    before = len(world.cloud.record.entries())
    accepted: float | None = None
    peak = peak_when_accepted = 0.0
    log = world.work / "launch.log"
    with log.open("wb") as output:
        started = time.time()
        process = subprocess.Popen(command, env=environment, cwd=CHECKOUT, stdout=output, stderr=output)
        while process.poll() is None and time.time() < started + PATIENCE_SECONDS:
            created = world.cloud.record.entries("sagemaker", "CreateTrainingJob", after=before)
            peak = max(peak, peak_memory_mib(process.pid))
            if created and accepted is None:
                accepted, peak_when_accepted = float(created[0]["time"]), peak
            time.sleep(POLL_SECONDS)
        process.kill()
    if process.wait() != 0 or accepted is None:
        raise RuntimeError(f"{' '.join(command)} exited with {process.returncode}:\n{log.read_text()[-2000:]}")
    return Launch(seconds=accepted - started, peak_mib=peak_when_accepted, peak_mib_at_end=peak)


def _child(world: World, array: Array, index: int) -> tuple[list[str], dict[str, str]]:
    variables = {**ORCHESTRATOR.environment, **array.child(index)}
    return list(ORCHESTRATOR.command), world.child_environment(world.grid.home, variables)


def _original(world: World, array: Array, index: int) -> tuple[list[str], dict[str, str]]:
    grid, home = world.grid.name, world.grid.home
    output = f"s3://{names.output_bucket(grid, ACCOUNT, home)}/original"
    repository = names.training_repository(grid)
    arguments = [
        names.execution_role_arn(grid, ACCOUNT, home),
        names.image_uri(ACCOUNT, home, repository, IDLE_TAG),
        output,
        f"{output}/sourcedir.tar.gz",
    ]
    command = [str(RECIPE_PYTHON), str(CHECKOUT / "bench/original_recipe.py"), *arguments]
    environment = world.child_environment(home, {**array.child(index), "S3_ARRAY_FILE": array.manifest})
    # The children's role does not permit the recipe's calls, so it runs with the unrestricted keys of a user.
    environment.pop("AWS_SESSION_TOKEN", None)
    return command, {**environment, **user_environment(world.cloud.endpoint_url, home)}


def _medians(runs: list[Launch]) -> dict[str, float]:
    return {
        "seconds": round(statistics.median(run.seconds for run in runs), 3),
        "fastest_seconds": round(min(run.seconds for run in runs), 3),
        "slowest_seconds": round(max(run.seconds for run in runs), 3),
        "peak_mib": round(statistics.median(run.peak_mib for run in runs), 1),
        "peak_mib_at_end": round(statistics.median(run.peak_mib_at_end for run in runs), 1),
    }
