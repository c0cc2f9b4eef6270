"""Writes scikit-learn's handwritten digits as tensors: a channel to train on, and a fifth of the scans to validate.

python examples/torch_ddp/write_digits.py OUT

OUT/train/digits.pt, OUT/validation/digits.pt: {"images": uint8 [count, 1, 8, 8], "labels": int64 [count]}
"""

import sys
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HELD_OUT = 0.2
SEED = 20170717


def main(out: Path) -> None:
    """Write both channels into the folder `out`; every run writes the same scans."""
    images, labels = load_digits(return_X_y=True)
    images = torch.from_numpy(images).reshape(-1, 1, 8, 8).mul(255 / 16).round().to(torch.uint8)
    parts = train_test_split(range(len(labels)), test_size=HELD_OUT, random_state=SEED, stratify=labels)
    for name, part in zip(("train", "validation"), parts, strict=True):
        (out / name).mkdir(parents=True, exist_ok=True)
        torch.save({"images": images[part], "labels": torch.from_numpy(labels[part])}, out / name / "digits.pt")
        print(f"{out / name}: {len(part)} scans")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Usage: python examples/torch_ddp/write_digits.py OUT")
    main(Path(sys.argv[1]))
