"""Rounds file: defaults, short forms, and the example."""

from pathlib import Path

import pytest

from traingrid.manifest.spec_file import SpecError
from traingrid.rounds.spec import DILOCO_LEARNING_RATE, DILOCO_MOMENTUM, RoundsSpec
from traingrid.rounds.spec_file import ROUNDS_FORMAT

GOOD = """\
lines: [{region: us-east-1, s3_uri: s3://a/x}, {region: eu-west-1, s3_uri: s3://b/x}]
epochs: 2
rounds: 3
merge: {region: eu-west-1}
"""


def read(folder: Path, text: str) -> RoundsSpec:
    (folder / "cells.yaml").write_text(text)
    return ROUNDS_FORMAT.read(folder / "cells.yaml").spec


def test_the_default_is_the_mean_weighted_by_records(tmp_path: Path) -> None:
    spec = read(tmp_path, GOOD)
    assert (spec.name, spec.outer.weight_by, spec.outer.rate_and_momentum) == ("cells", "records", (1.0, 0.0))
    assert (spec.missing.wait, spec.missing.then, spec.merge.statistics) == (None, "stop", "average")


def test_a_kind_may_stand_alone(tmp_path: Path) -> None:
    outer = read(tmp_path, f"{GOOD}outer: diloco\n").outer
    assert outer.rate_and_momentum == (DILOCO_LEARNING_RATE, DILOCO_MOMENTUM)


def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"cells\.yaml:1: a rounds specification must be a mapping with the "):
        read(tmp_path, "- 1\n")


def test_the_example_of_a_script_is_valid() -> None:
    spec = ROUNDS_FORMAT.read(Path("examples/rounds/torch.yaml")).spec
    assert spec.recipe["entry_point"] == "train.py"


def test_the_example_is_valid() -> None:
    spec = ROUNDS_FORMAT.read(Path("examples/rounds/digits.yaml")).spec
    assert (len(spec.lines), spec.rounds, spec.missing.wait) == (4, 4, 3600)
