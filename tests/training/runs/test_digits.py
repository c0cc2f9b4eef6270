from collections import Counter
from pathlib import Path

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

from training_container.trainer.data.image_datasets import IMAGE, LABEL
from training_container.trainer.data.shards import files_of

FEATURES = {IMAGE: tf.io.FixedLenFeature([], tf.string), LABEL: tf.io.FixedLenFeature([], tf.int64)}


def scans(folder: Path) -> list[tuple[bytes, int]]:
    """Return (pixels, label) of every record, as the trainer reads them."""
    examples = [
        tf.io.parse_single_example(record, FEATURES)
        for record in tf.data.TFRecordDataset([str(path) for path in files_of(folder, "train")])
    ]
    return [(tf.io.decode_png(example[IMAGE]).numpy().tobytes(), int(example[LABEL])) for example in examples]


def test_campaigns_and_held_out_scans_are_a_partition_of_all_scans(campaigns: Path) -> None:
    folders = sorted(campaigns.iterdir())
    parts = [scans(folder / "train") for folder in folders] + [scans(folders[0] / "validation")]
    images, labels = load_digits(return_X_y=True)
    pixels = np.rint(images * (255 / 16)).astype(np.uint8)
    source = Counter((image.tobytes(), int(label)) for image, label in zip(pixels, labels, strict=True))
    assert len(folders) == 4
    assert sum((Counter(part) for part in parts), Counter()) == source
    assert max(source.values()) == 1  # the source has no duplicates, so a complete split is disjoint


def test_one_fifth_is_held_out_and_is_the_same_in_all_campaigns(campaigns: Path) -> None:
    held_out = [scans(folder / "validation") for folder in sorted(campaigns.iterdir())]
    assert len(held_out[0]) == 360
    assert all(part == held_out[0] for part in held_out)


def test_every_campaign_has_every_digit_equally_often(campaigns: Path) -> None:
    for folder in campaigns.iterdir():
        counts = Counter(label for _, label in scans(folder / "train"))
        assert sorted(counts) == list(range(10))
        assert max(counts.values()) - min(counts.values()) <= 3
