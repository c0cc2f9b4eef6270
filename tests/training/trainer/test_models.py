import pytest
import tensorflow as tf

from training_container.recipe.config import Config
from training_container.trainer.models import build_model


def trainable(model: tf.keras.Model) -> int:
    return sum(int(tf.size(weight)) for weight in model.trainable_variables)


@pytest.fixture(scope="module")
def resnet50() -> tf.keras.Model:
    return build_model(Config())


def test_resnet50_has_the_parameters_of_the_published_one(resnet50: tf.keras.Model) -> None:
    """torchvision's resnet50, which is also v1.5, has 25,557,032."""
    assert trainable(resnet50) == 25_557_032


def test_resnet50_is_v1_5_its_strides_are_on_the_3_by_3_convolutions(resnet50: tf.keras.Model) -> None:
    convolutions = [layer for layer in resnet50.layers if isinstance(layer, tf.keras.layers.Conv2D)]
    strided = [layer.kernel_size[0] for layer in convolutions if layer.strides == (2, 2)]
    # The stem, then for each of three stages the 3 x 3 convolution of the first block and its projection.
    assert sorted(strided) == [1, 1, 1, 3, 3, 3, 7]
    first_of_a_block = [layer for layer in convolutions if layer.kernel_size == (1, 1) and layer.strides == (2, 2)]
    assert [layer.filters for layer in first_of_a_block] == [512, 1024, 2048]  # projections only


def test_each_block_of_resnet50_is_initially_the_identity(resnet50: tf.keras.Model) -> None:
    norms = [layer for layer in resnet50.layers if isinstance(layer, tf.keras.layers.BatchNormalization)]
    assert sum(1 for norm in norms if float(tf.reduce_max(norm.gamma)) == 0.0) == 16


@pytest.mark.parametrize(
    ("name", "depth", "parameters"), [("resnet8", 8, 75_290), ("resnet20", 20, 269_722), ("resnet32", 32, 464_154)]
)
def test_small_networks_have_the_depth_and_size_of_the_paper(name: str, depth: int, parameters: int) -> None:
    """He et al. 2015, table 6: 0.27 M and 0.46 M, exactly 269,722 and 464,154. Ours have two additional projections."""
    projections = (16 * 32 + 2 * 32) + (32 * 64 + 2 * 64)
    model = build_model(Config(model=name, classes=10, image_size=32))
    kernels = [weight for weight in model.trainable_variables if "kernel" in weight.name]
    assert len(kernels) == depth + 2
    assert trainable(model) == parameters + projections
    assert model(tf.zeros([2, 32, 32, 3])).shape == (2, 10)


@pytest.mark.filterwarnings("ignore:The initializer .* is unseeded")  # this test calls each a second time
@pytest.mark.parametrize("name", ["resnet8", "resnet50"])
def test_initial_weights_are_computed_on_the_cpu(name: str, resnet50: tf.keras.Model) -> None:
    """So that trainings on CPUs and GPUs begin with equal weights, by which a merge compares them."""
    model = resnet50 if name == "resnet50" else build_model(Config(model=name, classes=10, image_size=8))
    layers = [layer for layer in model.layers if hasattr(layer, "kernel_initializer")]
    assert len(layers) > 8
    for layer in layers:
        with tf.Graph().as_default() as graph, tf.device("GPU:0"):
            layer.kernel_initializer(layer.kernel.shape, layer.kernel.dtype)
        random = [one for one in graph.get_operations() if "Random" in one.type or "Normal" in one.type]
        assert random
        assert {one.device for one in random} == {"/device:CPU:0"}, layer.name


def test_logits_are_float32_with_any_precision() -> None:
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        model = build_model(Config(model="resnet8", classes=10, image_size=8))
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    assert model(tf.zeros([1, 8, 8, 3])).dtype == tf.float32
    assert {weight.dtype for weight in model.variables} == {tf.float32}
