"""Image folder: raw images in one folder per class, <channel>/<class>/<image>.jpg, as in ImageNet's own archives."""

from collections.abc import Iterable, Sequence
from pathlib import Path

_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif"})


class ImageFolderError(ValueError):
    """A folder of images is invalid for training. The text gives the reason."""


def is_image(path: Path) -> bool:
    """Return True if a file has the suffix of an image."""
    return path.suffix.lower() in _SUFFIXES


def class_names(folder: Path, files: Iterable[Path]) -> set[str]:
    """Return the names of the folders that contain images.

    Raises:
        ImageFolderError: An image is not in a folder of its class, or a file is not an image.
    """
    names = set()
    for path in files:
        inner = path.relative_to(folder).parts
        if len(inner) < 2 or not is_image(path):
            raise ImageFolderError(
                f"{'/'.join(inner)} is not an image in a folder of its class. A channel of images may only contain "
                "<class>/<image>.jpg or .png."
            )
        names.add(inner[0])
    return names


def labels_of(channel: str, folder: Path, files: Sequence[Path], names: Sequence[str]) -> list[int]:
    """Return each image's class: the index of its folder in the sorted names of all classes, from 0.

    Raises:
        ImageFolderError: A folder is not one of the classes.
    """
    places = {name: place for place, name in enumerate(names)}
    labels = []
    for path in files:
        name = path.relative_to(folder).parts[0]
        if name not in places:
            raise ImageFolderError(
                f"Channel {channel} has a folder {name!r}, which is not a class of the training images "
                f"({', '.join(list(names)[:10])}{', ...' if len(names) > 10 else ''})."
            )
        labels.append(places[name])
    return labels


def check_classes(names: Sequence[str], classes: int) -> None:
    """Check that the number of folders equals the hyperparameter `classes`.

    Raises:
        ImageFolderError: The numbers differ.
    """
    if len(names) != classes:
        raise ImageFolderError(
            f"Channel train has {len(names)} folder(s) of classes, but hyperparameter classes is {classes}. Set it to "
            f"{len(names)}, or check the channel's S3 prefix; the first folders are: {', '.join(list(names)[:5])}."
        )
