"""Models: residual networks in Keras: ResNet-50 v1.5 for ImageNet, and ResNet-8, 20 and 32 for small images."""

from typing import Any

import tensorflow as tf

from training_container.recipe.config import Config

layers = tf.keras.layers

# Blocks in each of the three stages of a small network; its depth is 6 n + 2.
SMALL = {"resnet8": 1, "resnet20": 3, "resnet32": 5}


class OnCpu(tf.keras.initializers.Initializer):
    """An initializer whose random values are computed on the CPU, also for variables of a GPU.

    Merges average only networks whose initial weights are equal to the last bit (weights.py). TensorFlow documents the
    values of a seed as consistent between CPU and GPU
    (https://www.tensorflow.org/api_docs/python/tf/random/stateless_truncated_normal), but not to the last bit: each
    computes logarithms and cosines with another library.
    """

    def __init__(self, wrapped: tf.keras.initializers.Initializer) -> None:
        self._initializer = wrapped

    def __call__(self, shape: tf.TensorShape, dtype: tf.DType | None = None, **options: Any) -> tf.Tensor:
        """Return the initial values of a variable, which is not placed on the CPU itself."""
        with tf.device("CPU:0"):
            return self._initializer(shape, dtype, **options)


def build_model(config: Config) -> tf.keras.Model:
    """Return the network, from images [batch, size, size, 3] in 0..255 to logits [batch, classes] in float32."""
    images = tf.keras.Input([config.image_size, config.image_size, 3])
    x = layers.Rescaling(1 / 127.5, offset=-1.0)(images)
    x = _small_resnet(x, config, SMALL[config.model]) if config.model in SMALL else _resnet50(x, config)
    x = layers.GlobalAveragePooling2D()(x)
    # float32 with any precision policy: a softmax of 16-bit logits is too coarse.
    logits = layers.Dense(config.classes, kernel_initializer=OnCpu(tf.keras.initializers.GlorotUniform()))(x)
    return tf.keras.Model(images, layers.Activation("linear", dtype="float32")(logits), name=config.model)


def _small_resnet(x: tf.Tensor, config: Config, blocks: int) -> tf.Tensor:
    """Add a stem and three stages of basic blocks with 16, 32 and 64 channels.

    Source: He et al. (arXiv:1512.03385), section 4.2. A shortcut that changes the shape is a projection, the paper's
    option B.
    """
    x = _relu(_batch_norm(_convolution(x, 16, 3), config))
    for channels, first_stride in ((16, 1), (32, 2), (64, 2)):
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            y = _relu(_batch_norm(_convolution(x, channels, 3, stride), config))
            y = _batch_norm(_convolution(y, channels, 3), config)
            x = _relu(layers.Add()([_shortcut(x, channels, stride, config), y]))
    return x


def _resnet50(x: tf.Tensor, config: Config) -> tf.Tensor:
    """Add bottleneck blocks with the stride on the 3 x 3 convolution: v1.5, as in NVIDIA's and MLPerf's ResNet-50."""
    x = _relu(_batch_norm(_convolution(x, 64, 7, 2), config))
    x = layers.MaxPooling2D(3, 2, padding="same")(x)
    for channels, blocks, first_stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            y = _relu(_batch_norm(_convolution(x, channels, 1), config))
            y = _relu(_batch_norm(_convolution(y, channels, 3, stride), config))
            y = _batch_norm(_convolution(y, 4 * channels, 1), config, gamma="zeros")
            x = _relu(layers.Add()([_shortcut(x, 4 * channels, stride, config), y]))
    return x


def _shortcut(x: tf.Tensor, channels: int, stride: int, config: Config) -> tf.Tensor:
    if stride == 1 and x.shape[-1] == channels:
        return x
    return _batch_norm(_convolution(x, channels, 1, stride), config)


def _convolution(x: tf.Tensor, channels: int, size: int, stride: int = 1) -> tf.Tensor:
    initializer = OnCpu(tf.keras.initializers.HeNormal())
    return layers.Conv2D(channels, size, stride, padding="same", use_bias=False, kernel_initializer=initializer)(x)


def _batch_norm(x: tf.Tensor, config: Config, gamma: str = "ones") -> tf.Tensor:
    """Add batch norm. The last one in a block starts at zero, so that the block is an identity (Goyal et al. 2017)."""
    return layers.BatchNormalization(momentum=config.batch_norm_momentum, epsilon=1e-5, gamma_initializer=gamma)(x)


def _relu(x: tf.Tensor) -> tf.Tensor:
    return layers.ReLU()(x)
