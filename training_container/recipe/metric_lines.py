"""Metric lines: the metrics that training prints, as `name=value` in a line.

SageMaker extracts each metric with a regular expression, which traingrid derives from the name
(traingrid/manifest/metrics.py). A job has the metrics in BY_DEFAULT unless its line or grid.yaml selects others
from this module. tests/unit/manifest/test_metrics.py checks that both sides agree.
"""

from collections.abc import Mapping

EPOCH_METRICS = {
    "epoch": "completed epochs",
    "train_loss": "mean loss of the epoch's steps over all ranks, without weight decay",
    "learning_rate": "learning rate of the last step, of all ranks together",
    "validation_loss": "mean loss over the validation images of all ranks, without label smoothing",
    "validation_top1": "share of the validation images whose class is the most likely one",
    "validation_top5": "share of the validation images whose class is among the five most likely ones",
    "images_per_second": "training images of all ranks per second, without validation and checkpoints",
    "images_per_second_per_rank": "the same for one rank",
    "ranks": "number of ranks",
    "corrupt_records": "corrupt records, or records without a valid image, that all ranks have left out so far",
}
"""Printed once per epoch."""

TIME_METRICS = {
    "step_seconds": "time of a step, on rank 0",
    "input_seconds": "part of a step that waits for its batch",
    "compute_seconds": "forward pass, backward pass and update in sampled steps",
    "allreduce_seconds": "averaging over ranks, including the wait for the slowest one, in sampled steps",
    "gpu_percent": "share of time in which rank 0's GPU computed",
    "gpu_memory_mb": "used memory of rank 0's GPU, in MB",
}
"""Printed once per epoch as means over it, and in every progress line as means since the last one (timing.py)."""

PROGRESS_METRICS = {
    "step": "completed steps of the whole training",
    "recent_loss": "mean loss since the last progress line",
    "recent_images_per_second": "training images of all ranks per second, from step_seconds of the same line",
}
"""Printed in every progress line."""

METRICS = EPOCH_METRICS | TIME_METRICS | PROGRESS_METRICS
"""Descriptions by name."""

BY_DEFAULT = (
    *("epoch", "train_loss", "validation_loss", "validation_top1", "validation_top5", "learning_rate"),
    *("images_per_second", "ranks", "step_seconds", "input_seconds"),
)
"""The default metric definitions of a job: only a few, because a submission repeats them in every line."""


def line(epoch: int, values: Mapping[str, float]) -> str:
    """Return the line of an epoch.

    Args:
        epoch: The number of completed epochs.
        values: The other metrics, by name.

    Raises:
        KeyError: A name is not declared here, so SageMaker could not extract its value.
    """
    return pairs({"epoch": epoch, **values})


def pairs(values: Mapping[str, float]) -> str:
    """Return values as `name=value`; numbers that are not whole have six significant digits.

    Raises:
        KeyError: A name is not declared here, so SageMaker could not extract its value.
    """
    for name in values:
        if name not in METRICS:
            raise KeyError(f"{name} is not declared in metric_lines.py, so SageMaker could not extract it")
    return " ".join(f"{name}={_text(value)}" for name, value in values.items())


def _text(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"
