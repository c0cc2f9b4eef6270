"""The package `trainer` that a custom script imports, apart from training_container's own packages."""

import json
import os
import subprocess
import sys

import pytest

from tests.training.conftest import REPOSITORY

# Names of docs/training.md, docs/scripts.md and of the docstrings that scripts follow.
API = {
    "channels": ["Channel", "ChannelError", "open"],
    "checkpoints": ["CheckpointError", "Checkpoints", "Progress", "broadcast", "resume"],
    "checkpoint_folders": ["Found", "newest", "save"],
    "cluster": ["Cluster", "any_rank", "least", "start"],
    "metric_lines": ["METRICS", "line", "pairs"],
    "initial_model": ["folder"],
    "metrics": ["report"],
    "profiles": ["steps", "torch_profiler"],
    "ranks": ["Ranks", "current"],
    "records": ["ChannelError", "ReadOptions", "Records", "files", "open", "read", "stream"],
    "tensorboard": ["TensorBoard"],
}
PROGRAM = """
import json, sys
from trainer import channels, checkpoint_folders, checkpoints, cluster, metric_lines, metrics, ranks, records
from trainer import initial_model, profiles, tensorboard
found = {name: dir(module) for name, module in list(globals().items()) if hasattr(module, "__spec__")}
print(json.dumps(found))
"""


def ended(program: str) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "training_container" / "script_path")])
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def found() -> dict[str, list[str]]:
    imported = ended(PROGRAM)
    assert imported.returncode == 0, imported.stderr
    names: dict[str, list[str]] = json.loads(imported.stdout.splitlines()[-1])
    return names


@pytest.mark.parametrize("module", API)
def test_a_script_finds_the_documented_names(found: dict[str, list[str]], module: str) -> None:
    assert set(API[module]) <= set(found[module])


def test_an_unknown_module_is_refused_with_the_known_ones() -> None:
    failed = ended("import trainer; trainer.models")
    assert (
        "trainer has no attribute 'models'; it has: channels, checkpoint_folders, checkpoints, cluster" in failed.stderr
    )


def test_modules_for_all_scripts_import_no_framework_and_one_small_library() -> None:
    """`python -m bench.training.script_api` measures the time."""
    imported = ended(
        "import sys; before = set(sys.modules)\n"
        "from trainer import checkpoint_folders, initial_model, metrics, profiles, ranks, records\n"
        "found = {name.partition('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)\n"
        "print(*sorted(found))"
    )
    assert imported.stdout.split() == ["google_crc32c", "trainer", "training_container"]
