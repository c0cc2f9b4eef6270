"""Image algorithms: the channels of image-classification and object-detection, and rules of more than one value.

Sources: https://docs.aws.amazon.com/sagemaker/latest/dg/image-classification.html#IC-inputoutput and
https://docs.aws.amazon.com/sagemaker/latest/dg/object-detection.html#object-detection-inputoutput.
"""

from collections.abc import Iterator

from traingrid.algorithms.algorithm import MODEL, BrokenRule, ChannelRule, Use, invalid, missing
from traingrid.algorithms.hyperparameter import one_of

RECORDIO = "application/x-recordio"
IMAGES = ("image/png", "image/jpeg", "application/x-image")
GPU_FAMILIES = ("p2", "p3", "p3dn", "g4dn", "g5")
"""The GPU instance families of both pages: "P2, P3, G4dn, and G5 instances"
(https://docs.aws.amazon.com/sagemaker/latest/dg/image-classification.html#IC-instances). p3dn counts as P3."""

_PRETRAINED_LAYERS = ("18", "34", "50", "101", "152", "200")
_DEFAULT_EPOCHS = 30


def channels(labels: str) -> dict[str, ChannelRule]:
    """Return the channels of an algorithm whose image format has labels in a channel named `{train,validation}_labels`.

    Args:
        labels: The ending of these channels: "lst" or "annotation".
    """
    data = {"File": (RECORDIO, *IMAGES), "Pipe": (RECORDIO,)}
    image = ChannelRule(content_types={"File": IMAGES})
    required = ChannelRule(required=True, content_types=data)
    return {
        **dict.fromkeys(("train", "validation"), required),
        **dict.fromkeys((f"train_{labels}", f"validation_{labels}"), image),
        "model": ChannelRule(content_types={"File": (MODEL,)}),
    }


def one_format(use: Use, labels: str) -> Iterator[BrokenRule]:
    """Yield the channels with another format than the channel train, and those that its format misses or excludes."""
    train = use.channels["train"].mime
    validation = use.channels["validation"].mime
    if (train == RECORDIO) != (validation == RECORDIO):
        reason = f"its format differs from that of the channel train, {train}"
        step = f"Write content_type {RECORDIO} for both channels, or an image type for both."
        yield BrokenRule(field="inputs", entry="validation", value=validation, reason=reason, next_step=step)
    for name in (f"train_{labels}", f"validation_{labels}"):
        if train != RECORDIO and name not in use.channels:
            reason = f"the content_type {train} requires the channel {name}"
            yield BrokenRule(field="inputs", reason=reason, next_step=f"Add {name}, or write {RECORDIO}.")
        if train == RECORDIO and name in use.channels:
            reason = f"RecordIO contains the labels, so there is no channel {name}"
            yield BrokenRule(field="inputs", entry=name, reason=reason, next_step="Remove this channel.")


def _replicated_pipes(use: Use) -> Iterator[BrokenRule]:
    """Yield the channels of RecordIO that are streamed and sharded, because the algorithm shards the stream itself.

    "When using the RecordIO content type in pipe mode, you must set the S3DataDistributionType of the S3DataSource to
    FullyReplicated" (https://docs.aws.amazon.com/sagemaker/latest/dg/image-classification.html#IC-inputoutput). The
    page of object-detection has no such rule.
    """
    for name, channel in use.channels.items():
        if channel.input_mode == "Pipe" and channel.distribution != "FullyReplicated":
            reason = "the algorithm shards a stream of RecordIO between the instances itself"
            step = "Write distribution FullyReplicated for this channel."
            yield BrokenRule(field="inputs", entry=name, value=channel.distribution, reason=reason, next_step=step)


def _check_pretrained(use: Use) -> Iterator[BrokenRule]:
    """A pretrained network exists only with certain numbers of layers and one image size."""
    values = use.hyperparameters
    if values.get("use_pretrained_model") != "1":
        return
    if values.get("num_layers", "152") not in _PRETRAINED_LAYERS:
        step = f"Write {one_of(_PRETRAINED_LAYERS)}, or use_pretrained_model 0."
        reason = "there is no pretrained network with this number of layers"
        yield invalid("num_layers", values["num_layers"], reason, step)
    shape = values.get("image_shape", "3,224,224")
    if [int(part) for part in shape.split(",")] != [3, 224, 224]:
        step = "Write 3,224,224, or use_pretrained_model 0."
        yield invalid("image_shape", shape, "pretrained networks have a fixed image size", step)


def _checkpoints(use: Use) -> Iterator[BrokenRule]:
    hyperparameters = use.hyperparameters
    epochs = int(hyperparameters.get("epochs", _DEFAULT_EPOCHS))
    if int(hyperparameters.get("checkpoint_frequency", 1)) > epochs:
        step = f"Write a whole number of at most {epochs}."
        value = hyperparameters["checkpoint_frequency"]
        yield invalid("checkpoint_frequency", value, f"must not exceed epochs, which is {epochs}", step)


def _resize(use: Use) -> Iterator[BrokenRule]:
    """Images need `resize`, which must be larger than the network's input in both dimensions."""
    values, mime = use.hyperparameters, use.channels["train"].mime
    if mime != RECORDIO and "resize" not in values:
        yield missing("resize", f"the content_type {mime} requires it", "a whole number of at least 1")
    longest_side = max(int(part) for part in values.get("image_shape", "3,224,224").split(",")[1:])
    if "resize" in values and int(values["resize"]) < longest_side:
        step = f"Write a whole number of at least {longest_side}."
        yield invalid("resize", values["resize"], "must not be smaller than the height or width of image_shape", step)


CLASSIFICATION_RULES = (_replicated_pipes, _check_pretrained, _checkpoints, _resize)
"""The rules of image-classification alone."""
