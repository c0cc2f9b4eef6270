"""Image pages: the jobs of image-classification and object-detection that AWS's pages allow.

The records beside this module, image_classification.toml and object_detection.toml, name the pages.
"""

from collections.abc import Callable
from pathlib import Path

from localcloud.sagemaker.algorithms.image_learner import RECORDIO
from localcloud.sagemaker.algorithms.job import AlgorithmJob
from localcloud.sagemaker.algorithms.published_rules import PublishedRules

VERSIONS = ("1",)
_FOLDER = Path(__file__).parent
RECORDS = {
    name: PublishedRules(name, _FOLDER / f"{name.replace('-', '_')}.toml", VERSIONS)
    for name in ("image-classification", "object-detection")
}
"""The record of each algorithm."""

_TRANSFER_LEARNING = ("18", "34", "50", "101", "152", "200")


def job_problem(job: AlgorithmJob, name: str) -> str:
    """Return the first problem for which an algorithm refuses a job; empty if it accepts it."""
    record = RECORDS[name]
    problem = record.hyperparameter_problem(job.hyperparameters, VERSIONS[0]) or record.channel_problem(
        job.channels, parameters=True
    )
    if problem:
        return problem
    if not record.trains_on(job.instance_type):
        return f"{name} does not train on {job.instance_type}"
    rules = _CLASSIFICATION if name == "image-classification" else ()
    for rule in (_format_problem, *rules):
        rule_problem = rule(job)
        if rule_problem:
            return rule_problem
    return ""


def _format_problem(job: AlgorithmJob) -> str:
    """Return a text unless both channels have one format, and exactly the image format has channels of labels."""
    formats = {job.content_type(name) == RECORDIO for name in ("train", "validation")}
    labels = [name for name in job.channels if name.endswith(("_lst", "_annotation"))]
    if len(formats) == 2:
        return "the channels train and validation have different formats"
    if formats == {True} and labels:
        return f"Extraneous channel found: {labels[0]}"
    return "" if formats == {True} or len(labels) == 2 else "Missing required channel of labels"


def _stream_problem(job: AlgorithmJob) -> str:
    for name, config in job.channels.items():
        if config["TrainingInputMode"] == "Pipe" and config.get("S3DistributionType") == "ShardedByS3Key":
            return f"the channel {name} in Pipe mode must have S3DataDistributionType FullyReplicated"
    return ""


def _pretrained_problem(job: AlgorithmJob) -> str:
    values = job.hyperparameters
    if values.get("use_pretrained_model") != "1":
        return ""
    if values.get("num_layers", "152") not in _TRANSFER_LEARNING:
        return f"num_layers {values['num_layers']}: no pretrained model has these layers"
    fixed = _shape(job) == (3, 224, 224)
    return "" if fixed else f"image_shape {values['image_shape']}: pretrained models have a fixed 224 x 224 image size"


def _checkpoint_problem(job: AlgorithmJob) -> str:
    frequency = int(job.hyperparameters.get("checkpoint_frequency", "1"))
    epochs = int(job.hyperparameters.get("epochs", "30"))
    return "" if frequency <= epochs else f"checkpoint_frequency {frequency}: greater than epochs, {epochs}"


def _resize_problem(job: AlgorithmJob) -> str:
    """Return the problem of resize; empty if there is none.

    Images need it. "If any input image is smaller than this parameter in any dimension, training fails".
    """
    if "resize" not in job.hyperparameters:
        return "" if job.content_type("train") == RECORDIO else "resize: required when using image content types"
    resize = int(job.hyperparameters["resize"])
    return "" if resize >= max(_shape(job)[1:]) else f"resize {resize}: smaller than image_shape"


def _shape(job: AlgorithmJob) -> tuple[int, ...]:
    """Return channels, height and width."""
    return tuple(int(part) for part in job.hyperparameters.get("image_shape", "3,224,224").split(","))


_CLASSIFICATION: tuple[Callable[[AlgorithmJob], str], ...] = (
    _stream_problem,
    _pretrained_problem,
    _checkpoint_problem,
    _resize_problem,
)
