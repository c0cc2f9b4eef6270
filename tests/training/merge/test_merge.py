"""Merges of networks that `train` has trained on digits, run as SageMaker starts them; with TensorFlow, 10 s each."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import tensorflow as tf

from tests.training.conftest import REPOSITORY, TINY
from tests.training.runs.test_runs import PATIENCE_SECONDS, finished, metrics
from training_container.contract.stopping import STOPPED_STATUS

LAUNCH = {"sagemaker_mpi_enabled": "true", "sagemaker_mpi_num_of_processes_per_host": "1"}
LONGER = TINY | {"steps_per_epoch": "20", "batch_size": "32"}
MERGE = {"sagemaker_image_program": "merge", "merge_count": "2", "merge_statistics_images": "256"}


def started(  # noqa: PLR0917  # each has a default, and tests name them
    base: Path,
    data: Path,
    hyperparameters: Mapping[str, str],
    models: Sequence[Path] = (),
    initial: Path | None = None,
    extras: Path | None = None,
) -> "subprocess.Popen[str]":
    """Start `train` in a folder.

    Args:
        base: The folder in place of /opt/ml.
        data: The folder of the channels train and validation.
        hyperparameters: The hyperparameters.
        models: The folders of the models to merge.
        initial: The folder of the model with which a training begins.
        extras: A folder with other files of the channel with the models.
    """
    channels = base / "input" / "data"
    (base / "input" / "config").mkdir(parents=True)
    channels.mkdir()
    for name in ("train", "validation"):
        (channels / name).symlink_to(data / name)
    (channels / "models").mkdir()
    for place, folder in enumerate(models):
        with tarfile.open(channels / "models" / f"part-{place:03d}-0a1b2c3d-{place}.tar.gz", "w:gz") as archive:
            archive.add(folder, ".")
    if extras:
        shutil.copytree(extras, channels / "models", dirs_exist_ok=True)
    if initial:
        (channels / "model").mkdir()
        with tarfile.open(channels / "model" / "model.tar.gz", "w:gz") as archive:
            archive.add(initial, ".")
    content = {
        "hyperparameters": LAUNCH | dict(hyperparameters),
        "resourceconfig": {"current_host": "algo-1", "hosts": ["algo-1"]},
        "inputdataconfig": {"train": {}, "validation": {}}
        | ({"models": {}} if models else {})
        | ({"model": {}} if initial else {}),
    }
    for name, value in content.items():
        (base / "input" / "config" / f"{name}.json").write_text(json.dumps(value))
    return subprocess.Popen(
        [REPOSITORY / "training_container" / "train"],
        env={"PATH": os.environ["PATH"], "PYTHON": sys.executable, "SAGEMAKER_BASE_DIR": str(base)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run(  # noqa: PLR0917  # as above
    base: Path,
    data: Path,
    hyperparameters: Mapping[str, str],
    models: Sequence[Path] = (),
    initial: Path | None = None,
    extras: Path | None = None,
) -> tuple[int, str]:
    """Run `train` as `started` starts it, and return its exit status and output."""
    return finished(started(base, data, hyperparameters, models, initial, extras))


def report(base: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((base / "model" / "report.json").read_text())
    return found


@pytest.fixture(scope="module")
def trained(campaigns: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two networks that began with the same weights, and trained on different campaigns."""
    bases = [tmp_path_factory.mktemp("trained") / str(number) for number in (1, 2)]
    for number, base in enumerate(bases, start=1):
        status, output = run(base, campaigns / f"campaign-{number}", LONGER)
        assert status == 0, output
    return bases


@pytest.fixture(scope="module")
def models(trained: list[Path]) -> list[Path]:
    return [base / "model" for base in trained]


def test_trainings_with_the_same_seed_record_the_same_initial_weights(trained: list[Path]) -> None:
    first, second = (report(base)["initial_weights"] for base in trained)
    assert first == second
    assert re.fullmatch("[0-9a-f]{64}", str(first))


@pytest.mark.parametrize("method", ["average", "ensemble"])
def test_a_merged_network_is_compared_with_its_parts_and_exported(
    models: list[Path], campaigns: Path, tmp_path: Path, method: str
) -> None:
    status, output = run(tmp_path, campaigns / "campaign-3", MERGE | {"merge_method": method}, models)
    assert status == 0, output
    parts = [metrics(output, f"part_{number}_top1")[0] for number in (0, 1)]
    assert metrics(output, "best_part_top1") == [max(parts)]
    found = report(tmp_path)
    assert metrics(output, "validation_top1")[0] == pytest.approx(found["top1"], abs=1e-5)
    assert f"{method} of 2 " in output
    assert "job 1 of 0a1b2c3d" in output
    assert "Unpacking the model of job 1 of 0a1b2c3d, " in output
    assert "Reading the network of job 0 of 0a1b2c3d ..." in output
    assert ("Computing the statistics of batch norm ..." in output) == (method == "average")
    for name in (f"the {method} of 2", "job 0 of 0a1b2c3d (1 of 2)", "job 1 of 0a1b2c3d (2 of 2)"):
        assert re.search(rf"Evaluating {re.escape(name)}: [0-9,]+ images in ", output), output
    assert [part["validation_top1"] for part in found["merged_from"]] == pytest.approx(parts, abs=1e-5)
    serve = tf.saved_model.load(str(tmp_path / "model" / "1")).signatures["serving_default"]
    answer = serve(images=tf.zeros([3, 28, 20, 3]))
    assert answer["probabilities"].shape == (3, 10)
    if method == "ensemble":
        each = [tf.saved_model.load(str(folder / "1")).signatures["serving_default"] for folder in models]
        mean = sum(one(images=tf.zeros([3, 28, 20, 3]))["probabilities"] for one in each) / 2
        assert answer["probabilities"].numpy() == pytest.approx(
            mean.numpy(), abs=0.01
        )  # which were exported in bfloat16 here


def test_a_training_begins_with_the_average(models: list[Path], campaigns: Path, tmp_path: Path) -> None:
    base = tmp_path / "merge"
    status, output = run(base, campaigns / "campaign-3", MERGE | {"merge_method": "average"}, models)
    assert status == 0, output
    status, output = run(tmp_path / "again", campaigns / "campaign-1", TINY, initial=base / "model")
    assert status == 0, output
    assert "Beginning with the weights of the initial model, the average of 2 models." in output


def test_networks_with_other_initial_weights_are_not_averaged(
    models: list[Path], campaigns: Path, tmp_path: Path
) -> None:
    status, output = run(tmp_path / "other", campaigns / "campaign-1", TINY | {"seed": "1"})
    assert status == 0, output
    other = tmp_path / "other" / "model"
    base = tmp_path / "merge"
    status, output = run(base, campaigns / "campaign-1", MERGE | {"merge_method": "average"}, [models[0], other])
    failure = (base / "output" / "failure").read_text()
    assert status == 1
    assert "MergeError: The training of job 1 of 0a1b2c3d did not start from the same weights as that " in failure
    assert not (base / "model").exists() or not list((base / "model").iterdir())


def test_a_stop_ends_the_merge_without_a_failure(models: list[Path], campaigns: Path, tmp_path: Path) -> None:
    train = started(tmp_path, campaigns / "campaign-3", MERGE | {"merge_method": "ensemble"}, models)
    assert train.stdout is not None
    train.stdout.readline()  # the command of the launcher: `train` has read the job
    train.terminate()  # as SageMaker, which stops the first process of a container
    output, _ = train.communicate(timeout=PATIENCE_SECONDS)
    assert train.returncode == STOPPED_STATUS, output
    assert "Stopped before the end of the merge; a retry begins again." in output
    assert not (tmp_path / "output" / "failure").exists()


def test_the_files_of_other_programs_are_joined(campaigns: Path, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
        (folder / f"rows-{folder.name}.csv").write_text(folder.name)
    base = tmp_path / "merge"
    status, output = run(base, campaigns / "campaign-1", MERGE | {"merge_method": "parts"}, folders)
    assert status == 0, output
    assert "Joining the files of job 1 of 0a1b2c3d (2 of 2) ..." in output
    assert "Joined 2 files of 2 models." in output
    assert sorted(path.name for path in (base / "model").iterdir()) == ["rows-a.csv", "rows-b.csv"]
