"""Image pages: the product's rules and the independent records of AWS's pages refuse the same jobs."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.sagemaker.algorithms import image_pages, published
from localcloud.sagemaker.algorithms.published_rules import contains
from tests.integration.localcloud.sagemaker.test_xgboost_container import job_of
from traingrid.algorithms.algorithm import BrokenRule, ChannelUse, Use
from traingrid.algorithms.built_in import VERSIONS, built_in

RECORDIO, IMAGE = "application/x-recordio", "application/x-image"
ALGORITHMS = tuple(image_pages.RECORDS)
COUNTS = {"num_classes": "2", "num_training_samples": "4"}


def violations(name: str, use: Use) -> list[BrokenRule]:
    algorithm = built_in(name, "1")
    assert algorithm
    return algorithm.algorithm.violations(use)


def job(content_type: str = RECORDIO, labels: str = "", **hyperparameters: str) -> Use:
    """Return a training job with RecordIO, or with images and channels of labels."""
    names = ["train", "validation", *(f"{name}_{labels}" for name in ("train", "validation") if labels)]
    channels = dict.fromkeys(names, ChannelUse(content_type=content_type))
    return Use(hyperparameters={**COUNTS, **hyperparameters}, channels=channels, instance_type="ml.g5.xlarge")


def differences(name: str, uses: Iterator[Use], base: Path) -> list[tuple[Use, list[str], str]]:
    """Return the jobs on which product and record disagree."""
    compared = (
        (
            use,
            [violation.reason for violation in violations(name, use)],
            image_pages.job_problem(job_of(use, base), name),
        )
        for use in uses
    )
    return [row for row in compared if bool(row[1]) != bool(row[2])]


def values(name: str, hyperparameter: str) -> Iterator[str]:
    """Yield values around all limits, and each word alone and changed."""
    yield from ("", "x", "-1", "0", "0.0", "1e-9", "0.5", "1", "1.0", "1.000001", "2", "31", "299", "300", "301", "nan")
    yield from ("3,224,224", "3, 224, 224", "1,28,28", "3,0,224", "3,224", "10,20", "10, 20", "10,", "True", "true")
    for words in image_pages.RECORDS[name].tables["words"].values():
        for word in words:
            yield from (word, f"{word}x", word.upper())


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_product_refuses_exactly_the_values_that_the_page_excludes(name: str, tmp_path: Path) -> None:
    tables = image_pages.RECORDS[name].tables
    hyperparameters = {
        row for table in ("intervals", "real_intervals") for rows in tables[table].values() for row in rows
    }
    hyperparameters |= {*tables["words"], *tables["forms"], *tables.get("any_text", ()), "unknown"}
    algorithm = built_in(name, "1")
    assert algorithm
    assert {each.name for each in algorithm.algorithm.hyperparameters} == hyperparameters - {"unknown"}
    uses = (job(**{each: value}) for each in sorted(hyperparameters) for value in values(name, each))
    assert not differences(name, uses, tmp_path)
    missing = Use(hyperparameters={}, channels=job().channels, instance_type="ml.g5.xlarge")
    assert {violation.entry for violation in violations(name, missing)} == {*tables["required"]}
    assert image_pages.job_problem(job_of(missing, tmp_path), name)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_product_refuses_exactly_the_channels_that_the_page_excludes(name: str, tmp_path: Path) -> None:
    labels = "lst" if name == "image-classification" else "annotation"
    optional = ((), (f"train_{labels}", f"validation_{labels}"), (f"train_{labels}",), ("model",), ("test",))
    types = (RECORDIO, f"{RECORDIO}; label-format=class-id", IMAGE, "image/png", "image/jpeg", "text/csv", "")
    settings = itertools.product(
        *(types, types, optional, (IMAGE, RECORDIO, "application/x-sagemaker-model"), ("File", "Pipe")),
        ("FullyReplicated", "ShardedByS3Key"),
    )
    uses = (
        Use(
            hyperparameters={**COUNTS, **({"resize": "256"} if name == "image-classification" else {})},
            channels={
                "train": ChannelUse(content_type=train, input_mode=mode, distribution=distribution),
                "validation": ChannelUse(content_type=validation, input_mode=mode, distribution=distribution),
                **dict.fromkeys(others, ChannelUse(content_type=other)),
            },
            instance_type="ml.g5.xlarge",
        )
        for train, validation, others, other, mode, distribution in settings
    )
    assert not differences(name, uses, tmp_path)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_product_refuses_exactly_the_instances_that_the_page_excludes(name: str, tmp_path: Path) -> None:
    types = ("ml.m5.xlarge", "ml.p2.xlarge", "ml.p3dn.24xlarge", "ml.p4d.24xlarge", "ml.g4dn.xlarge", "ml.g6.xlarge")
    uses = (
        Use(hyperparameters=COUNTS, channels=job().channels, instance_type=instance_type, instance_count=count)
        for instance_type in types
        for count in (1, 2)
    )
    assert not differences(name, uses, tmp_path)


def test_the_product_refuses_the_combinations_that_the_page_excludes(tmp_path: Path) -> None:
    layers: list[dict[str, str]] = [{}, {"num_layers": "34"}, {"num_layers": "20"}]
    shapes: list[dict[str, str]] = [
        {},
        {"image_shape": "3,224,224"},
        {"image_shape": "3,32,32"},
        {"image_shape": "3,300,256"},
    ]
    combinations = itertools.product(
        *(layers, shapes, ({}, {"use_pretrained_model": "1"}), ({}, {"resize": "256"}, {"resize": "224"})),
        *(({}, {"epochs": "3"}), ({}, {"checkpoint_frequency": "3"}, {"checkpoint_frequency": "31"})),
        ((RECORDIO, ""), (IMAGE, "lst")),
    )
    uses = (
        job(content_type, labels, **{name: value for setting in settings for name, value in setting.items()})
        for *settings, (content_type, labels) in combinations
    )
    assert not differences("image-classification", uses, tmp_path)


def test_localcloud_has_the_images_that_the_product_names() -> None:
    for name, versions in VERSIONS.items():
        for version in versions:
            algorithm = built_in(name, version)
            assert algorithm
            for region in algorithm.registries:
                image = published.published(algorithm.uri(region))
                assert image == published.PublishedAlgorithm(name=name, version=version)


@pytest.mark.parametrize(
    ("interval", "text", "inside"),
    [("(0, 1]", "0", False), ("(0, 1]", "1", True), ("[0, 1)", "1", False), ("[0, inf)", "nan", False)],
)
def test_an_interval_excludes_its_open_ends(interval: str, text: str, inside: bool) -> None:
    assert contains(interval, text, float) == inside
