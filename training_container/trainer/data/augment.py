"""Augmentation: random changes to training images that do not change their class.

All functions are stateless: the same seed produces the same change, so that a resumed training continues exactly.
"""

import numpy as np
import tensorflow as tf

from training_container.recipe.config import Config

_Row = tuple[tf.Tensor, tf.Tensor, tf.Tensor]
"""The coefficients of one coordinate."""


def mixed_seed(*numbers: int) -> int:
    """Return a seed of 31 bits for a position in training, such as (seed, epoch, rank). The seeds are independent."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0] >> 1)


def decode_random_crop(encoded: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Decode a random crop of an image.

    The crop has 8 to 100 % of the area, and an aspect ratio of 3/4 to 4/3. Of a JPEG, only the crop is decoded, with
    which one core decodes 1.1 times as many images per second (375 x 500 pixels). The training step mirrors half of the
    images on the device.
    Source: Szegedy et al. 2015 (arXiv:1409.4842), section 6, the common augmentation for ResNet-50.

    Args:
        encoded: The encoded image, scalar tf.string.
        seed: [2] int64.

    Returns:
        [height, width, 3] uint8.
    """

    def crop_jpeg() -> tf.Tensor:
        begin, size = _random_box(tf.io.extract_jpeg_shape(encoded), seed)
        window = tf.stack([begin[0], begin[1], size[0], size[1]])
        return tf.io.decode_and_crop_jpeg(encoded, window, channels=3)

    def crop_other_format() -> tf.Tensor:
        image = decode_image(encoded)
        begin, size = _random_box(tf.shape(image), seed)
        return tf.slice(image, begin, size)

    return tf.cond(tf.io.is_jpeg(encoded), crop_jpeg, crop_other_format)


def mirror_half(images: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Mirror half of the images of a batch. On the host, this would take a tenth of the time of decoding.

    Args:
        images: [batch, height, width, 3].
        seed: [2] int64, the seed of the batch.
    """
    mirrored = tf.random.stateless_uniform([tf.shape(images)[0], 1, 1, 1], seed) < 0.5
    return tf.where(mirrored, tf.reverse(images, [2]), images)


def _random_box(shape: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        shape,
        tf.zeros([1, 0, 4]),
        seed,
        area_range=(0.08, 1.0),
        aspect_ratio_range=(3 / 4, 4 / 3),
        use_image_if_no_bounding_boxes=True,
    )
    return begin, size


def crops(config: Config) -> bool:
    """Return True if images are cropped. Cached images are small and shifted instead, in whole batches."""
    return config.augmentation == "crop_and_flip" and not config.cache


def crop_middle(images: tf.Tensor) -> tf.Tensor:
    """Return the central square of images, 7/8 of their shorter side (224/256, as in ResNet-50's validation).

    Args:
        images: [..., height, width, 3].
    """
    height, width = tf.unstack(tf.shape(images)[-3:-1])
    side = tf.maximum(tf.minimum(height, width) * 7 // 8, 1)
    top, left = (height - side) // 2, (width - side) // 2
    return images[..., top : top + side, left : left + side, :]


def round_to_bytes(images: tf.Tensor) -> tf.Tensor:
    """Round images in 0..255 to uint8, in which a batch takes a quarter of the bytes of float32 on its way to a GPU."""
    return tf.cast(tf.round(images), tf.uint8)


def decode_image(encoded: tf.Tensor) -> tf.Tensor:
    """Decode a JPEG, PNG, BMP or the first frame of a GIF to [height, width, 3] uint8."""
    return tf.io.decode_image(encoded, channels=3, expand_animations=False)


def shift_and_mirror(images: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Shift small square images by up to an eighth, and mirror half of them, as for CIFAR (He et al. 2015).

    Args:
        images: [batch, size, size, 3] uint8.
        seed: [2] int64, the seed of the batch.
    """
    count, size = tf.shape(images)[0], images.shape[1]
    margin = size // 8
    shifts = tf.random.stateless_uniform([2, count], seed, -margin, margin + 1, dtype=tf.int32)
    shift_x, shift_y = tf.unstack(tf.cast(shifts, tf.float32))
    mirrored = tf.random.stateless_uniform([count], seed + 1) < 0.5
    zero, ones = tf.zeros([count]), tf.ones([count])
    # Column x of a mirrored image is column size - 1 - x of its source.
    x_scale = tf.where(mirrored, -ones, ones)
    x_offset = tf.where(mirrored, size - 1.0, 0.0)
    return _transform(images, (x_scale, zero, x_offset + shift_x), (zero, ones, shift_y), "NEAREST")


def apply_random_affine(images: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Shift each image by up to an eighth, rotate it by up to 0.2 radians (11°), and zoom by up to 15 %.

    Args:
        images: [batch, size, size, 3] uint8.
        seed: [2] int64, the seed of the batch.
    """
    count, size = tf.shape(images)[0], images.shape[1]
    middle = (size - 1) / 2
    angle = tf.random.stateless_uniform([count], seed, -0.2, 0.2)
    zoom_x, zoom_y = tf.unstack(tf.random.stateless_uniform([2, count], seed + 1, 0.85, 1.15))
    shift_x, shift_y = tf.unstack(tf.random.stateless_uniform([2, count], seed + 2, -size / 8, size / 8))
    a = zoom_x * tf.cos(angle)
    b = -zoom_y * tf.sin(angle)
    c, d = zoom_x * tf.sin(angle), zoom_y * tf.cos(angle)
    # Rotation and zoom leave the center of the image in place; only the shift moves it.
    to_x = middle - a * middle - b * middle + shift_x
    to_y = middle - c * middle - d * middle + shift_y
    # In uint8, the operation would round interpolated values down.
    floats = tf.cast(images, tf.float32)
    return round_to_bytes(_transform(floats, (a, b, to_x), (c, d, to_y), "BILINEAR"))


def _transform(images: tf.Tensor, x: _Row, y: _Row, interpolation: str) -> tf.Tensor:
    """Apply one affine transformation to each image. Areas from outside the image are black.

    Args:
        images: [batch, size, size, 3].
        x: Three coefficients of shape [batch], by which column and row of a pixel of the result, and 1, are multiplied.
            Their sum is the column of the pixel in the source.
        y: The same for the row.
        interpolation: "NEAREST" or "BILINEAR".
    """
    zero = tf.zeros_like(x[0])  # the last two coefficients are those of a perspective
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=images,
        transforms=tf.stack([*x, *y, zero, zero], axis=1),
        output_shape=images.shape[1:3],
        interpolation=interpolation,
        fill_mode="CONSTANT",
        fill_value=0.0,
    )
