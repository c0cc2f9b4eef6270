"""Weights are averaged, statistics of batch norm are those of the data, and an ensemble has the mean probabilities."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.training.records import SMALL
from training_container.merge.networks import (
    Ensemble,
    assign,
    models_of,
    read_weights,
    recompute_statistics,
)
from training_container.merge.parts import MergeError, MergePart
from training_container.merge.reports import Network
from training_container.recipe.config import Config
from training_container.trainer.artifacts import export
from training_container.trainer.models import build_model
from training_container.trainer.weights import weights_digest


def model(seed: int, config: Config = SMALL) -> tf.keras.Model:
    """Return a network with weights of a seed. Keras' own seed would also be that of the tests after this one."""
    random, made = np.random.default_rng(seed), build_model(config)
    for variable in made.variables:
        value = random.normal(0.0, 0.3, variable.shape)
        positive = "gamma" in variable.name or "variance" in variable.name
        variable.assign(1.0 + np.abs(value) if positive else value)
    return made


def exported(trained: tf.keras.Model, folder: Path, config: Config = SMALL) -> Network:
    export(trained, config, folder, {})
    return Network(part=MergePart(submission="0a1b2c3d", index=1, folder=folder), config=config)


def batches(seed: int, count: int = 3, size: int = 4) -> list[tuple[tf.Tensor, tf.Tensor]]:
    pixels = np.random.default_rng(seed).integers(0, 256, [count, size, 8, 8, 3], np.uint8)
    return [(tf.constant(batch), tf.zeros([size], tf.int64)) for batch in pixels]


def statistics(network: tf.keras.Model) -> list[np.ndarray]:
    return [variable.numpy() for variable in network.variables if "moving_" in variable.name]


def test_exported_weights_are_read_in_the_order_of_the_variables(tmp_path: Path) -> None:
    trained = model(1)
    (found,) = models_of([exported(trained, tmp_path)])
    for value, expected in zip(found.variables, trained.variables, strict=True):
        np.testing.assert_array_equal(value, expected)


def test_a_weight_of_another_shape_is_named(tmp_path: Path) -> None:
    network = exported(model(1), tmp_path)
    with pytest.raises(
        MergeError, match=r"^The weight dense\S*/kernel:0 of job 1 of 0a1b2c3d has the shape \[64, 10\], "
    ):
        read_weights(network, model(1, replace(SMALL, classes=5)))


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    trained = model(1)
    trained.variables[0].assign(trained.variables[0] * np.nan)
    with pytest.raises(MergeError, match="of job 1 of 0a1b2c3d is not finite: its training diverged"):
        read_weights(exported(trained, tmp_path), trained)


def test_a_folder_without_a_network_is_refused(tmp_path: Path) -> None:
    network = Network(part=MergePart(submission="0a1b2c3d", index=1, folder=tmp_path), config=SMALL)
    with pytest.raises(MergeError, match=r"^The network of job 1 of 0a1b2c3d cannot be read: "):
        read_weights(network, model(1))


def test_statistics_become_those_of_the_data_and_weights_stay() -> None:
    merged = model(1)
    before = [variable.numpy() for variable in merged.trainable_variables]
    (batch,) = batches(seed=1, count=1, size=512)  # the moving variance of a small one is that of a sample: N / (N - 1)
    images = tf.cast(batch[0], tf.float32)
    assert np.abs(merged(images, training=False) - merged(images, training=True)).max() > 0.1
    merged = model(1)
    assert recompute_statistics(merged, SMALL, [batch], images=4) == 512
    np.testing.assert_allclose(merged(images, training=False), merged(images, training=True), atol=0.01)
    for value, expected in zip(merged.trainable_variables, before, strict=True):
        np.testing.assert_array_equal(value, expected)


def test_statistics_are_the_mean_over_batches_and_do_not_depend_on_earlier_ones() -> None:
    each = []
    for batch in batches(seed=1, count=2):
        one = model(1)
        recompute_statistics(one, SMALL, [batch], images=4)
        each.append(statistics(one))
    merged = model(1)
    recompute_statistics(merged, SMALL, batches(seed=7), images=12)
    assert recompute_statistics(merged, SMALL, batches(seed=1, count=2), images=100) == 8
    for value, one, other in zip(statistics(merged), *each, strict=True):
        np.testing.assert_allclose(value, (one + other) / 2, rtol=1e-5, atol=1e-6)


def test_enough_images_end_the_statistics() -> None:
    assert recompute_statistics(model(1), SMALL, batches(seed=1), images=5) == 8


def test_without_images_there_are_no_statistics() -> None:
    with pytest.raises(MergeError, match="has no images"):
        recompute_statistics(model(1), SMALL, [], images=5)


def test_an_ensemble_returns_the_mean_of_the_probabilities() -> None:
    members = [model(1), model(2, replace(SMALL, model="resnet20"))]
    images = tf.cast(batches(seed=1)[0][0], tf.float32)
    expected = sum(tf.nn.softmax(member(images)) for member in members) / 2
    np.testing.assert_allclose(tf.nn.softmax(Ensemble(members)(images)), expected, rtol=1e-4, atol=1e-6)


def test_the_digest_depends_on_every_weight_and_not_on_names() -> None:
    first, same, other = model(1), model(1), model(2)
    assert weights_digest(first.variables) == weights_digest(same.variables) != weights_digest(other.variables)
    last = first.variables[-1]
    last.assign(last + 1.0)
    assert weights_digest(first.variables) != weights_digest(same.variables)
    assign(first, [variable.numpy() for variable in same.variables])
    assert weights_digest(first.variables) == weights_digest(same.variables)
