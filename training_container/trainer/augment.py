"""Random changes to training images that leave their meaning as it is."""

import tensorflow as tf


def random_part(image: tf.Tensor) -> tf.Tensor:
    """Crop 8 to 100 % of an image's area at an aspect ratio of 3/4 to 4/3, and mirror half of the images.

    Source: Szegedy et al. 2015 (arXiv:1409.4842), section 6; what ResNet-50 is trained with ever since.
    """
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.shape(image),
        tf.zeros([1, 0, 4]),
        area_range=(0.08, 1.0),
        aspect_ratio_range=(3 / 4, 4 / 3),
        use_image_if_no_bounding_boxes=True,
    )
    return tf.image.random_flip_left_right(tf.slice(image, begin, size))


def shifted_and_flipped(image: tf.Tensor) -> tf.Tensor:
    """Shift a small square image by up to an eighth and mirror half of them, as is done for CIFAR (He et al. 2015)."""
    size, margin = image.shape[0], image.shape[0] // 8
    padded = tf.pad(image, [[margin, margin], [margin, margin], [0, 0]])
    return tf.image.random_flip_left_right(tf.image.random_crop(padded, [size, size, 3]))


def moved(images: tf.Tensor) -> tf.Tensor:
    """Shift up to an eighth, turn up to 0.2 radians (11 degrees) and zoom up to 15 %, each image in its own way.

    What comes in at the edges is black. One transformation does it all: eight numbers per image that take a pixel of
    the result to its place in the source (tf.raw_ops.ImageProjectiveTransformV3).
    """
    count, size = images.shape[0], images.shape[1]
    middle = (size - 1) / 2
    angle = tf.random.uniform([count], -0.2, 0.2)
    zoom_x, zoom_y = tf.random.uniform([count], 0.85, 1.15), tf.random.uniform([count], 0.85, 1.15)
    shift_x, shift_y = tf.unstack(tf.random.uniform([2, count], -size / 8, size / 8))
    a, b = zoom_x * tf.cos(angle), -zoom_y * tf.sin(angle)
    c, d = zoom_x * tf.sin(angle), zoom_y * tf.cos(angle)
    zero = tf.zeros([count])
    # The middle of the image stays where it is, but for the shift.
    transforms = tf.stack(
        [
            a,
            b,
            middle - a * middle - b * middle + shift_x,
            c,
            d,
            middle - c * middle - d * middle + shift_y,
            zero,
            zero,
        ],
        axis=1,
    )
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=images,
        transforms=transforms,
        output_shape=[size, size],
        interpolation="BILINEAR",
        fill_mode="CONSTANT",
        fill_value=0.0,
    )
