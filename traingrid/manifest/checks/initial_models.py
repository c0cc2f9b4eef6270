"""Initial model check: `init_from` together with a line's channels and algorithm, without the ledger.

`traingrid.models.initial_models` checks the job that it names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.job.channels import channels
from traingrid.job.initial_model import MODEL_CHANNEL
from traingrid.manifest.line import image_of
from traingrid.manifest.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.manifest.allowed import Rules
    from traingrid.manifest.line import Line

INCREMENTAL = ("image-classification", "object-detection", "semantic-segmentation")
"""The built-in algorithms that begin with a model ("Only three built-in algorithms currently support incremental
training", https://docs.aws.amazon.com/sagemaker/latest/dg/incremental-training.html)."""


def check(line: Line, rules: Rules) -> Iterator[Problem]:
    """Yield the problems of `init_from`: a second channel with the name of its channel, an algorithm without models."""
    if line.settings.init_from is None:
        return
    model = str(line.settings.init_from)
    job = line.settings.applied_to(rules.grid.job)
    if any(MODEL_CHANNEL in channels(data, job) for data in line.places.values()):
        reason = f"init_from provides the channel {MODEL_CHANNEL}, and the line has a channel of this name"
        yield Problem("init_from", model, reason, "Remove init_from, or give the channel another name.")
    image = image_of(line.settings, rules.grid)
    algorithm = image.algorithm if image is not None else None
    if algorithm and algorithm not in INCREMENTAL:
        reason = f"SageMaker's algorithm {algorithm} cannot begin with the model of another job"
        yield Problem("init_from", model, reason, f"Remove init_from; {', '.join(INCREMENTAL)} can.")
