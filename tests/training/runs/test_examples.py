"""The scripts of examples/, packed unmodified, and run by `train` on two ranks."""

import json
import os
import re
import signal
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from training_container.trainer.checkpoints import files

SCRIPTS = Path(__file__).resolve().parents[3] / "examples" / "scripts"


@pytest.mark.parametrize("number", [0, 1], ids=["keras_fit", "custom_loop"])
def test_an_example_trains_on_two_ranks_and_continues(
    host_folder: Callable[..., Path], start: Callable[..., "subprocess.Popen[str]"], tmp_path: Path, number: int
) -> None:
    line = json.loads((SCRIPTS / "manifest.jsonl").read_text().splitlines()[number])
    with tarfile.open(tmp_path / "source.tar.gz", "w:gz") as packed:
        packed.add(SCRIPTS, ".")
    named = {
        "sagemaker_submit_directory": str(tmp_path / "source.tar.gz"),
        "sagemaker_program": line["entry_point"],
        "model": "resnet8",  # a grid sets it for every line, but the script does not use it
    }
    base = host_folder(tmp_path / "ml", named | {"epochs": "3", "batch_size": "16"})
    losses = trained(start(base), first=1, last=3)
    assert losses[-1] < losses[0]
    assert (base / "model" / "1" / "saved_model.pb").exists()
    assert list((base / "checkpoints").glob("checkpoint-*"))

    settings = base / "input" / "config" / "hyperparameters.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"epochs": "4"}))
    (again,) = trained(start(base), first=4, last=4)
    assert again < losses[0]


def test_a_custom_loop_continues_with_more_ranks_from_the_same_position(
    host_folder: Callable[..., Path], start: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    named = {"sagemaker_submit_directory": str(SCRIPTS), "sagemaker_program": "custom_loop.py"}
    base = host_folder(tmp_path / "ml", named | {"epochs": "1", "batch_size": "16"}, processes=1)
    trained(start(base), first=1, last=1)
    (saved,) = (base / "checkpoints").glob("checkpoint-*")
    done = files.read_state(saved)["progress"]
    assert (done["epoch"], done["ranks"], done["batch_size"]) == (1, 1, 16)
    # As if it had been stopped one step before the end, with losses that clearly differ from real ones.
    steps = done["step"] - 1
    stopped = {"epoch": 0, "step": steps, "step_in_epoch": steps, "loss_sum": 1000.0 * steps, "loss_steps": steps}
    files.replace_state(saved, {"progress": done | stopped})

    settings = base / "input" / "config" / "hyperparameters.json"
    two_ranks = {"sagemaker_mpi_num_of_processes_per_host": "2"}
    settings.write_text(json.dumps(json.loads(settings.read_text()) | two_ranks))
    (loss,) = trained(start(base), first=1, last=1)
    assert 500 < loss < 1000  # the mean includes some of the new steps
    done = files.read_state(max((base / "checkpoints").glob("checkpoint-*")))["progress"]
    assert (done["epoch"], done["ranks"], done["batch_size"]) == (1, 2, 16)
    assert done["step"] <= steps // 2 + 1


def test_a_custom_loop_writes_a_checkpoint_when_it_is_stopped(
    host_folder: Callable[..., Path], start: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    named = {"sagemaker_submit_directory": str(SCRIPTS), "sagemaker_program": "custom_loop.py"}
    base = host_folder(tmp_path / "ml", named | {"epochs": "100000"})
    train = start(base)
    assert train.stdout is not None
    for line in train.stdout:
        if line.startswith("epoch=2 "):
            break
    os.killpg(train.pid, signal.SIGTERM)
    output, _ = train.communicate(timeout=120)
    assert train.returncode == 143, output
    assert list((base / "checkpoints").glob("checkpoint-*"))
    assert not (base / "output" / "failure").exists()


def trained(train: "subprocess.Popen[str]", *, first: int, last: int) -> list[float]:
    """Return the losses that a training prints, and check that they belong to these epochs."""
    output, _ = train.communicate(timeout=120)
    assert train.returncode == 0, output
    found = re.findall(r"^epoch=(\d+) train_loss=([0-9.]+)", output, re.MULTILINE)
    assert [int(epoch) for epoch, _ in found] == list(range(first, last + 1))
    return [float(loss) for _, loss in found]
