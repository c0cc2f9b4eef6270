"""Rules of `on_dataset` in grid.yaml."""

from pathlib import Path

import pytest

from tests.support.sample_grid import GOOD, problems
from traingrid.grid.file import load_grid
from traingrid.grid.model import GridSettings
from traingrid.grid.on_dataset import Match, filled


def with_rules(text: str) -> str:
    return f"{GOOD}on_dataset:\n{text}"


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("  - {match: {campaign: oslo}}\n", "on_dataset.0.name"),
        ("  - {name: Night}\n", "on_dataset.0.name"),
        ("  - {name: a}\n  - {name: a}\n", "two rules have the name a"),
        ("  - {name: a, match: {regions: [eu-west-1]}}\n", "the rule a names eu-west-1, which is no training Region"),
        ("  - {name: a, line: {name: '{datset}'}}\n", "{datset} is no placeholder; the placeholders are {dataset}"),
        ("  - {name: a, line: {name: '{attributes.}'}}\n", "{attributes.} is no placeholder"),
        (
            "  - {name: a, line: {max_runtime: .nan}}\n",
            "a line has only text, numbers, true, false, lists and mappings",
        ),
        ("  - {name: a, line: {hyperparameters: {1: x}}}\n", "quote them"),
        ("  - {name: a, lines: {}}\n", "there is no such key"),
        ("".join(f"  - {{name: r{number}}}\n" for number in range(21)), "on_dataset"),
    ],
)
def test_an_invalid_rule_is_named_with_its_line(tmp_path: Path, rules: str, reason: str) -> None:
    (problem,) = problems(tmp_path, with_rules(rules))
    assert reason in problem
    assert problem.startswith("grid.yaml:")


def test_rules_are_in_the_environment_of_the_registrar_only(tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(with_rules("  - {name: a, line: {name: '{dataset}', volume_gb: 20}}\n"))
    grid = load_grid(tmp_path / "grid.yaml")
    assert GridSettings.from_environment(grid.to_environment(rules=True)).on_dataset == grid.on_dataset
    assert GridSettings.from_environment(grid.to_environment()).on_dataset == ()


def test_rules_count_towards_the_size_of_the_environment(tmp_path: Path) -> None:
    rules = "".join(f"  - {{name: r{number}, line: {{name: {'x' * 150}}}}}\n" for number in range(20))
    (problem,) = problems(tmp_path, with_rules(rules))
    assert "List fewer data buckets, images or rules" in problem


@pytest.mark.parametrize(
    ("match", "holds"),
    [
        ({}, True),
        ({"dataset": "oslo-*"}, True),
        ({"dataset": "oslo"}, False),
        ({"campaign": "nor??"}, True),
        ({"campaign": "NORTH"}, False),
        ({"format": "csv"}, False),
        ({"regions": ["us-east-1", "eu-west-1"]}, True),
        ({"regions": ["us-east-1"]}, False),
        ({"dataset": "oslo-*", "regions": ["us-east-1"]}, False),
    ],
)
def test_a_rule_matches_if_all_conditions_hold(match: dict[str, object], *, holds: bool) -> None:
    facts = {"dataset": "oslo-1", "campaign": "north", "format_": "tfrecord", "region": "eu-west-1"}
    assert Match.model_validate(match).holds(**facts) is holds


def test_placeholders_are_filled_everywhere_in_a_line_and_once() -> None:
    line = {"name": "{a}-{b}", "metrics": ["{a}"], "tags": {"{b}": "x"}, "spot": True, "volume_gb": 20}
    assert filled(line, {"a": "{b}", "b": "2"}) == {
        "name": "{b}-2",
        "metrics": ["{b}"],
        "tags": {"2": "x"},
        "spot": True,
        "volume_gb": 20,
    }
