"""docs/hyperparameters.md describes the hyperparameters as recipe/config.py declares them."""

import dataclasses
import re
from pathlib import Path

import pytest

from training_container.recipe.config import TENSORFLOW, TORCH, Config

PAGE = Path(__file__).resolve().parents[3] / "docs" / "hyperparameters.md"
ROW = re.compile(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*) \|$", re.MULTILINE)
ROWS = {name: cells for name, *cells in ROW.findall(PAGE.read_text())}
FIELDS = {entry.name: entry for entry in dataclasses.fields(Config)}


def value(cell: str) -> str:
    """Return a cell of the table as a hyperparameter's text."""
    return "" if cell == "empty" else cell.replace("`", "").replace(",", "")


def test_the_page_lists_the_hyperparameters_in_their_order() -> None:
    assert list(ROWS) == list(FIELDS)


@pytest.mark.parametrize("framework", [TENSORFLOW, TORCH])
def test_the_page_names_the_hyperparameters_of_one_framework(framework: str) -> None:
    names = [name for name, entry in FIELDS.items() if entry.metadata["only"] == framework]
    for name, entry in FIELDS.items():
        options = entry.metadata.get("only_options", {})
        names += [word for option, only in options.items() if only == framework for word in (name, option)]
    (line,) = re.findall(rf"^- only {framework}: ((?:.|\n  )*)$", PAGE.read_text(), re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", line)) == sorted(names)


@pytest.mark.parametrize("name", FIELDS)
def test_a_description_on_the_page_is_the_declared_one(name: str) -> None:
    assert ROWS[name][2].replace("`", "") == FIELDS[name].metadata["meaning"]


@pytest.mark.parametrize("name", FIELDS)
def test_a_default_on_the_page_is_the_declared_one(name: str) -> None:
    # The trainer converts the text itself.
    framework = FIELDS[name].metadata["only"] or TENSORFLOW
    found = Config.from_hyperparameters({name: value(ROWS[name][0])}, framework)
    assert getattr(found, name) == FIELDS[name].default


@pytest.mark.parametrize("name", FIELDS)
def test_a_range_on_the_page_is_the_declared_one(name: str) -> None:
    declared, shown = FIELDS[name].metadata, ROWS[name][1]
    if "options" in declared:
        assert tuple(value(option) for option in shown.split(", ")) == declared["options"]
    elif "low" in declared:
        assert [float(value(bound)) for bound in shown.split(" to ")] == [declared["low"], declared["high"]]
    else:
        assert shown == {"data_dir": "a path", "tensorboard_s3": "`s3://…`"}.get(name, "true, false")
