"""The facts in the reports of models decide whether they can be merged."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.training.records import SMALL
from training_container.merge.parts import MergeError, MergePart
from training_container.merge.reports import Network, check_average, check_ensemble, counts_of

DIGEST = "d" * 64


def network(index: int, **changes: object) -> Network:
    facts = {name: changes.pop(name) for name in ("class_names", "initial_weights") if name in changes}
    config = replace(SMALL, **changes)  # type: ignore[arg-type]  # the fields' types are the caller's
    part = MergePart(submission="0a1b2c3d", index=index, folder=Path())
    return Network(part=part, config=config, **{"initial_weights": DIGEST, **facts})  # type: ignore[arg-type]  # as above


def test_a_report_of_the_trainer_is_read(tmp_path: Path) -> None:
    report = {**asdict(SMALL), "top1": 0.5, "class_names": ["cat", "dog"], "initial_weights": DIGEST}
    (tmp_path / "report.json").write_text(json.dumps(report))
    found = Network.read(MergePart(submission="0a1b2c3d", index=1, folder=tmp_path))
    assert (found.config, found.class_names, found.initial_weights) == (SMALL, ("cat", "dog"), DIGEST)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "has no report.json of the image's trainer"),
        ("{", "has no report.json of the image's trainer"),
        ('{"rows": 1}', "has no report.json of the image's trainer"),
        ('{"model": "resnet8", "merge_method": "ensemble"}', "is an ensemble. Merge its members instead."),
    ],
)
def test_another_model_cannot_be_merged(tmp_path: Path, content: str | None, expected: str) -> None:
    if content:
        (tmp_path / "report.json").write_text(content)
    with pytest.raises(MergeError) as error:
        Network.read(MergePart(submission="0a1b2c3d", index=1, folder=tmp_path))
    assert str(error.value).startswith(f"The model of job 1 of 0a1b2c3d {expected}")


def test_networks_with_a_common_start_can_be_averaged() -> None:
    check_average([network(0), network(1, epochs=5, learning_rate=0.5)])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model": "resnet20"}, "The hyperparameter model of job 1 of 0a1b2c3d is resnet20, that of job 0"),
        ({"classes": 5}, "The hyperparameter classes of job 1 of 0a1b2c3d is 5, that of job 0 of 0a1b2c3d 10; models "),
        ({"initial_weights": "e" * 64}, "The training of job 1 of 0a1b2c3d did not start from the same weights "),
        ({"initial_weights": ""}, "The model of job 1 of 0a1b2c3d does not record its initial weights"),
        ({"class_names": ("a", "b")}, "The classes of job 1 of 0a1b2c3d have other names than those of job 0"),
        ({"augmentation": "crop_and_flip"}, "The hyperparameters augmentation and cache of job 1 of 0a1b2c3d and "),
    ],
)
def test_networks_that_cannot_be_averaged_are_named(changes: dict[str, object], expected: str) -> None:
    with pytest.raises(MergeError) as error:
        check_average([network(0), network(1, **changes)])
    assert str(error.value).startswith(expected)


def test_an_ensemble_may_have_other_networks_and_starts_but_not_other_classes() -> None:
    check_ensemble([network(0), network(1, model="resnet20", initial_weights="")])
    with pytest.raises(MergeError, match="first_label of job 1 of 0a1b2c3d is 1, that of job 0 of 0a1b2c3d 0"):
        check_ensemble([network(0), network(1, first_label=1)])


def test_records_count_models_in_an_average_and_a_model_without_them_is_named() -> None:
    networks = [replace(network(index), records=records) for index, records in ((0, 300), (1, 100))]
    assert counts_of(networks, "models") == [1, 1]
    assert counts_of(networks, "records") == [300, 100]
    with pytest.raises(MergeError, match=r"^The model of job 1 of 0a1b2c3d does not record its number of training"):
        counts_of([networks[0], replace(networks[1], records=0)], "records")
