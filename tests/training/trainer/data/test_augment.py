import numpy as np
import tensorflow as tf

from training_container.trainer.data.augment import (
    apply_random_affine,
    crop_middle,
    decode_random_crop,
    mixed_seed,
    shift_and_mirror,
)

SEED = tf.constant([1, 2], tf.int64)


def test_moving_changes_each_image_differently_and_keeps_its_center() -> None:
    image = np.zeros((16, 16, 3), np.uint8)
    image[6:10, 6:10] = 200
    images = apply_random_affine(tf.constant(np.stack([image] * 8)), SEED).numpy()
    assert images.shape == (8, 16, 16, 3)
    assert len({picture.tobytes() for picture in images}) == 8
    for picture in images:
        where = np.argwhere(picture[..., 0] > 50)
        assert np.all(np.abs(where.mean(axis=0) - 7.5) <= 3.0)


def test_small_images_are_shifted_by_an_eighth_at_most_and_half_of_them_mirrored() -> None:
    image = np.zeros((16, 16, 3), np.uint8)
    image[8, 4] = 1
    changed = shift_and_mirror(tf.constant(np.stack([image] * 64)), SEED).numpy()
    _, rows, columns, _ = np.nonzero(changed[..., :1])
    assert len(rows) == 64
    assert set(rows) == set(range(6, 11))
    assert set(columns) == set(range(2, 7)) | set(range(9, 14))
    assert np.all(np.isin(changed, (0, 1)))


def test_parts_of_a_jpeg_equal_those_of_the_decoded_image() -> None:
    """Decoding only a part must not change which part it is."""
    ramp = np.broadcast_to(np.linspace(0, 255, 96, dtype=np.uint8)[None, :, None], (80, 96, 3))
    jpeg, png = tf.io.encode_jpeg(ramp, quality=100), tf.io.encode_png(ramp)
    for index in range(8):
        seed = tf.constant([7, index], tf.int64)
        of_jpeg, of_png = decode_random_crop(jpeg, seed).numpy(), decode_random_crop(png, seed).numpy()
        assert of_jpeg.shape == of_png.shape
        assert np.mean(np.abs(of_jpeg.astype(int) - of_png)) < 2.0


def test_the_central_square_has_seven_eighths_of_the_shorter_side() -> None:
    image = np.zeros((80, 160, 3), np.uint8)
    image[40, 80] = 255
    middle = crop_middle(tf.constant(image)).numpy()
    assert middle.shape == (70, 70, 3)
    assert middle[35, 35, 0] == 255


def test_seeds_of_adjacent_positions_are_all_different() -> None:
    places = [(seed, epoch, rank) for seed in range(4) for epoch in range(4) for rank in range(4)]
    assert len({mixed_seed(*place) for place in places}) == len(places)
