"""Records that TensorFlow has written are read without it."""

import numpy as np
import pytest
import tensorflow as tf

from examples.digits.write_campaigns import example
from tests.training.records import serialised
from training_container.torch_trainer.examples import ExampleError, image_and_label


def test_an_example_of_tensorflow_is_read() -> None:
    record = example(np.full((8, 8, 1), 3, np.uint8), 1234)
    encoded, label = image_and_label(record)
    assert label == 1234
    np.testing.assert_array_equal(tf.io.decode_png(encoded).numpy(), np.full((8, 8, 1), 3, np.uint8))


@pytest.mark.parametrize("label", [0, -1, 2**40, 2**63 - 1, -(2**63)])
def test_every_label_is_read(label: int) -> None:
    record = serialised(image__encoded=b"jpeg", image__class__label=label, image__format=b"JPEG")
    assert image_and_label(record) == (b"jpeg", label)


def test_an_example_without_a_label_is_explained_with_its_features() -> None:
    with pytest.raises(
        ExampleError, match=r"one label in image/class/label, .* its features are: image/encoded, label"
    ):
        image_and_label(serialised(image__encoded=b"jpeg", label=1))


def test_a_truncated_example_is_refused_or_lacks_its_end() -> None:
    record = serialised(image__encoded=b"jpeg" * 100, image__class__label=1)
    for length in range(len(record)):
        with pytest.raises(ExampleError):
            image_and_label(record[:length])
