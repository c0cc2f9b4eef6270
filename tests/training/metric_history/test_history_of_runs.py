"""Metric history of scripts that `train` runs: they fail, are stopped, or S3 refuses the parts."""

import io
import json
import os
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.training.fake_s3 import CREDENTIALS, Store

FAILS = "echo epoch=1 loss=0.5; echo epoch=2 loss=nan; exit 3"
WAITS = """
echo epoch=1 loss=0.5
trap '' TERM  # the signal would end the script
while [ ! -e "$TRAINGRID_STOP_FILE" ]; do sleep 0.1; done
echo epoch=2 loss=0.25
while [ ! -e "$SM_OUTPUT_DIR/go" ]; do sleep 0.1; done
echo epoch=3 loss=0.125
"""
HISTORY = {
    "TRAINGRID_METRICS_S3": "s3://output/x/metrics/job-1/",
    "TRAINGRID_METRICS_0": json.dumps({"loss": r"loss=(\S+)"}),
}


@pytest.fixture
def script(
    host_folder: Callable[..., Path], start: Callable[..., "subprocess.Popen[str]"], store: Store, tmp_path: Path
) -> Callable[[str], "tuple[Path, subprocess.Popen[str]]"]:
    """A function that starts `train` with a shell script on one rank."""

    def run(text: str) -> "tuple[Path, subprocess.Popen[str]]":
        packed = tmp_path / "sourcedir.tar.gz"
        with tarfile.open(packed, "w:gz") as archive:
            entry = tarfile.TarInfo("mine.sh")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
        named = {"sagemaker_program": "mine.sh", "sagemaker_submit_directory": str(packed)}
        base = host_folder(tmp_path / "ml", named, processes=1)
        return base, start(base, **CREDENTIALS, AWS_ENDPOINT_URL=store.url, **HISTORY)

    return run


def epochs(store: Store) -> list[int]:
    return [record["epoch"] for record in records(store) if "epoch" in record]


def records(store: Store) -> list[dict[str, Any]]:
    return [json.loads(line) for _, content in store.puts for line in content.splitlines()]


def until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_script_that_fails_has_its_values_and_its_own_reason(
    script: Callable[[str], "tuple[Path, subprocess.Popen[str]]"], store: Store
) -> None:
    base, train = script(FAILS)
    output, _ = train.communicate(timeout=60)
    assert train.returncode == 1, output
    assert "mine.sh ended with exit status 3" in (base / "output" / "failure").read_text()
    assert epochs(store) == [1]
    assert "TRAINGRID_METRICS" not in output


def test_a_stop_writes_the_values_while_the_ranks_still_run(
    script: Callable[[str], "tuple[Path, subprocess.Popen[str]]"], store: Store
) -> None:
    base, train = script(WAITS)
    until(lambda: epochs(store) == [1])
    os.killpg(train.pid, signal.SIGTERM)
    until(lambda: epochs(store) == [1, 2])
    (first, *_) = [record["metrics"] for record in records(store) if "epoch" not in record]
    assert 0 < first["host_memory_percent"] < 100
    (base / "output" / "go").touch()
    output, _ = train.communicate(timeout=60)
    assert train.returncode == 143, output
    assert epochs(store) == [1, 2, 3]


def test_a_training_whose_parts_are_refused_succeeds_and_reports_it_once(
    script: Callable[[str], "tuple[Path, subprocess.Popen[str]]"], store: Store
) -> None:
    store.status = 403
    _, train = script("for epoch in 1 2 3; do echo epoch=$epoch loss=1; sleep 0.5; done")
    output, _ = train.communicate(timeout=60)
    assert train.returncode == 0, output
    assert output.count("The metric history cannot be written: s3://output/x/metrics/job-1/") == 1
    assert len(set(store.puts)) == 1  # the same part each time
