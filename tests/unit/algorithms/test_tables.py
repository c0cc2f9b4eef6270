"""Tables: the rules of the built-in algorithms are consistent in themselves and with AWS's public data."""

import itertools
import re

import pytest

from tests.support.rows import each_row
from traingrid.algorithms.algorithm import Algorithm, ChannelUse, Use
from traingrid.algorithms.built_in import VERSIONS, BuiltIn, algorithm_of_image, built_in, is_known_image
from traingrid.algorithms.hyperparameter import Hyperparameter, one_of
from traingrid.algorithms.xgboost import METRICS, UPDATERS
from traingrid.manifest.limits import choices

INSTANCE_TYPES, INPUT_MODES = choices("TrainingInstanceType"), choices("TrainingInputMode")


def known() -> list[BuiltIn]:
    found = [built_in(name, version) for name, versions in VERSIONS.items() for version in versions]
    return [algorithm for algorithm in found if algorithm]


ALL = [pytest.param(each, id=each.image) for each in known()]
HYPERPARAMETERS = [
    (f"{each.image}-{hyperparameter.name}", hyperparameter)
    for each in known()
    for hyperparameter in each.algorithm.hyperparameters
]


def test_every_algorithm_and_version_has_rules() -> None:
    assert len(known()) == 2 + len(VERSIONS["xgboost"])
    assert built_in("xgboost", "0.90-2") is None
    assert built_in("kmeans", "1") is None


@pytest.mark.parametrize("found", ALL)
def test_an_image_leads_back_to_its_algorithm(found: BuiltIn) -> None:
    assert algorithm_of_image(found.image) == found
    assert algorithm_of_image(f"xgboost:{found.version}") is None


@pytest.mark.parametrize("found", ALL)
def test_names_are_unique_and_aliases_lead_to_a_hyperparameter(found: BuiltIn) -> None:
    algorithm = found.algorithm
    names = [hyperparameter.name for hyperparameter in algorithm.hyperparameters]
    assert len(names) == len(set(names))
    assert set(algorithm.aliases.values()) <= set(names)
    assert not set(algorithm.aliases) & set(names)
    assert algorithm.source.startswith("https://docs.aws.amazon.com/sagemaker/latest/dg/")


@each_row("hyperparameter", HYPERPARAMETERS)
def test_a_hyperparameter_has_the_limits_of_its_kind(hyperparameter: Hyperparameter) -> None:
    limits = [limit for limit in (hyperparameter.least, hyperparameter.greatest) if limit is not None]
    assert limits == sorted(limits)
    assert bool(limits) == (hyperparameter.kind in ("integer", "number"))
    assert bool(hyperparameter.choices) == (hyperparameter.kind == "choice")
    assert len(set(hyperparameter.choices)) == len(hyperparameter.choices)
    assert all(getattr(hyperparameter, end) is not None for end in hyperparameter.excludes)
    re.compile(hyperparameter.form)
    example = hyperparameter.example.partition('"')[2].partition('"')[0]
    assert bool(hyperparameter.form) == bool(example)
    assert not hyperparameter.problem(example) or not hyperparameter.form


@each_row("hyperparameter", HYPERPARAMETERS)
def test_exactly_the_values_in_the_range_are_valid(hyperparameter: Hyperparameter) -> None:
    for choice in hyperparameter.choices:
        assert not hyperparameter.problem(choice)
        assert hyperparameter.problem(f"{choice}x")
    step = 1 if hyperparameter.kind == "integer" else 1e-6
    for end, outwards in (("least", -step), ("greatest", step)):
        limit = getattr(hyperparameter, end)
        if limit is not None:
            number = int if hyperparameter.kind == "integer" else float
            assert bool(hyperparameter.problem(str(number(limit)))) == (end in hyperparameter.excludes)
            assert hyperparameter.problem(str(number(limit + outwards))) == "out of range"


@pytest.mark.parametrize("found", ALL)
def test_channels_have_input_modes_of_sagemaker_and_valid_defaults(found: BuiltIn) -> None:
    for rule in found.algorithm.channels.values():
        assert set(rule.content_types) <= set(INPUT_MODES)
        assert not rule.default or rule.default in rule.content_types["File"]
    assert found.algorithm.channels["train"].required


@pytest.mark.parametrize("found", ALL)
def test_every_instance_family_exists(found: BuiltIn) -> None:
    families = {name.removeprefix("ml.").partition(".")[0] for name in INSTANCE_TYPES}
    assert set(found.algorithm.instance_families) <= families


@pytest.mark.parametrize("found", ALL)
def test_registries_are_accounts_by_region(found: BuiltIn) -> None:
    assert all(re.fullmatch(r"\d{12}", account) for account in found.registries.values())
    assert all(re.fullmatch(r"[a-z]{2}(-[a-z]+)+-\d", region) for region in found.registries)
    assert {"us-east-1", "us-west-2", "eu-west-1", "eu-central-1"} <= set(found.registries)


@pytest.mark.parametrize("words", [METRICS, UPDATERS])
def test_lists_of_values_have_no_duplicates(words: tuple[str, ...]) -> None:
    assert len(set(words)) == len(words)


def test_later_versions_of_xgboost_differ_as_the_container_does() -> None:
    names = {
        each.version: {hyperparameter.name for hyperparameter in each.algorithm.hyperparameters}
        for each in known()
        if each.algorithm.name == "xgboost"
    }
    changes = {
        pair: (names[pair[1]] - names[pair[0]], names[pair[0]] - names[pair[1]])
        for pair in itertools.pairwise(VERSIONS["xgboost"])
    }
    assert changes == {
        ("1.2-1", "1.2-2"): (set(), set()),
        ("1.2-2", "1.3-1"): ({"sampling_method", "prob_buffer_row"}, set()),
        ("1.3-1", "1.5-1"): (set(), set()),
        ("1.5-1", "1.7-1"): ({"use_dask_gpu_training"}, {"single_precision_histogram"}),
        ("1.7-1", "3.0-5"): (set(), set()),
        ("3.0-5", "3.2-0"): (set(), set()),
    }


def test_rules_with_several_values_wait_for_valid_values() -> None:
    """They read numbers, so an invalid one must not make them fail."""
    use = Use(
        hyperparameters={"num_classes": "2", "num_training_samples": "2", "epochs": "x", "checkpoint_frequency": "4"},
        channels={name: ChannelUse(content_type="application/x-recordio") for name in ("train", "validation")},
        instance_type="ml.p3.2xlarge",
    )
    found = built_in("image-classification", "1")
    assert found
    assert [violation.entry for violation in found.algorithm.violations(use)] == ["epochs"]


def test_an_algorithm_for_one_instance_refuses_two() -> None:
    algorithm = Algorithm(name="x", hyperparameters=(), channels={}, distributed=False)
    use = Use(hyperparameters={}, channels={}, instance_type="ml.m5.xlarge", instance_count=2)
    (violation,) = algorithm.violations(use)
    assert (violation.field, violation.value) == ("instance_count", "2")


def test_words_are_listed_with_or() -> None:
    assert [one_of(words) for words in (("a",), ("a", "b"), ("a", "b", "c"))] == ["a", "a or b", "a, b or c"]


@pytest.mark.parametrize(
    ("uri", "known_image"),
    [
        ("683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-xgboost:1.7-1", True),
        ("683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-xgboost:0.90-2", False),
        ("683313688378.dkr.ecr.us-west-2.amazonaws.com/sagemaker-xgboost:1.7-1", False),
        ("123456789012.dkr.ecr.us-east-1.amazonaws.com/sagemaker-xgboost:1.7-1", False),
        ("sagemaker-xgboost:1.7-1", False),
    ],
)
def test_an_image_is_known_only_in_the_registry_of_its_region(uri: str, known_image: bool) -> None:
    assert is_known_image(uri) == known_image
