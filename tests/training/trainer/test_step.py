"""The training step and its parts, on one rank; test_runs.py covers several ranks."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf

from training_container.recipe.config import Config
from training_container.recipe.timing import StepTimes
from training_container.trainer.averages import WeightAverages
from training_container.trainer.data import augment
from training_container.trainer.models import build_model
from training_container.trainer.precision import policy
from training_container.trainer.step import TrainStep, is_decayed
from training_container.trainer.validation import Validation

# Keras generates its seeds with random.randint(1, 1e9).
pytestmark = pytest.mark.filterwarnings("ignore:non-integer arguments to randrange:DeprecationWarning")

SMALL = {
    "model": "resnet8", "classes": 10, "image_size": 8, "label_smoothing": 0.0, "weight_decay": 0.0,
    "augmentation": "none",
}  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def _one_rank() -> None:
    hvd.init()


def config(**changes: object) -> Config:
    return Config(**SMALL | changes)


def network(of: Config) -> tf.keras.Model:
    tf.keras.utils.set_random_seed(1)
    return build_model(of)


def dense(of: Config) -> tf.keras.Model:
    """A network without norms, whose loss for a batch is the mean of its images' losses."""
    tf.keras.utils.set_random_seed(1)
    images = tf.keras.Input([of.image_size, of.image_size, 3])
    logits = tf.keras.layers.Dense(of.classes)(tf.keras.layers.Flatten()(images))
    return tf.keras.Model(images, tf.keras.layers.Activation("linear", dtype="float32")(logits))


def batch(count: int, seed: int = 0) -> tuple[tf.Tensor, tf.Tensor]:
    random = np.random.default_rng(seed)
    return tf.constant(random.random((count, 8, 8, 3)), tf.float32), tf.constant(random.integers(0, 10, count))


def values(weights: list[tf.Variable]) -> list[np.ndarray]:
    return [weight.numpy() for weight in weights]


@contextmanager
def precision(name: str) -> Iterator[None]:
    tf.keras.mixed_precision.set_global_policy(name)
    try:
        yield
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")


def test_weight_decay_applies_to_kernels_but_not_to_norms_and_biases() -> None:
    """The additional change of a step with decay is rate x decay x kernel, twice: Nesterov looks ahead."""
    after = []
    for decay in (0.0, 0.5):
        settings = config(weight_decay=decay, momentum=0.0)
        model = network(settings)
        before = values(model.trainable_variables)
        TrainStep(model, settings)([batch(4)], 0.1)
        after.append(values(model.trainable_variables))
    names = [weight.name for weight in model.trainable_variables]
    decayed = [is_decayed(weight) for weight in model.trainable_variables]
    assert {name.rsplit("/")[-1] for name, is_kernel in zip(names, decayed, strict=True) if not is_kernel} == {
        "gamma:0",
        "beta:0",
        "bias:0",
    }
    for start, plain, with_decay, is_kernel in zip(before, *after, decayed, strict=True):
        np.testing.assert_allclose(plain - with_decay, 0.1 * 0.5 * start * is_kernel, atol=1e-6)


def test_two_accumulated_batches_equal_one_batch_of_twice_the_size() -> None:
    images, labels = batch(8)
    halves = [(images[:4], labels[:4]), (images[4:], labels[4:])]
    found = []
    for settings, batches in ((config(), [(images, labels)]), (config(accumulate_steps=2), halves)):
        model = dense(settings)
        step = TrainStep(model, settings)
        # Three updates: the accumulated gradients must be reset after each one.
        losses = [step(batches, 0.1).loss for _ in range(3)]
        found.append([*values(model.trainable_variables), losses])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_an_epochs_last_update_may_have_fewer_batches() -> None:
    settings = config(accumulate_steps=3)
    model, alone = dense(settings), dense(settings)
    TrainStep(model, settings)([batch(4), batch(4, seed=1)], 0.1)
    images, labels = zip(batch(4), batch(4, seed=1), strict=True)
    TrainStep(alone, config())([(tf.concat(images, 0), tf.concat(labels, 0))], 0.1)
    for one, other in zip(values(model.weights), values(alone.weights), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_label_smoothing_gives_a_share_of_the_label_to_all_classes() -> None:
    settings = config(label_smoothing=0.2)
    model, (images, labels) = dense(settings), batch(4)
    logits = model(images).numpy()
    loss = TrainStep(model, settings)([(images, labels)], 0.0).loss
    targets = 0.8 * np.eye(10)[labels.numpy()] + 0.02
    log_probabilities = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    assert loss == pytest.approx(-(targets * log_probabilities).sum(axis=1).mean(), rel=1e-5)


def test_a_step_in_parts_has_the_same_result_as_a_whole_one() -> None:
    settings, found = config(ema=0.5), []
    for in_parts in (False, True):
        model = network(settings)
        step = TrainStep(model, settings)
        times = StepTimes()
        losses = [(step.in_parts([batch(4)], 0.1, times) if in_parts else step([batch(4)], 0.1)).loss for _ in range(2)]
        found.append([*values(model.weights), *values(step.averages.averages), losses])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_gradients_may_be_transferred_as_fp16() -> None:
    settings = config(gradient_compression="fp16")
    model, exact = dense(settings), dense(settings)
    TrainStep(model, settings)([batch(4)], 0.1)
    TrainStep(exact, config())([batch(4)], 0.1)
    difference = max(np.abs(one - other).max() for one, other in zip(model.weights, exact.weights, strict=True))
    assert 0 < difference < 1e-3


def test_float16_scales_the_loss_and_skips_steps_that_overflow() -> None:
    with precision("mixed_float16"):
        settings = config()
        model = dense(settings)
    step = TrainStep(model, settings)
    before, scale = values(model.weights), float(step.loss_scale.factor)
    images, labels = batch(4)
    outcome = step([(images * 300, labels)], 0.1)  # the gradient of an image times 2 ** 15 is beyond float16's 65504
    assert float(step.loss_scale.factor) == scale / 2
    assert np.isfinite(outcome.loss)
    for old, new in zip(before, values(model.weights), strict=True):
        np.testing.assert_array_equal(old, new)
    step([(images / 300, labels)], 0.1)
    assert any((old != new).any() for old, new in zip(before, values(model.weights), strict=True))


def test_a_step_returns_a_loss_that_is_not_finite_and_a_stop() -> None:
    settings = config()
    step, (images, labels) = TrainStep(dense(settings), settings), batch(4)
    assert not step([(images, labels)], 0.1).stop
    assert step([(images, labels)], 0.1, stop=True).stop
    assert np.isnan(step([(images * np.nan, labels)], 0.1).loss)


def test_averages_follow_the_weights_and_can_replace_them() -> None:
    weight = tf.Variable([0.0])
    averages = WeightAverages([weight], [], decay=0.9)
    expected = 0.0
    for number, value in enumerate([1.0, 2.0, 3.0], start=1):
        weight.assign([value])
        averages.update()
        decay = min(0.9, (1 + number) / (10 + number))
        expected = decay * expected + (1 - decay) * value
    with averages.in_place():
        assert weight.numpy() == pytest.approx([expected])
    assert weight.numpy() == [3.0]


def test_averaged_weights_have_averaged_statistics() -> None:
    settings = config(ema=0.9, batch_norm_momentum=0.5)
    model = network(settings)
    step = TrainStep(model, settings)
    expected = values(model.non_trainable_variables)
    for number in range(1, 4):
        step([batch(4, seed=number)], 0.1)
        decay = (1 + number) / (10 + number)
        now = values(model.non_trainable_variables)
        expected = [decay * old + (1 - decay) * new for old, new in zip(expected, now, strict=True)]
    with step.averaged():
        for average, statistic in zip(expected, model.non_trainable_variables, strict=True):
            np.testing.assert_allclose(statistic.numpy(), average, rtol=1e-5, atol=1e-6)
    for last, statistic in zip(now, model.non_trainable_variables, strict=True):
        np.testing.assert_array_equal(statistic.numpy(), last)


def test_validation_weighs_images_and_counts_top_1_and_top_5() -> None:
    logits = np.tile(np.arange(10.0, dtype=np.float32)[::-1], (4, 1))  # class 0 is the most likely, then 1, 2, ...
    images = np.zeros((4, 8, 8, 3), np.uint8)
    images[:, 0, 0, 0] = 1

    def model(given: tf.Tensor, training: bool) -> tf.Tensor:
        return tf.constant(logits)[: tf.shape(given)[0]]

    validate = Validation(model, config())
    weighted = [
        (tf.constant(images), tf.constant([0, 4, 5, 9], tf.int64), tf.constant([1.0, 1.0, 1.0, 0.0])),
        (tf.constant(images[:1]), tf.constant([0], tf.int64), tf.constant([1.0])),
    ]
    metrics = validate(weighted)
    assert (metrics["validation_top1"], metrics["validation_top5"]) == (0.5, 0.75)
    losses = np.log(np.exp(logits[0]).sum()) - logits[0]
    assert metrics["validation_loss"] == pytest.approx((2 * losses[0] + losses[4] + losses[5]) / 4, rel=1e-6)
    with pytest.raises(ValueError, match="'validation' has no records on any rank"):
        validate([])


@pytest.mark.parametrize(
    ("flags", "expected"),
    [("fpu avx512_bf16 sse", "mixed_bfloat16"), ("fpu amx_bf16", "mixed_bfloat16"), ("fpu", "float32")],
)
def test_precision_depends_on_the_cpus_instructions(tmp_path: Path, flags: str, expected: str) -> None:
    (tmp_path / "cpuinfo").write_text(f"flags\t: {flags}\n")
    assert policy(Config(), tmp_path / "cpuinfo") == expected
    assert policy(Config(precision="mixed_float16"), tmp_path / "cpuinfo") == "mixed_float16"
    assert policy(Config(), tmp_path / "absent") == "float32"


def test_an_update_has_few_operations_for_each_weight() -> None:
    """A GPU starts operations one by one, so their number limits small steps: 18 for each weight with Keras' SGD."""
    with precision("mixed_float16"):
        settings = config(weight_decay=1e-4)
        model = network(settings)
    weights = model.trainable_variables
    gradients = [tf.TensorSpec(weight.shape) for weight in weights]
    graph = TrainStep(model, settings)._update.get_concrete_function(gradients, tf.TensorSpec([])).graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    operations = [node.op for node in nodes if node.op not in ("Placeholder", "Const", "ReadVariableOp")]
    assert operations.count("ResourceApplyKerasMomentum") == len(weights)
    assert len(operations) < 3.5 * len(weights)


def test_bytes_become_floats_in_the_step_itself_and_nothing_returns_to_the_host() -> None:
    """A batch of bytes is a quarter of the copy to a GPU; a copy back within the step would wait for the GPU."""
    settings = config(augmentation="crop_and_flip")
    model = network(settings)
    step = TrainStep(model, settings)
    images, labels = tf.TensorSpec([4, 8, 8, 3], tf.uint8), tf.TensorSpec([4], tf.int64)
    graph = step._whole.get_concrete_function(images, labels, *[tf.TensorSpec([])] * 3).graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    casts = [node for node in nodes if node.op == "Cast" and node.attr["SrcT"].type == tf.uint8.as_datatype_enum]
    assert len(casts) == 1
    assert {node.op for node in nodes} & {"PyFunc", "EagerPyFunc", "Print", "PrintV2", "_Send", "_HostSend"} == set()


def test_half_of_the_images_are_mirrored_anew_in_every_step() -> None:
    settings = config(augmentation="crop_and_flip", momentum=0.0)
    images, labels = batch(64)
    losses = []
    for _ in range(2):
        step = TrainStep(dense(settings), settings)
        losses.append([step([(images, labels)], 0.0).loss for _ in range(3)])
    assert losses[0] == losses[1]  # a training that is repeated mirrors the same images
    assert len(set(losses[0])) == 3
    mirrored = augment.mirror_half(images, tf.constant([1, 2], tf.int64))
    changed = [not np.array_equal(one, other) for one, other in zip(images, mirrored, strict=True)]
    assert 16 < sum(changed) < 48
    for source, result, is_mirrored in zip(images.numpy(), mirrored.numpy(), changed, strict=True):
        np.testing.assert_array_equal(result, source[:, ::-1] if is_mirrored else source)
