"""Two rounds of a series whose outer step has momentum, with real trainings; with TensorFlow, 10 s each."""

import tarfile
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.training.merge.test_merge import LONGER, MERGE, report, run
from training_container.merge.options import MergeOptions
from training_container.merge.outer_step import OuterStep, Weights, weighted_mean
from training_container.merge.parts import MergeError, MergePart
from training_container.merge.reports import Network
from training_container.merge.velocity import read_velocity
from training_container.trainer.models import build_model

STEP = OuterStep(learning_rate=0.7, momentum=0.6)
OUTER = MERGE | {
    "merge_method": "average",
    "merge_weight_by": "records",
    "merge_statistics": "average",
    "merge_outer_learning_rate": "0.7",
    "merge_outer_momentum": "0.6",
}


def weights(base: Path) -> Weights:
    """Return the weights of the exported model of a job, by the number of the variable."""
    reader = tf.train.load_checkpoint(str(base / "model" / "1" / "variables" / "variables"))
    names = [name for name in reader.get_variable_to_shape_map() if name.startswith("model_variables/")]
    return [reader.get_tensor(name) for name in sorted(names, key=lambda name: int(name.split("/")[1]))]


def statistics(base: Path) -> list[bool]:
    """Return, for each weight of a model, True if it is a moving mean or variance of batch norm."""
    part = MergePart(submission="0a1b2c3d", index=0, folder=base / "model")
    return ["moving_" in variable.name for variable in build_model(Network.read(part).config).variables]


def archived(folder: Path, target: Path) -> None:
    with tarfile.open(target, "w:gz") as archive:
        archive.add(folder, ".")


def local_rounds(work: Path, campaigns: Path, initial: Path | None) -> list[Path]:
    bases = [work / f"local-{number}" for number in (1, 2)]
    for number, base in enumerate(bases, start=1):
        status, output = run(base, campaigns / f"campaign-{number}", LONGER, initial=initial)
        assert status == 0, output
    return bases


@pytest.fixture(scope="module")
def first(campaigns: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """The first round: its merge, and its trainings from a common seed."""
    work = tmp_path_factory.mktemp("first")
    local = local_rounds(work, campaigns, None)
    status, output = run(work / "merge", campaigns / "campaign-3", OUTER, [base / "model" for base in local])
    assert status == 0, output
    assert "Outer step 1: learning rate 0.7, momentum 0.6." in output
    assert "Computing the statistics of batch norm" not in output
    return work / "merge", local


def test_the_weights_of_a_model_are_its_training_records(first: tuple[Path, list[Path]]) -> None:
    merge, local = first
    records = [report(base)["training_images"] for base in local]
    assert [part["weight"] for part in report(merge)["merged_from"]] == records


def test_the_first_step_begins_with_the_weights_of_the_seed(first: tuple[Path, list[Path]]) -> None:
    """The start that the merge has computed is the one whose step leads to its result."""
    merge, local = first
    counts = [int(str(report(base)["training_images"])) for base in local]
    mean = weighted_mean([weights(base) for base in local], counts)
    # v = start - mean in the first round, so that the next weights are mean + v - 0.7 (1 + 0.6) v.
    for value, average, change, is_statistic in zip(
        weights(merge), mean, stored_velocity(merge), statistics(merge), strict=True
    ):
        expected = average if is_statistic else average + change * (1 - 0.7 * 1.6)
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)


def stored_velocity(base: Path) -> Weights:
    with np.load(base / "output" / "data" / "outer_velocity.npz") as stored:
        return [stored[str(number)] for number in range(len(stored.files))]


@pytest.fixture(scope="module")
def second_models(
    first: tuple[Path, list[Path]], campaigns: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[Path]:
    return local_rounds(tmp_path_factory.mktemp("second"), campaigns, first[0] / "model")


def test_the_second_step_continues_with_the_velocity(
    first: tuple[Path, list[Path]], second_models: list[Path], campaigns: Path, tmp_path: Path
) -> None:
    merge, _ = first
    extras = tmp_path / "extras"
    extras.mkdir()
    archived(merge / "model", extras / "start.tar.gz")
    archived(merge / "output" / "data", extras / "velocity.tar.gz")
    models, options = [base / "model" for base in second_models], OUTER | {"merge_outer_round": "2"}
    status, output = run(tmp_path / "merge", campaigns / "campaign-3", options, models, extras=extras)
    assert status == 0, output
    counts = [int(str(report(base)["training_images"])) for base in second_models]
    mean = weighted_mean([weights(base) for base in second_models], counts)
    expected, _ = STEP(weights(merge), mean, stored_velocity(merge))
    for value, average, step, is_statistic in zip(
        weights(tmp_path / "merge"), mean, expected, statistics(merge), strict=True
    ):
        np.testing.assert_allclose(value, average if is_statistic else step, rtol=1e-4, atol=1e-5)


def test_a_second_step_without_the_velocity_fails(tmp_path: Path) -> None:
    options = MergeOptions(method="average", count=2, outer_round=2, outer_momentum=0.6)
    with pytest.raises(MergeError, match=r"^The channel has no velocity of round 1\. Restore its output\.tar\.gz\.$"):
        read_velocity(tmp_path, tmp_path, options)
