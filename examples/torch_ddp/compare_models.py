"""Compares two models that source/train.py has written: their weights, and the results of each epoch.

    python examples/torch_ddp/compare_models.py FOLDER OTHER

Each folder is an unpacked model.tar.gz. The exit status is 1 if a number differs by more than 1e-6.
"""

import json
import sys
from pathlib import Path

import torch

TOLERANCE = 1e-6


def main(folder: Path, other: Path) -> int:
    """Print the largest differences, and return the exit status."""
    differences = {"weight": largest_weight_difference(folder, other)}
    ours, theirs = (json.loads((one / "results.json").read_text()) for one in (folder, other))
    if [row["epoch"] for row in ours] != [row["epoch"] for row in theirs]:
        print(f"the epochs differ: {len(ours)} and {len(theirs)}")
        return 1
    for name in ours[0]:
        differences[name] = max(abs(one[name] - two[name]) for one, two in zip(ours, theirs, strict=True))
    for name, difference in differences.items():
        print(f"{name}: largest difference {difference:.3g}")
    return 0 if all(difference <= TOLERANCE for difference in differences.values()) else 1


def largest_weight_difference(folder: Path, other: Path) -> float:
    """Return the largest absolute difference between two models' weights."""
    ours, theirs = (torch.load(one / "model.pt", map_location="cpu", weights_only=True) for one in (folder, other))
    if ours.keys() != theirs.keys():
        return float("inf")
    return max(float((ours[name] - theirs[name]).abs().max()) for name in ours)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("Usage: python examples/torch_ddp/compare_models.py FOLDER OTHER")
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
