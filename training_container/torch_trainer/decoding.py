"""Decoding: the image of a record as pixels, with a random change that does not change its class.

The same seed produces the same change, so that a resumed training continues exactly.
"""

import math
import random
import warnings

import torch
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional

from training_container.recipe.config import Config
from training_container.torch_trainer.examples import ExampleError, image_and_label

_AREA, _RATIO = (0.08, 1.0), 4 / 3
_TRIES = 10


def decoded(record: bytes, config: Config, choice: random.Random | None) -> tuple[torch.Tensor, int]:
    """Return the image of a record, [3, size, size] uint8, and its class from 0.

    Args:
        choice: The random numbers of a training image; None for a validation image, which is not changed.

    Raises:
        ExampleError: The record has no valid image or label; the text is the end of a sentence about it.
    """
    encoded, label = image_and_label(record)
    last = config.first_label + config.classes - 1
    if not config.first_label <= label <= last:
        raise ExampleError(
            f"has the label {label}, which must be from {config.first_label} to {last} (hyperparameters first_label "
            "and classes)"
        )
    image = _resized(_pixels(encoded), config, choice)
    if choice and config.augmentation == "affine":
        image = _affine(image, choice)
    return image, label - config.first_label


def _pixels(encoded: bytes) -> torch.Tensor:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # bytes cannot be written, which nothing here does
            image = decode_image(torch.frombuffer(encoded, dtype=torch.uint8), mode=ImageReadMode.RGB)
    except (RuntimeError, ValueError) as error:
        cause = str(error).strip().splitlines()[0].rstrip(".")
        raise ExampleError(f"has an image of {len(encoded):,} bytes that cannot be decoded: {cause}") from error
    if image.dtype == torch.uint16:  # a PNG of 16 bits: its high bytes, as tf.io.decode_image returns them
        return (image.to(torch.int32) >> 8).to(torch.uint8)
    if image.dtype != torch.uint8:
        raise ExampleError(f"has an image with pixels of {image.dtype}, which must be torch.uint8 or torch.uint16")
    return image


def _resized(image: torch.Tensor, config: Config, choice: random.Random | None) -> torch.Tensor:
    """Return the image, or a crop of it, in the network's size."""
    height, width = image.shape[-2:]
    size = [config.image_size, config.image_size]
    if config.augmentation != "crop_and_flip":
        return functional.resize(image, size, antialias=True)
    if choice is None:  # 224/256 of the shorter side, as in ResNet-50's validation
        side = max(min(height, width) * 7 // 8, 1)
        return functional.resized_crop(
            image, (height - side) // 2, (width - side) // 2, side, side, size, antialias=True
        )
    image = functional.resized_crop(image, *_random_box(height, width, choice), size, antialias=True)
    return image.flip(-1) if choice.random() < 0.5 else image


def _random_box(height: int, width: int, choice: random.Random) -> tuple[int, int, int, int]:
    """Return top, left, height and width of a crop of 8 to 100 % of the area, with an aspect ratio of 3/4 to 4/3.

    Source: Szegedy et al. 2015 (arXiv:1409.4842), section 6, the common augmentation for ResNet-50.
    """
    for _ in range(_TRIES):
        area = height * width * choice.uniform(*_AREA)
        ratio = math.exp(choice.uniform(-math.log(_RATIO), math.log(_RATIO)))
        crop_width, crop_height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < crop_width <= width and 0 < crop_height <= height:
            top, left = choice.randint(0, height - crop_height), choice.randint(0, width - crop_width)
            return top, left, crop_height, crop_width
    return 0, 0, height, width


def _affine(image: torch.Tensor, choice: random.Random) -> torch.Tensor:
    """Shift an image by up to an eighth, rotate it by up to 0.2 radians, and zoom by up to 15 %."""
    size = image.shape[-1]
    shifts = [round(choice.uniform(-size / 8, size / 8)) for _ in range(2)]
    angle, zoom = math.degrees(choice.uniform(-0.2, 0.2)), choice.uniform(0.85, 1.15)
    return functional.affine(image, angle, shifts, zoom, [0.0, 0.0], interpolation=InterpolationMode.BILINEAR)
