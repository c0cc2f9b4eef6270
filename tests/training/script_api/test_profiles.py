"""Profiles of a script's steps; those of PyTorch are skipped without it:

TORCH_ENVIRONMENT=$PWD/.venv-torch .venv-training/bin/python -m pytest tests/training/script_api/test_profiles.py
"""

import gzip
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.packages import needs
from tests.training.conftest import REPOSITORY
from training_container.contract.profiled_steps import VARIABLE
from training_container.script_api import profiles

TORCH = os.environ.get("TORCH_ENVIRONMENT", "")
PROGRAM = """
import torch
from trainer import profiles

with profiles.torch_profiler(completed_steps=2) as profiler:
    for step in range(3, 9):
        with torch.profiler.record_function(f"step-{step}"):
            torch.ones(8, 8) @ torch.ones(8, 8)
        profiler.step()
"""


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", str(tmp_path))


def test_a_line_without_profile_has_no_steps_and_a_profiler_that_does_nothing() -> None:
    assert profiles.steps() is None
    with profiles.torch_profiler() as profiler:
        profiler.step()


def test_rank_0_knows_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "10-20")
    assert profiles.steps() == (10, 20)


def test_other_ranks_write_no_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "10-20")
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    assert profiles.steps() is None
    assert isinstance(profiles.torch_profiler(), profiles.NoProfiler)


def test_a_script_that_resumes_after_the_last_step_writes_no_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "10-20")
    assert isinstance(profiles.torch_profiler(completed_steps=20), profiles.NoProfiler)


@needs("make test-torch")
@pytest.mark.parametrize(("asked", "expected"), [("5-6", [5, 6]), ("1-4", [3, 4]), ("8-20", [8])])
def test_pytorch_writes_the_steps_as_a_run_of_tensorboard(tmp_path: Path, asked: str, expected: list[int]) -> None:
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "training_container" / "script_path")])
    environment = {**os.environ, "PYTHONPATH": path, VARIABLE: asked, "SM_CURRENT_HOST": "algo-2"}
    subprocess.run([f"{TORCH}/bin/python", "-c", PROGRAM], env=environment, check=True)
    (written,) = tmp_path.glob("output/tensorboard/plugins/profile/*/*")
    assert written.name.startswith("algo-2-0.")
    assert written.name.endswith(".pt.trace.json.gz")
    events = json.loads(gzip.decompress(written.read_bytes()))["traceEvents"]
    names = {event.get("name", "") for event in events}
    assert sorted(int(name.removeprefix("step-")) for name in names if name.startswith("step-")) == expected
