"""The merge of weights that scripts have saved: weighted, with the outer step, and independent of any framework."""

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from training_container import weights_file
from training_container.contract.stopping import StoppedError
from training_container.contract.training_job import Folders, TrainingJob
from training_container.merge.options import MergeOptions
from training_container.merge.parts import MergeError, MergePart
from training_container.merge.script_weights import merge_weights
from training_container.script_api import round_weights
from training_container.weights_file import Tensor, Tensors, WeightsFile

STEP = {"outer_learning_rate": 0.5, "outer_momentum": 0.5}
START = {"w": np.array([2.0, 4.0], np.float32), "var": np.array([1.0], np.float32), "steps": np.array(0)}


class Regions:
    """Models of scripts, and the job that merges them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.parts = folder, list[MergePart]()
        self.channel = folder / "channel"
        self.channel.mkdir()
        folders = Folders(base=folder / "merge")
        self.job: Any = type("Job", (), {"folders": folders, "channels": {"models": self.channel}})()

    def train(self, records: int, start: dict[str, Any] = START, **weights: Any) -> None:
        """Save the weights of a Region."""
        folders = Folders(base=self.folder / f"region-{len(self.parts)}")
        round_weights.begin(start, folders)
        values = {name: np.asarray(weights[name], start[name].dtype) for name in start}
        round_weights.save(values, records=records, averaged=["var"], folders=folders)
        self.parts.append(MergePart(submission="0a1b2c3d", index=len(self.parts), folder=folders.model))

    def replace_weight(self, index: int, values: Any) -> None:
        """Give a saved model another weight `w`, which `save` might refuse."""
        path = self.parts[index].folder / "weights.safetensors"
        content = weights_file.read(path)
        weights_file.write(path, WeightsFile({**content.tensors, "w": Tensor.of(values)}, content.metadata))

    def merge(self, stop: Callable[[], bool] = lambda: False, **options: Any) -> Tensors:
        merge_options = MergeOptions(method="weights", count=len(self.parts), **options)
        job: TrainingJob = self.job
        merge_weights(job, merge_options, self.parts, stop)
        return weights_file.read(job.folders.model / "weights.safetensors").tensors


@pytest.fixture
def regions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Regions:
    monkeypatch.setattr(round_weights, "_starts", [])
    return Regions(tmp_path)


def test_a_region_counts_by_its_records(regions: Regions) -> None:
    regions.train(30, w=[1, 1], var=[4], steps=10)
    regions.train(10, w=[5, 9], var=[8], steps=13)
    tensors = regions.merge(weight_by="records")
    np.testing.assert_allclose(tensors["w"].array, [2, 3])
    np.testing.assert_allclose(tensors["var"].array, [5])
    assert tensors["steps"].array == 11  # 10.75, rounded
    assert tensors["steps"].array.dtype == np.int64
    report = json.loads((regions.job.folders.model / "report.json").read_text())
    assert [part["weight"] for part in report["merged_from"]] == [30, 10]


def test_all_models_may_count_alike(regions: Regions) -> None:
    regions.train(30, w=[1, 1], var=[4], steps=1)
    regions.train(10, w=[5, 9], var=[8], steps=1)
    np.testing.assert_allclose(regions.merge()["w"].array, [3, 5])


def test_the_outer_step_changes_what_gradients_train(regions: Regions) -> None:
    regions.train(1, w=[1, 1], var=[4], steps=2)
    regions.train(1, w=[1, 1], var=[8], steps=2)
    tensors = regions.merge(**STEP)
    # The gradient is 2 - 1 and 4 - 1; in the first round, the velocity is the gradient.
    np.testing.assert_allclose(tensors["w"].array, [2 - 0.5 * 1.5 * 1, 4 - 0.5 * 1.5 * 3])
    np.testing.assert_allclose(tensors["var"].array, [6])
    assert tensors["steps"].array == 2


def test_a_second_round_continues_with_start_and_velocity(regions: Regions, tmp_path: Path) -> None:
    regions.train(1, w=[1, 1], var=[4], steps=2)
    regions.train(1, w=[1, 1], var=[8], steps=2)
    tensors = regions.merge(**STEP)
    first = regions.job.folders
    second = Regions(_made(tmp_path / "second"))
    for name, folder in (("start.tar.gz", first.model), ("velocity.tar.gz", first.output / "data")):
        with tarfile.open(second.channel / name, "w:gz") as archive:
            archive.add(folder, ".")
    start = {name: tensor.array for name, tensor in tensors.items()}
    for _ in range(2):
        second.train(1, start=start, w=[1, 1], var=[6], steps=4)
    gradient = start["w"] - 1
    velocity = 0.5 * np.array([1, 3]) + gradient
    expected = start["w"] - 0.5 * (gradient + 0.5 * velocity)
    np.testing.assert_allclose(second.merge(outer_round=2, **STEP)["w"].array, expected, rtol=1e-6)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_trainings_with_different_starts_are_refused(regions: Regions) -> None:
    regions.train(1, w=[1, 1], var=[4], steps=2)
    regions.train(1, start=START | {"var": np.array([2.0], np.float32)}, w=[1, 1], var=[4], steps=2)
    with pytest.raises(MergeError, match="The training of job 1 of 0a1b2c3d did not begin with the same weights as"):
        regions.merge()


def test_weights_that_are_not_finite_are_refused(regions: Regions) -> None:
    regions.train(1, w=[1, 1], var=[4], steps=2)
    regions.train(1, w=[1, 1], var=[4], steps=2)
    regions.replace_weight(1, np.array([1, np.nan], np.float32))
    with pytest.raises(MergeError, match="The weight w of job 1 of 0a1b2c3d is not finite: its training diverged"):
        regions.merge()


def test_a_result_beyond_its_type_is_refused(regions: Regions) -> None:
    start = {"w": np.array([0, 0], np.float16), "var": np.array([1.0], np.float32), "steps": np.array(0)}
    for _ in range(2):
        regions.train(1, start=start, w=[60000, 1], var=[1], steps=1)
    with pytest.raises(MergeError, match="The weight w is not finite in the type F16 after the merge"):
        regions.merge(outer_learning_rate=1.5, outer_momentum=0.0)
    assert not regions.job.folders.model.exists()


def test_a_count_of_records_that_cannot_be_is_refused(regions: Regions) -> None:
    for _ in range(2):
        regions.train(1, w=[1, 1], var=[4], steps=2)
    path = regions.parts[1].folder / "weights.safetensors"
    content = weights_file.read(path)
    metadata = {**content.metadata, "records": "1" + "0" * 400}
    weights_file.write(path, WeightsFile(content.tensors, metadata))
    with pytest.raises(MergeError, match="The weights of job 1 of 0a1b2c3d record more than "):
        regions.merge(weight_by="records")


def test_a_model_without_weights_is_refused(regions: Regions) -> None:
    regions.train(1, w=[1, 1], var=[4], steps=2)
    regions.train(1, w=[1, 1], var=[4], steps=2)
    path = regions.parts[1].folder / "weights.safetensors"
    weights_file.write(path, WeightsFile(weights_file.read(path).tensors))
    with pytest.raises(MergeError, match=r"weights\.safetensors of job 1 of 0a1b2c3d does not record its training"):
        regions.merge()
    path.unlink()
    with pytest.raises(MergeError, match=r"The model of job 1 of 0a1b2c3d has no file weights\.safetensors"):
        regions.merge()


def test_a_merge_that_is_asked_to_stop_writes_nothing(regions: Regions) -> None:
    for _ in range(2):
        regions.train(1, w=[1, 1], var=[4], steps=2)
    with pytest.raises(StoppedError):
        regions.merge(lambda: True)
    assert not regions.job.folders.model.exists()
