"""The options of a merge are validated before TensorFlow is imported."""

import json
from pathlib import Path

import pytest

from training_container.contract.training_job import ContractError, Folders, TrainingJob, read_training_job
from training_container.merge.options import MergeOptions, check

GOOD = {"sagemaker_image_program": "merge", "merge_method": "average", "merge_count": "2"}
LAUNCH = {"sagemaker_mpi_num_of_processes_per_host": "1"}
CHANNELS = ("models", "train", "validation")


def job(tmp_path: Path, *channels: str, **hyperparameters: str) -> TrainingJob:
    folders = Folders(base=tmp_path)
    folders.config.mkdir(parents=True)
    (folders.config / "resourceconfig.json").write_text('{"current_host": "algo-1", "hosts": ["algo-1"]}')
    (folders.config / "inputdataconfig.json").write_text(json.dumps({name: {} for name in channels}))
    (folders.config / "hyperparameters.json").write_text(json.dumps(GOOD | LAUNCH | hyperparameters))
    return read_training_job(folders)


def test_the_trainers_hyperparameters_have_no_effect(tmp_path: Path) -> None:
    found = check(job(tmp_path, *CHANNELS, epochs="90", merge_statistics_images="500"))
    assert found == MergeOptions(method="average", count=2, statistics_images=500)


@pytest.mark.parametrize(
    ("hyperparameters", "expected"),
    [
        ({"merge_method": "mean"}, "Hyperparameter merge_method is 'mean'; it must be one of: average, ensemble, "),
        ({"merge_count": "0"}, "Hyperparameter merge_count is '0'; it must be a whole number from 1 to 1000000000."),
        ({"merge_layout": "flat"}, "Hyperparameter merge_layout is 'flat'; it must be one of: shared, folders."),
        ({"merge_weight_by": "size"}, "Hyperparameter merge_weight_by is 'size'; it must be one of: models, records."),
        ({"merge_outer_momentum": "1"}, "Hyperparameter merge_outer_momentum is '1'; it must be from 0 to 0.9999."),
        ({"merge_outer_learning_rate": "x"}, "Hyperparameter merge_outer_learning_rate is 'x'; it must be from 0 to "),
        ({"merge_images": "1"}, "Hyperparameter 'merge_images' is unknown. There are: merge_method, merge_count,"),
        ({"sagemaker_mpi_num_of_processes_per_host": "2"}, "A merge runs on one rank, but the job has 2."),
        ({"sagemaker_image_program": "split"}, "Hyperparameter sagemaker_image_program is 'split'; it must be "),
        ({"sagemaker_program": "a.py"}, "Hyperparameters sagemaker_image_program and sagemaker_program both name"),
    ],
)
def test_an_invalid_option_is_one_sentence(tmp_path: Path, hyperparameters: dict[str, str], expected: str) -> None:
    with pytest.raises(ContractError) as error:
        check(job(tmp_path, *CHANNELS, **hyperparameters))
    assert str(error.value).startswith(expected)


def test_an_average_of_statistics_reads_no_training_data(tmp_path: Path) -> None:
    assert check(job(tmp_path, "models", "validation", merge_statistics="average")).statistics == "average"


@pytest.mark.parametrize(
    ("method", "channels", "absent"),
    [
        ("average", ("models", "validation"), "train"),
        ("ensemble", ("models", "train"), "validation"),
        ("parts", ("train",), "models"),
    ],
)
def test_a_missing_channel_is_named(tmp_path: Path, method: str, channels: tuple[str, ...], absent: str) -> None:
    with pytest.raises(ContractError, match=f"the job has no channel '{absent}'"):
        check(job(tmp_path, *channels, merge_method=method))
