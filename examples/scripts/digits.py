"""The handwritten digits that the scripts beside this file train on: hyperparameters, records, and a small network.

`traingrid submit` packs the whole folder of a script, so a script can import its other modules.
"""

import argparse

import tensorflow as tf

SCHEMA = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
}


def hyperparameters() -> argparse.Namespace:
    """Return the job's hyperparameters, which are passed as `--name value`; ignores unused ones of the grid."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch_size", type=int, default=16, help="per rank")
    parser.add_argument("--learning_rate", type=float, default=0.05, help="per rank")
    return parser.parse_known_args()[0]


def parsed(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return a record's image, [8, 8, 1] in 0..1, and its digit."""
    fields = tf.io.parse_single_example(record, SCHEMA)
    image = tf.ensure_shape(tf.io.decode_png(fields["image/encoded"], channels=1), [8, 8, 1])
    return tf.cast(image, tf.float32) / 255, fields["image/class/label"]


def digits_model() -> tf.keras.Model:
    """Return a small convolutional network."""
    return tf.keras.Sequential(
        [
            tf.keras.Input([8, 8, 1]),
            tf.keras.layers.Conv2D(16, 3, activation="relu"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(10),
        ]
    )
