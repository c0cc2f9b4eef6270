"""The example notebook, executed from start to end against a grid in a local AWS."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from localcloud.credentials.environments import user_environment
from localcloud.server.local_cloud import LocalCloud
from tests.e2e.deployed import control_plane, two_regions
from traingrid.api.grid import Grid

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/notebook"
NOTEBOOK = "compare_runs.ipynb"
PROGRAMS = ROOT / ".venv-notebook/bin"
RESULT = ROOT / "build/notebook"
SECONDS_FOR_THE_BEST_OF_FOUR = 120


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with two_regions(tmp_path_factory.mktemp("cloud"), grid=(EXAMPLE / "grid.yaml").read_text()) as running:
        yield running


def environment(cloud: LocalCloud) -> dict[str, str]:
    """Return the variables of a program in .venv-notebook that uses the grid."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        **user_environment(cloud.endpoint_url),
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        # The SDK writes some addresses of AWS itself. With this proxy, such a request fails on this machine.
        "HTTPS_PROXY": "http://127.0.0.1:9",
    }


@pytest.fixture(scope="module")
def folder(cloud: LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a notebook that was executed; a copy of the notebook stays in build/."""
    found = tmp_path_factory.mktemp("work") / "notebook"
    shutil.copytree(EXAMPLE, found)
    command = [str(PROGRAMS / "jupyter-execute"), "--inplace", "--allow-errors", "--timeout=240", NOTEBOOK]
    ended = subprocess.run(command, cwd=found, env=environment(cloud), capture_output=True, text=True, check=False)
    RESULT.mkdir(parents=True, exist_ok=True)
    shutil.copy(found / NOTEBOOK, RESULT)
    assert ended.returncode == 0, ended.stderr
    return found


def cells(notebook: Path) -> dict[str, dict[str, Any]]:
    return {cell["id"]: cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"}


def shown(cell: dict[str, Any]) -> str:
    """Return the text that a cell has printed and returned."""
    texts = [part.get("text", part.get("data", {}).get("text/plain", "")) for part in cell["outputs"]]
    return "\n".join("".join(text) for text in texts)


def test_no_cell_prints_an_error(folder: Path) -> None:
    outputs = [output for cell in cells(folder / NOTEBOOK).values() for output in cell["outputs"]]
    assert outputs
    assert [output for output in outputs if output["output_type"] == "error"] == []


def test_the_best_run_is_the_one_with_the_highest_accuracy(folder: Path, cloud: LocalCloud) -> None:
    found = cells(folder / NOTEBOOK)
    with control_plane(cloud) as plane:
        submission = Grid(plane).submission(shown(found["submit"]).strip("'"))
        jobs = submission.jobs
        assert [str(job.state) for job in jobs] == ["Completed"] * 4
        assert {job.region for job in jobs} == {"us-east-1", "eu-west-1"}
        best = max(jobs, key=lambda job: job.metrics["accuracy"])
    assert best.metrics["accuracy"] > 0.95
    assert best.metrics["accuracy"] > min(job.metrics["accuracy"] for job in jobs) + 0.1
    assert f"{best.name} is the best of 4: models/{submission.id}-{best.index}" in shown(found["download"])
    assert (folder / f"models/{submission.id}-{best.index}/network.npz").is_file()


def test_the_curves_have_a_value_of_each_epoch(folder: Path, cloud: LocalCloud) -> None:
    found = cells(folder / NOTEBOOK)
    with control_plane(cloud) as plane:
        points = Grid(plane).submission(shown(found["submit"]).strip("'")).metrics()
    losses = [point for point in points if point.metric == "loss"]  # a list, because this environment has no pandas
    assert sorted((point.index, point.epoch) for point in losses) == [
        (job, n) for job in range(4) for n in range(1, 31)
    ]
    (picture,) = [output for output in found["curves"]["outputs"] if "image/png" in output.get("data", {})]
    assert len(picture["data"]["image/png"]) > 10_000


def test_a_model_trainer_was_trained_in_each_region(folder: Path) -> None:
    rows = shown(cells(folder / NOTEBOOK)["submit-trainer"]).splitlines()[1:]
    assert sorted(row.split()[1:3] for row in rows) == [["eu-west-1", "Completed"], ["us-east-1", "Completed"]]


def test_a_command_and_two_ranks_of_mpi_are_trained_from_trainers(folder: Path, cloud: LocalCloud) -> None:
    program = [str(PROGRAMS / "python"), str(Path(__file__).parent / "submit_trainers.py")]
    data = "s3://traingrid-data-123456789012-us-east-1/spirals/train/"  # the notebook has uploaded it
    variables = environment(cloud) | {"SAGEMAKER_VALIDATE_ROLE": "false"}
    ended = subprocess.run(
        [*program, data], cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=120
    )
    lines = ended.stdout.splitlines()
    assert {"command: Completed", "mpi: Completed", "<started>"} <= set(lines), ended.stdout + ended.stderr
    assert len([line for line in lines if "epoch=2 " in line]) == 3


def test_the_best_of_four_is_found_in_under_two_minutes(folder: Path) -> None:
    """From the first cell to the download of the best model, on a machine that may be busy with other tests."""
    found = cells(folder / NOTEBOOK)
    times = [found[name]["metadata"]["execution"] for name in ("load", "download")]
    first, last = times[0]["iopub.status.busy"], times[1]["iopub.status.idle"]
    seconds = (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()
    print(f"from the first cell to the best model: {seconds:.0f} s")
    assert seconds < SECONDS_FOR_THE_BEST_OF_FOUR


def test_the_committed_notebook_has_no_outputs() -> None:
    assert [
        name for name, cell in cells(EXAMPLE / NOTEBOOK).items() if cell["outputs"] or cell["execution_count"]
    ] == []
