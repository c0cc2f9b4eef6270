"""Specifications: every mistake is reported with line, key, rule and next step."""

from pathlib import Path

import pytest

from traingrid.manifest.spec_file import SpecError
from traingrid.sweep.spec_file import SWEEP_FORMAT

GOOD = """\
lines:
  - region: us-east-1
    s3_uri: s3://ragab-ml/x
search:
  hp.learning_rate: {log_range: [1e-3, 1]}
  hp.depth: {int: [2, 8]}
  hp.optimizer: {choices: [sgd, adam]}
strategy: random
objective: {metric: validation_top1, direction: maximize}
trials: 24
early_stopping: {min_epochs: 3}
final: {hp.epochs: 90}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rates.yaml"


def test_a_sweep_has_the_name_of_its_file(file: Path) -> None:
    file.write_text(GOOD)
    spec = SWEEP_FORMAT.read(file).spec
    assert (spec.name, spec.number_of_trials, spec.parallel) == ("rates", 24, 4)
    assert spec.space["learning_rate"].log_range == (0.001, 1.0)


@pytest.mark.parametrize(
    ("good", "bad", "expected"),
    [
        ("trials: 24", "trails: 24", "rates.yaml:10: trails: there is no such key. Did you mean trials?"),
        ("trials: 24", "", "rates.yaml:1: trials: this key is missing, which strategy random needs."),
        ("trials: 24", "trials: many", "rates.yaml:10: trials: 'many' is not allowed: it must be a valid integer"),
        ("trials: 24", "trials: 24\ntrials: 25", "rates.yaml:11: trials: this key is already on line 10."),
        (
            "maximize",
            "up",
            "rates.yaml:9: objective.direction: 'up' is not allowed: it must be 'maximize' or 'minimize'",
        ),
        (
            "[1e-3, 1]",
            "[0, 1]",
            "rates.yaml:5: search.hp.learning_rate.log_range: a logarithmic range must begin above 0",
        ),
        ("[2, 8]", "[8, 2]", "rates.yaml:6: search.hp.depth.int: 8 is not below 2. Write the lowest value first."),
        ("[2, 8]", "[2]", "rates.yaml:6: search.hp.depth.int.1: this key is missing."),
        ("{int: [2, 8]}", "{}", "rates.yaml:6: search.hp.depth: exactly one kind of values must be given, not none"),
        ("{int: [2, 8]}", "{int: [2, 8], choices: [3]}", "rates.yaml:6: search.hp.depth: exactly one kind"),
        (
            "{int: [2, 8]}",
            "{ints: [2, 8]}",
            "rates.yaml:6: search.hp.depth.ints: there is no such key. Did you mean int?",
        ),
        ("[sgd, adam]", "[]", "rates.yaml:7: search.hp.optimizer.choices: there must be at least 1, not 0."),
        ("[sgd, adam]", "[{a: 1}]", "rates.yaml:7: search.hp.optimizer.choices.0: "),
        ("hp.depth", "depth", "rates.yaml:6: search.depth: only hyperparameters can be searched. Write it as hp.NAME."),
        ("random", "grid", "rates.yaml:5: search.hp.learning_rate: a grid needs the number of values of a log_range."),
        (
            "{int: [2, 8]}",
            "{int: [2, 8], points: 3}",
            "rates.yaml:6: search.hp.depth.points: it is used by strategy grid",
        ),
        ("    s3_uri", "    hp.depth: 3\n    s3_uri", "rates.yaml:3: lines.0.hp.depth: the sweep searches depth"),
        ("    s3_uri", "    name: x\n    s3_uri", "rates.yaml:3: lines.0.name: each trial gets a name from the sweep."),
        ("    s3_uri", "    output: runs\n    s3_uri", "rates.yaml:3: lines.0.output: the trials would overwrite"),
        ("    s3_uri", "    checkpoints: runs\n    s3_uri", "rates.yaml:3: lines.0.checkpoints: the trials would"),
        ("    s3_uri", "    finish_by: 2026-12-01\n    s3_uri", "rates.yaml:3: lines.0.finish_by: a manifest cannot"),
        (
            "trials: 24",
            "trials: 24\nbudget_dollars: 5",
            "rates.yaml:2: lines.0: a sweep with budget_dollars needs the price",
        ),
        ("hp.epochs: 90", "epochs: 90", "rates.yaml:12: final.epochs: a manifest has no such field."),
        ("min_epochs: 3", "min_epochs: 0", "rates.yaml:11: early_stopping.min_epochs: 0 is not allowed:"),
        ("trials: 24", "trials: [", "rates.yaml:12: invalid YAML:"),
        ("trials: 24", "name: a b", "rates.yaml:10: name: 'a b' is not allowed: it must have the form"),
    ],
)
def test_a_mistake_is_reported_with_line_and_key(file: Path, good: str, bad: str, expected: str) -> None:
    assert good in GOOD
    file.write_text(GOOD.replace(good, bad))
    with pytest.raises(SpecError) as error:
        SWEEP_FORMAT.read(file)
    assert error.value.problems[0].startswith(f"{file.parent}/{expected}")


def test_all_mistakes_are_reported_in_the_order_of_their_lines(file: Path) -> None:
    file.write_text(GOOD.replace("[1e-3, 1]", "[1, 0]").replace("[2, 8]", "[3, 3]").replace("epochs: 90", "epoch: 1"))
    with pytest.raises(SpecError) as error:
        SWEEP_FORMAT.read(file)
    assert [problem.split(": ")[1] for problem in error.value.problems] == [
        "search.hp.learning_rate.log_range",
        "search.hp.depth.int",
    ]


@pytest.mark.parametrize("content", ["", "- a", "text"])
def test_a_file_without_a_mapping_is_refused(file: Path, content: str) -> None:
    file.write_text(content)
    with pytest.raises(SpecError, match=r":1: a sweep must be a mapping with the keys name, lines, search"):
        SWEEP_FORMAT.read(file)


def test_a_missing_file_is_reported(file: Path) -> None:
    with pytest.raises(SpecError, match=r"No such file or directory\. Specify a file that exists\."):
        SWEEP_FORMAT.read(file)
