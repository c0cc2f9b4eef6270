"""Grids: a valid grid.yaml, functions that change it, and the errors of an invalid one."""

from pathlib import Path

import pytest

from traingrid.grid.file import load_grid
from traingrid.grid.model import GridError

KEY = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
GOOD = """\
name: traingrid
home: us-east-1
regions:
  us-east-1:
  us-west-2: {data_buckets: [campaigns-pdx]}
images:
  resnet: {repository: training, tag: "1"}
job:
  image: resnet
  instance_type: ml.g5.48xlarge
"""


def problems(folder: Path, text: str) -> tuple[str, ...]:
    """Return load_grid's errors for a file with this text, without the folder."""
    path = folder / "grid.yaml"
    path.write_text(text)
    with pytest.raises(GridError) as raised:
        load_grid(path)
    return tuple(sentence.removeprefix(f"{folder}/") for sentence in raised.value.problems)


def changed(old: str, new: str) -> str:
    """Return the valid grid.yaml with one part replaced."""
    assert old in GOOD
    return GOOD.replace(old, new)
