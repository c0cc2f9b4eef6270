"""Trainer checks: hyperparameters of the image's own trainer are checked when a manifest is read."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.sample_deployment import sample_deployment
from traingrid.grid.model import GridSettings
from traingrid.manifest.errors import LineError, ManifestError
from traingrid.manifest.line import Line
from traingrid.manifest.parse import parse

ROOT = Path(__file__).resolve().parents[3]


def lines_of(hyperparameters: dict[str, Any], *, defaults: dict[str, Any] | None = None, **values: Any) -> list[Line]:
    sample = sample_deployment()
    grid = sample.grid.model_dump(mode="json", exclude_defaults=True)
    grid["images"] = {
        "mine": {"build": "training", "target": "cpu"},
        "pushed": {"repository": "training", "tag": "1"},
        "other": {"repository": "other", "tag": "1"},
    }
    grid["job"] |= {"image": "mine", "hyperparameters": defaults or {}}
    line = {"region": "us-east-1", "s3_uri": "s3://ragab-ml/a", "hyperparameters": hyperparameters} | values
    return parse(json.dumps(line).encode(), replace(sample, grid=GridSettings.model_validate(grid)))


def errors_of(hyperparameters: dict[str, Any], **changes: Any) -> list[LineError]:
    with pytest.raises(ManifestError) as caught:
        lines_of(hyperparameters, **changes)
    return caught.value.errors


def test_the_product_and_the_image_have_the_same_table() -> None:
    """After a change: cp training_container/recipe/config.py traingrid/algorithms/trainer_config.py."""
    copies = ("training_container/recipe/config.py", "traingrid/algorithms/trainer_config.py")
    assert len({(ROOT / path).read_text() for path in copies}) == 1


@pytest.mark.parametrize(
    ("given", "entry", "reason"),
    [
        ({"epochs": 2.5}, "epochs", "must be a whole number from 1 to 100000"),
        ({"epochs": "1,000"}, "epochs", "must be a whole number"),
        ({"learning_rate": "0,05"}, "learning_rate", "must be a number from 0 to 100"),
        ({"lerning_rate": 0.1}, "lerning_rate", "is unknown"),
        ({"cache": "1"}, "cache", "must be true or false"),
        ({"model": "vgg"}, "model", "must be one of: resnet50"),
        ({"epochs": 5, "warmup_epochs": 6}, "warmup_epochs", "is 6, but there are only 5 epochs"),
        ({"learning_rate": 1, "base_learning_rate": 1}, "learning_rate", "is given, and 'base_learning_rate', too"),
        ({"epochs": 5, "num_epochs": 6}, "epochs", "is given twice"),
    ],
)
def test_what_the_trainer_would_refuse_is_an_error_of_the_line(given: dict[str, Any], entry: str, reason: str) -> None:
    (error,) = errors_of(given)
    assert (error.line, error.field) == (1, f"hyperparameters.{entry}")
    assert error.reason.startswith(reason)
    assert error.next_step.endswith((".", "?"))


def test_all_wrong_values_are_reported_at_once() -> None:
    errors = errors_of({"epochs": 0, "seed": -1, "zzz": 1})
    assert [(error.field.partition(".")[2], error.value) for error in errors] == [
        ("epochs", "'0'"),
        ("seed", "'-1'"),
        ("zzz", ""),
    ]


def test_a_wrong_default_is_an_error_that_names_grid_yaml() -> None:
    (error,) = errors_of({}, defaults={"epochs": "0"}, name="monday")
    assert "grid.yaml" in error.next_step
    assert lines_of({"epochs": 3}, defaults={"epochs": "0"})


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ({"epochs": 90.0, "num_epochs": "90.0", "lr_decay_mode": "poly", "cache": True}, {}),
        ({"sagemaker_stall_seconds": 60, "sagemaker_allow_cpu": "true"}, {}),
        ({"anything": "x"}, {"source": "s3://ragab-ml/code/sourcedir.tar.gz", "entry_point": "train.py"}),
        ({"sagemaker_image_program": "merge", "merge_count": 2}, {}),
        ({"anything": "x"}, {"image": "other"}),
        ({"anything": "x"}, {"image": "pushed"}),
    ],
    ids=["the trainer's", "of the launch", "a script's", "a merge's", "another image's", "an older image's"],
)
def test_valid_values_and_those_of_other_programs_are_accepted(given: dict[str, Any], values: dict[str, Any]) -> None:
    assert len(lines_of(given, **values)) == 1
