"""The memory of a child whose line trains on EKS, compared with one on SageMaker; part of `make bench-control`.

Both run in the same deployed grid, alternately and until the end of their training job, which ends immediately.
"""

import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.machine import CHECKOUT, description, peak_memory_mib
from bench.report import Result, report
from bench.size import size
from bench.world import GRID, Array, World, deployed
from examples.digits.clusters import create_clusters
from verification.checkout.images import ORCHESTRATOR

REGION = "eu-west-1"
ROUNDS = size(5, 1)
BACKENDS = ("sagemaker", "eks")
WITH_CLUSTER = (
    GRID.replace(f"  {REGION}:\n", f"  {REGION}: {{eks: {{cluster: bench}}}}\n")
    .replace("ml.p3.16xlarge", "ml.m5.large")  # of which a cluster has nodes
    .replace("processes_per_host: 8", "processes_per_host: 1")
)
CONTAINER_MIB = 512
"""The memory of the children's container (stacks/orchestrator.py)."""
RATIO, SHARE = 1.25, 0.25
"""The most memory of a child on EKS, in times that of one on SageMaker, and as a part of the container's memory."""
_POLL_SECONDS = 0.005
_PATIENCE_SECONDS = 180


def main() -> None:
    """Measure in one deployed grid, print a table, and write results/eks-child.json."""
    machine = description()
    with (
        tempfile.TemporaryDirectory(prefix="traingrid-bench-") as work,
        deployed(Path(work), WITH_CLUSTER, create_clusters) as world,
    ):
        details = peaks(world)
    eks = details["eks_mib"]
    found = [
        Result(
            id="P1", what="child on EKS to one on SageMaker, peak memory", measured=details["times"],
            comparison="<=", aim=RATIO, unit="times",
        ),
        Result(
            id="P1", what="child on EKS, peak memory", measured=eks,
            comparison="<=", aim=SHARE * CONTAINER_MIB, unit="MiB",
        ),
    ]  # fmt: skip
    report("eks-child", found, machine=machine, against="localcloud on the same machine, not AWS", details=details)


def peaks(world: World) -> dict[str, Any]:
    """Return the medians of the peak memory of children on both backends, after one warm-up round."""
    count = len(BACKENDS) * (ROUNDS + 1)
    rows = [
        f"{REGION},{world.data(REGION)},campaign-{number:05d},{BACKENDS[number % len(BACKENDS)]}"
        for number in range(count)
    ]
    content = "\n".join(["region,s3_uri,name,backend", *rows]) + "\n"
    array = world.submit("backends.csv", count, content)
    found: dict[str, list[float]] = {backend: [] for backend in BACKENDS}
    for number in range(count):
        found[BACKENDS[number % len(BACKENDS)]].append(_peak(world, array, number))
    sagemaker, eks = (statistics.median(found[backend][1:]) for backend in BACKENDS)
    return {
        "rounds": ROUNDS,
        "sagemaker_mib": round(sagemaker, 1),
        "eks_mib": round(eks, 1),
        "times": round(eks / sagemaker, 2),
        "all_mib": found,
    }


def _peak(world: World, array: Array, index: int) -> float:
    """Run a child until its training job has ended, and return the peak memory of its process in MiB.

    Raises:
        RuntimeError: The child failed.
    """
    environment = world.child_environment(world.grid.home, {**ORCHESTRATOR.environment, **array.child(index)})
    log, peak = world.work / "child.log", 0.0
    with log.open("wb") as output:
        child = subprocess.Popen(ORCHESTRATOR.command, env=environment, cwd=CHECKOUT, stdout=output, stderr=output)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while child.poll() is None and time.monotonic() < deadline:
            peak = max(peak, peak_memory_mib(child.pid))
            time.sleep(_POLL_SECONDS)
        child.kill()
    if child.wait() != 0:
        raise RuntimeError(f"The child of line {index} exited with {child.returncode}:\n{log.read_text()[-2000:]}")
    return peak


if __name__ == "__main__":
    main()
