"""`make bench-synth`: measures the synthesis time of the app relative to an empty CDK app.

Each run is a separate process with the feature flags of cdk.json, as the CDK CLI starts it; the two apps alternate.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.machine import CHECKOUT, description
from bench.report import Result, report
from bench.size import IS_TINY, size

APPS = {"empty": ("-m", "bench.empty_app"), "four_regions": ("app.py",)}
VERSIONS = ("aws-cdk-lib", "constructs", "jsii", "pydantic")
ROUNDS = size(7, 1)
"""Number of rounds, including a first one that fills caches and is not counted."""


def main() -> None:
    """Measure, print and write the result."""
    machine = description(VERSIONS) | {"node": _output("node", "--version")}
    seconds = measured()
    report(
        "synth",
        [
            Result(
                id="P8",
                what="four Regions to an empty app, wall clock",
                measured=round(_ratio(seconds["wall"]), 2),
                comparison="<=",
                aim=1.5,
                unit="times",
            )
        ],
        machine=machine,
        against="a CDK app with one stack of one resource, in turn with ours on the same machine",
        details={"seconds": seconds, "cpu_ratio": round(_ratio(seconds["cpu"]), 2), "rounds": ROUNDS - 1},
    )


def measured() -> dict[str, dict[str, list[float]]]:
    """Return the wall-clock and CPU seconds of every synthesis, by app."""
    seconds: dict[str, dict[str, list[float]]] = {kind: {app: [] for app in APPS} for kind in ("wall", "cpu")}
    for count in range(ROUNDS):
        for app, arguments in APPS.items():
            wall, cpu = synthesis(arguments)
            if count or IS_TINY:
                seconds["wall"][app].append(round(wall, 3))
                seconds["cpu"][app].append(round(cpu, 3))
    return seconds


def synthesis(arguments: tuple[str, ...]) -> tuple[float, float]:
    """Return the wall-clock and CPU seconds, including Node.js, that one app takes."""
    with tempfile.TemporaryDirectory(prefix="traingrid-synth-") as folder:
        started = time.perf_counter()
        process = subprocess.Popen([sys.executable, *arguments], cwd=CHECKOUT, env=_environment(folder))
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        if status or not list(Path(folder).glob("*.template.json")):
            raise RuntimeError(
                f"{arguments} exited with {os.waitstatus_to_exitcode(status)}. Run `make synth` to see the error."
            )
    return wall, used.ru_utime + used.ru_stime


def _environment(folder: str) -> dict[str, str]:
    """Return the environment in which the CDK CLI runs an app: the output folder, and the context of cdk.json."""
    context: Any = json.loads((CHECKOUT / "cdk.json").read_text())["context"]
    return {**os.environ, "CDK_OUTDIR": folder, "CDK_CONTEXT_JSON": json.dumps(context)}


def _ratio(seconds: Mapping[str, list[float]]) -> float:
    return statistics.median(seconds["four_regions"]) / statistics.median(seconds["empty"])


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
