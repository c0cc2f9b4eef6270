"""image-classification: the published rules of the algorithm based on MXNet.

Hyperparameters: https://docs.aws.amazon.com/sagemaker/latest/dg/IC-Hyperparameter.html (as of
https://github.com/awsdocs/amazon-sagemaker-developer-guide/blob/main/doc_source/IC-Hyperparameter.md). Channels and
instances: https://docs.aws.amazon.com/sagemaker/latest/dg/image-classification.html.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.algorithms import images
from traingrid.algorithms.algorithm import GPU_FAMILIES, Algorithm, BrokenRule, Use, missing
from traingrid.algorithms.hyperparameter import one_of
from traingrid.algorithms.images import RECORDIO, choice, fraction, positive, text

if TYPE_CHECKING:
    from collections.abc import Iterator

_PRETRAINED_LAYERS = ("18", "34", "50", "101", "152", "200")
_LAYERS = (*_PRETRAINED_LAYERS, "20", "32", "44", "56", "110")
_PRETRAINED_SHAPE = [3, 224, 224]
_DEFAULT_EPOCHS = 30


def _pretrained(use: Use) -> Iterator[BrokenRule]:
    """A pretrained network exists only with certain numbers of layers and one image size."""
    values = use.hyperparameters
    if values.get("use_pretrained_model") != "1":
        return
    if values.get("num_layers", "152") not in _PRETRAINED_LAYERS:
        step = f"Write {one_of(_PRETRAINED_LAYERS)}, or use_pretrained_model 0."
        reason = "there is no pretrained network with this number of layers"
        yield _violation("num_layers", values["num_layers"], reason, step)
    shape = values.get("image_shape", "3,224,224")
    if [int(part) for part in shape.split(",")] != _PRETRAINED_SHAPE:
        step = "Write 3,224,224, or use_pretrained_model 0."
        yield _violation("image_shape", shape, "pretrained networks have a fixed image size", step)


def _checkpoints(use: Use) -> Iterator[BrokenRule]:
    hyperparameters = use.hyperparameters
    epochs = int(hyperparameters.get("epochs", _DEFAULT_EPOCHS))
    if int(hyperparameters.get("checkpoint_frequency", 1)) > epochs:
        step = f"Write a whole number of at most {epochs}."
        value = hyperparameters["checkpoint_frequency"]
        yield _violation("checkpoint_frequency", value, f"must not exceed epochs, which is {epochs}", step)


def _resize(use: Use) -> Iterator[BrokenRule]:
    """Images need `resize`, which must be larger than the network's input in both dimensions."""
    values, mime = use.hyperparameters, use.channels["train"].mime
    if mime != RECORDIO and "resize" not in values:
        yield missing("resize", f"the content_type {mime} requires it", "a whole number of at least 1")
    larger = max(int(part) for part in values.get("image_shape", "3,224,224").split(",")[1:])
    if "resize" in values and int(values["resize"]) < larger:
        step = f"Write a whole number of at least {larger}."
        yield _violation(
            "resize", values["resize"], "must not be smaller than the height or width of image_shape", step
        )


def _violation(name: str, value: str, reason: str, step: str) -> BrokenRule:
    return BrokenRule(field="hyperparameters", entry=name, value=value, reason=reason, next_step=step)


IMAGE_CLASSIFICATION = Algorithm(
    name="image-classification",
    source="https://docs.aws.amazon.com/sagemaker/latest/dg/IC-Hyperparameter.html",
    hyperparameters=(
        *images.SHARED,
        choice("augmentation_type", "crop", "crop_color", "crop_color_transform"),
        fraction("beta_1"),
        fraction("beta_2"),
        positive("checkpoint_frequency"),
        fraction("eps"),
        fraction("gamma"),
        text("image_shape", r"\d+\s*,\s*[1-9]\d*\s*,\s*[1-9]\d*", '"3,224,224" (channels, height, width)'),
        fraction("learning_rate"),
        fraction("lr_scheduler_factor"),
        fraction("momentum"),
        choice("multi_label", *images.FLAG),
        choice("num_layers", *_LAYERS),
        choice("optimizer", "sgd", "adam", "rmsprop", "nag"),
        choice("precision_dtype", "float32", "float16"),
        positive("resize"),
        positive("top_k", least=2),
        choice("use_weighted_loss", *images.FLAG),
        fraction("weight_decay"),
    ),
    channels=images.image_channels("lst"),
    instance_families=GPU_FAMILIES,
    rules=(images.one_format("lst"), images.replicated_pipes, _pretrained, _checkpoints, _resize),
)
