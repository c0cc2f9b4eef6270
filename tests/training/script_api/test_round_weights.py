"""Weights of rounds: a script begins with the global ones, and saves its own with the number of its records."""

import json
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from training_container import weights_file
from training_container.contract.training_job import Folders
from training_container.script_api import round_weights
from training_container.script_api.round_weights import RoundWeightsError
from training_container.weights_file import Tensor, WeightsFile, WeightsFileError

OWN = {"w": np.ones((2, 3), np.float32), "mean": np.zeros(3, np.float16), "steps": np.array(5, np.int64)}
Global = Callable[..., Folders]


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    monkeypatch.setattr(round_weights, "_starts", [])
    return Folders(base=tmp_path)


@pytest.fixture
def with_global(folders: Folders, tmp_path: Path) -> Global:
    """Put a global model into the channel `model`, as SageMaker does."""

    def put(weights: Mapping[str, Any] | None = None) -> Folders:
        channel = folders.data / "model"
        channel.mkdir(parents=True)
        model = tmp_path / "global"
        model.mkdir()
        if weights is not None:
            tensors = {name: Tensor.of(np.asarray(value)) for name, value in weights.items()}
            weights_file.write(model / "weights.safetensors", WeightsFile(tensors))
        with tarfile.open(channel / "model.tar.gz", "w:gz") as archive:
            archive.add(model, ".")
        return folders

    return put


def test_a_first_round_begins_with_the_weights_of_the_script_and_keeps_them(folders: Folders) -> None:
    weights = {name: value.copy() for name, value in OWN.items()}
    started = round_weights.begin(weights, folders)
    assert started == weights
    weights["w"] += 1  # the training changes the arrays that it has given
    round_weights.save(weights, records=7, averaged=["mean", "steps"], folders=folders)
    saved = weights_file.read(folders.model / "weights.safetensors")
    start = weights_file.read(folders.model / "start.safetensors")
    np.testing.assert_array_equal(saved.tensors["w"].array, weights["w"])
    np.testing.assert_array_equal(start.tensors["w"].array, OWN["w"])
    digest = weights_file.digest(start.tensors)
    assert saved.metadata == {"records": "7", "start": digest, "averaged": json.dumps(["mean", "steps"])}


def test_later_rounds_begin_with_the_global_weights(with_global: Global) -> None:
    changed = {name: value + 1 for name, value in OWN.items()}
    folders = with_global(changed)
    started = round_weights.begin(OWN, folders)
    for name, value in changed.items():
        np.testing.assert_array_equal(started[name], value)
        assert started[name].dtype == OWN[name].dtype
        started[name] += 1  # a copy, which a script may change
    round_weights.save(started, records=1, folders=folders)
    assert not (folders.model / "start.safetensors").exists()
    saved = weights_file.metadata_of(folders.model / "weights.safetensors")
    assert saved["start"] == weights_file.digest({name: Tensor.of(value) for name, value in changed.items()})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"b": np.zeros(1)}, "Only the global model has the weight b: it is another network."),
        ({"w": np.ones((2, 4), np.float32)}, r"The weight w of the script's network is F32 \[2, 3\], and that of the "),
        ({"w": np.ones((2, 3))}, r"is F32 \[2, 3\], and that of the global model F64 \[2, 3\]\."),
    ],
)
def test_the_weights_of_another_network_are_refused(with_global: Global, changes: Any, expected: str) -> None:
    with pytest.raises(RoundWeightsError, match=expected):
        round_weights.begin(OWN, with_global(OWN | changes))


def test_a_model_that_is_not_of_rounds_is_refused(with_global: Global) -> None:
    with pytest.raises(RoundWeightsError, match=r"has no file weights\.safetensors"):
        round_weights.begin(OWN, with_global())


def test_weights_are_saved_after_their_begin_and_with_records(folders: Folders) -> None:
    with pytest.raises(RoundWeightsError, match=r"Call round_weights\.begin"):
        round_weights.save(OWN, records=1, folders=folders)
    round_weights.begin(OWN, folders)
    with pytest.raises(RoundWeightsError, match="records is 0"):
        round_weights.save(OWN, records=0, folders=folders)
    with pytest.raises(RoundWeightsError, match="Only those of begin"):
        round_weights.save({"w": OWN["w"]}, records=1, folders=folders)
    assert not folders.model.exists()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_of_a_diverged_training_are_not_saved(folders: Folders, value: float) -> None:
    round_weights.begin(OWN, folders)
    diverged = OWN | {"mean": np.array([0, value, 0], np.float16)}
    # The words are those of traingrid.job.failures.is_divergence, which this image does not have.
    with pytest.raises(RoundWeightsError, match=r"^The weight mean is not finite: training diverged\."):
        round_weights.save(diverged, records=1, folders=folders)
    assert not folders.model.exists()


def test_a_type_that_the_format_does_not_have_is_refused(folders: Folders) -> None:
    with pytest.raises(RoundWeightsError, match="The weight name cannot be saved: the type <U1"):
        round_weights.begin({"name": np.array(["a"])}, folders)


def test_bfloat16_is_rounded_to_the_nearest_even() -> None:
    tensor = Tensor("BF16", np.array([0x3F80, 0xC000], np.uint16))
    np.testing.assert_array_equal(tensor.values(), [1.0, -2.0])
    above, tie = 1 + 2**-8 + 2**-12, 1 + 2**-8  # the next value of bfloat16 is 1 + 2**-7
    np.testing.assert_array_equal(tensor.with_values(np.array([above, tie])).values(), [1 + 2**-7, 1.0])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04" * 10,
        (2).to_bytes(8, "little") + b"[]",
        (200).to_bytes(8, "little") + b"{}",
        *(
            len(header).to_bytes(8, "little") + header + b"1234"
            for header in (
                b'{"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}',
                b'{"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}',
                b'{"w": {"dtype": [], "shape": [1], "data_offsets": [0, 4]}}',
                b'{"w": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}, "v": %s}'
                % b'{"dtype": "U8", "shape": [2], "data_offsets": [2, 4]}',
                b'{"w": {"dtype": "object", "shape": [1], "data_offsets": [0, 4]}}',
                b'{"w": {"dtype": "F32", "shape": [1]}}',
                b'{"w": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}',
            )
        ),
    ],
)
def test_a_file_of_another_format_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "w.safetensors").write_bytes(content)
    with pytest.raises(WeightsFileError):
        weights_file.read(tmp_path / "w.safetensors")
