"""Initial model validation: checks a line's `init_from` without the ledger.

`traingrid.submission.initial_models` checks the job that it names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traingrid.job.channels import channels
from traingrid.job.initial_model import MODEL_CHANNEL, InitialModel
from traingrid.manifest.values import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traingrid.aws.s3_uri import S3Uri
    from traingrid.grid.model import Grid
    from traingrid.job.job import Inputs
    from traingrid.manifest.channel_checks import Wrong

INCREMENTAL = ("image-classification", "object-detection", "semantic-segmentation")
"""The built-in algorithms that begin with a model ("Only three built-in algorithms currently support incremental
training", https://docs.aws.amazon.com/sagemaker/latest/dg/incremental-training.html)."""


def initial_model(value: object) -> InitialModel:
    """Return the model that the field `init_from` names."""
    next_step = "Write for example 0123abcd/0; `traingrid status` lists submissions, and `describe` their jobs."
    if not isinstance(value, str):
        raise RefusedError("must be text", next_step)
    try:
        return InitialModel.parse(value)
    except ValueError as error:
        raise RefusedError(str(error), next_step) from None


def wrong_initial_model(place: S3Uri | Inputs, settings: Mapping[str, Any], grid: Grid) -> Iterator[Wrong]:
    """Yield the errors of `init_from` together with a line's channels and algorithm.

    Args:
        place: The data folder, or the line's channels.
        settings: The line's valid settings.
        grid: The grid.
    """
    model = settings.get("init_from")
    if model is None:
        return
    if MODEL_CHANNEL in channels(place, settings, grid.job):
        reason = f"init_from provides the channel {MODEL_CHANNEL}, and the line has a channel of this name"
        yield "init_from", str(model), RefusedError(reason, "Remove init_from, or give the channel another name.")
    image = grid.images.get(settings.get("image", grid.job.image))
    known = image.algorithm if image is not None and "algorithm" not in settings else None
    if known and known not in INCREMENTAL:
        reason = f"SageMaker's algorithm {known} cannot begin with the model of another job"
        yield "init_from", str(model), RefusedError(reason, f"Remove init_from; {', '.join(INCREMENTAL)} can.")
