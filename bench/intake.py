"""P6: intake of a manifest with 10,000 lines. P7: bytes that a child reads for its line."""

import json
import statistics
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from bench.machine import CHECKOUT
from bench.size import size
from bench.world import World, intake_event
from traingrid import names

LARGE = size(10_000, 20)
SIZES = size((1, 100, LARGE), (1, LARGE))
ROUNDS = size(3, 1)


def intake_of_a_large_manifest(world: World) -> dict[str, Any]:
    """Submit `ROUNDS` manifests of 10,000 lines, each in its own process, and return medians.

    The deployed function, which would submit them too, does not receive their events.
    """
    environment, runs = world.intake_environment(), []
    with world.without_intake():
        for number in range(ROUNDS):
            key = f"{names.MANIFEST_PREFIX}large-{number}.csv"
            event = intake_event(world.manifest_bucket, key, world.put_manifest(key, world.lines(LARGE)))
            before, started = len(world.cloud.record.entries()), time.time()
            report = run_counted(world, environment, "intake", event)
            report["seconds"] = report["ended_at"] - started
            report["recorded"] = world.recorded(environment["AWS_ACCESS_KEY_ID"], before)
            runs.append(report)
            world.settled(world.submitted(before)["jobId"], LARGE)
    last = runs[-1]
    return {
        "rounds": ROUNDS,
        "lines": LARGE,
        "manifest_bytes": len(world.lines(LARGE)),
        "seconds": round(statistics.median(run["seconds"] for run in runs), 3),
        "handler_seconds": round(statistics.median(run["handler_seconds"] for run in runs), 3),
        "peak_mib": round(max(run["peak_mib"] for run in runs), 1),
        "calls": max(sum(run["calls"].values()) for run in runs),
        "calls_by_operation": last["calls"],
        "mutating_calls_in_localclouds_record": last["recorded"],
    }


def bytes_read_by_a_child(world: World) -> dict[str, Any]:
    """Return the bytes that the first and the last child of manifests with 1, 100 and 10,000 lines read from S3."""
    read: dict[str, dict[str, int]] = {}
    for lines in SIZES:
        array = world.submit(f"read-{lines}.csv", lines)
        read[str(lines)] = {}
        for which, index in (("first", 0), ("last", lines - 1)):
            if index or which == "first":
                environment = world.child_environment(world.grid.home, array.child(index))
                read[str(lines)][which] = run_counted(world, environment, "child")["bytes_read"]
    everything = [count for by_child in read.values() for count in by_child.values()]
    return {
        "bytes_by_lines": read,
        "most_to_least": round(max(everything) / min(everything), 3),
        "large_manifest_bytes": len(world.lines(LARGE)),
    }


def run_counted(world: World, environment: Mapping[str, str], *arguments: str) -> dict[str, Any]:
    """Run `bench.counted` and return its report.

    Raises:
        RuntimeError: The process failed.
    """
    file, log = world.work / "counted.json", world.work / "counted.log"
    part, *event = arguments
    command = [str(CHECKOUT / ".venv/bin/python"), "-m", "bench.counted", str(file), part, *event]
    with log.open("wb") as output:
        ended = subprocess.run(command, env=environment, cwd=CHECKOUT, stdout=output, stderr=output, check=False)
    if ended.returncode:
        raise RuntimeError(f"{part} exited with {ended.returncode}:\n{log.read_text()[-2000:]}")
    return dict(json.loads(file.read_text()))
