"""Image: the process of a container's image, and the command that the container runs in it.

An image of this checkout is one process (localcloud/ecr/process_images.py), which stands for its entry point and for
the command `train`, as on a host of SageMaker. `python` in a command is the interpreter of the image.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localcloud.ecr.process_images import InvalidImageError
from localcloud.ecr.pulls import ImageNotFoundError, resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localcloud.ecr.process_images import ProcessImage

_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_SSHD = "/usr/sbin/sshd"
"""The program of the MPI operator's workers; each pod has its own one here (localcloud/sagemaker/hosts)."""
_INVALID_REFERENCE = re.compile(r"[^A-Za-z0-9._/:@-]|^[^a-z0-9]")


@dataclass(frozen=True, kw_only=True)
class PullError(Exception):
    """An image cannot be pulled.

    Attributes:
        reason: The reason of the container's state, for example "ErrImagePull".
    """

    reason: str
    message: str


def pull(account: str, name: str) -> ProcessImage:
    """Return the process of an image.

    Args:
        account: The account of the node.
        name: The image.

    Raises:
        PullError: It does not exist, or the account may not pull it.
    """
    if _INVALID_REFERENCE.search(name):
        message = f'Failed to apply default image tag "{name}": couldn\'t parse image name "{name}": invalid reference'
        raise PullError(reason="InvalidImageName", message=message)
    try:
        return resolve(account, name)
    except (ImageNotFoundError, InvalidImageError) as error:
        start = f'failed to pull and unpack image "{name}": failed to resolve reference "{name}"'
        message = f"rpc error: code = NotFound desc = {start}: {name}: not found"
        raise PullError(reason="ErrImagePull", message=message) from error


def command_of(image: ProcessImage, container: Mapping[str, Any]) -> list[str]:
    """Return the program and arguments of a container."""
    command, args = container.get("command") or [], container.get("args") or []
    if command:
        words = [*command, *args]
    elif args == ["train"]:
        words = list(image.command)
    else:
        words = [*image.command, *args]
    if _PYTHON.fullmatch(words[0]):
        words[0] = _interpreter(image)
    return ["sshd", "-D"] if words[0] == _SSHD else words


def _interpreter(image: ProcessImage) -> str:
    python = image.environment.get("PYTHON") or image.command[0]
    return python if _PYTHON.fullmatch(Path(python).name) else sys.executable
