"""The metrics that training prints, as `name=value` in a line, declared once. Imports no TensorFlow.

SageMaker finds a value by a regular expression per metric, which traingrid makes from the name
(traingrid/manifest_values.py). A job has the metrics BY_DEFAULT unless its manifest line or grid.yaml names others of
these. tests/domain/test_metrics.py holds that both sides agree.
"""

from collections.abc import Mapping

EPOCH_METRICS = {
    "epoch": "whole epochs done",
    "train_loss": "mean loss of the epoch's steps over all ranks, without weight decay",
    "learning_rate": "of the last step, of all ranks together",
    "validation_loss": "mean over the validation images of all ranks, without label smoothing",
    "validation_top1": "share of the validation images whose class is the most likely one",
    "validation_top5": "share of the validation images whose class is among the five most likely ones",
    "images_per_second": "training images of all ranks, while training, without validation and checkpoints",
    "images_per_second_per_rank": "the same of one rank",
    "ranks": "ranks that take part",
    "corrupt_records": "records left out so far, being corrupt or holding no image that decodes, of all ranks",
}
"""Printed once an epoch."""

TIME_METRICS = {
    "step_seconds": "time of a step, on rank 0",
    "input_seconds": "part of it in which the step waits for its batch",
    "compute_seconds": "forward and backward pass and update, of sampled steps",
    "allreduce_seconds": "averaging over ranks, with the wait for the slowest one, of sampled steps",
    "gpu_percent": "time in which rank 0's GPU computed",
    "gpu_memory_mb": "memory of rank 0's GPU in use, in MB",
}
"""Printed once an epoch as means over it, and in every line of progress as means since the last one (timing.py)."""

PROGRESS_METRICS = {
    "step": "steps done of the whole training",
    "recent_loss": "mean loss since the last line of progress",
    "recent_images_per_second": "training images of all ranks, by the step_seconds of the same line",
}
"""Printed in every line of progress."""

METRICS = EPOCH_METRICS | TIME_METRICS | PROGRESS_METRICS
"""Name to meaning."""

BY_DEFAULT = (
    *("epoch", "train_loss", "validation_loss", "validation_top1", "validation_top5", "learning_rate"),
    *("images_per_second", "ranks", "step_seconds", "input_seconds"),
)
"""What a job's metric definitions hold unless told otherwise: few, because a submission repeats them in every line."""


def line(epoch: int, values: Mapping[str, float]) -> str:
    """Return the line of an epoch.

    Args:
        epoch: whole epochs done.
        values: the other metrics, by name.

    Raises:
        KeyError: a name is not declared here, so that nobody would find its value.
    """
    return pairs({"epoch": epoch, **values})


def pairs(values: Mapping[str, float]) -> str:
    """Return values as `name=value`, numbers that are not whole in six digits.

    Raises:
        KeyError: a name is not declared here, so that nobody would find its value.
    """
    for name in values:
        if name not in METRICS:
            raise KeyError(f"{name} is not declared in metric_lines.py, so SageMaker would not find it")
    return " ".join(f"{name}={_text(value)}" for name, value in values.items())


def _text(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"
