"""Image algorithms: the rules that image-classification and object-detection share.

Sources: https://docs.aws.amazon.com/sagemaker/latest/dg/image-classification.html#IC-inputoutput and
https://docs.aws.amazon.com/sagemaker/latest/dg/object-detection.html#object-detection-inputoutput.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.algorithms.algorithm import MODEL, BrokenRule, ChannelRule, Use
from traingrid.algorithms.hyperparameter import Hyperparameter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RECORDIO = "application/x-recordio"
IMAGES = ("image/png", "image/jpeg", "application/x-image")
FLAG = ("0", "1")
SWITCH = ("True", "False")
"""The values of `early_stopping`, with a capital letter as the pages write them."""


def positive(name: str, *, required: bool = False, least: int = 1) -> Hyperparameter:
    """Return a whole number of at least 1, or of at least `least`."""
    return Hyperparameter(name=name, kind="integer", required=required, least=least)


def fraction(name: str, *excludes: str) -> Hyperparameter:
    """Return a number from 0 to 1."""
    ends = tuple(end for end in ("least", "greatest") if end in excludes)
    return Hyperparameter(name=name, kind="number", least=0, greatest=1, excludes=ends)


def choice(name: str, *choices: str) -> Hyperparameter:
    """Return a hyperparameter with a list of values."""
    return Hyperparameter(name=name, kind="choice", choices=choices)


def text(name: str, form: str = "", example: str = "") -> Hyperparameter:
    """Return a hyperparameter with a text of a form."""
    return Hyperparameter(name=name, kind="text", form=form, example=example)


EPOCHS = text("lr_scheduler_step", r"\d+(\s*,\s*\d+)*", '"10,20"')
SHARED = (
    positive("num_classes", required=True),
    positive("num_training_samples", required=True),
    choice("early_stopping", *SWITCH),
    positive("early_stopping_min_epochs"),
    positive("early_stopping_patience"),
    fraction("early_stopping_tolerance"),
    positive("epochs"),
    choice("kv_store", "dist_sync", "dist_async"),
    positive("mini_batch_size"),
    choice("use_pretrained_model", *FLAG),
    EPOCHS,
)
"""The hyperparameters with the same rule on both pages."""


def image_channels(labels: str) -> dict[str, ChannelRule]:
    """Return the channels of an algorithm whose image format has labels in a channel named `{train,validation}_labels`.

    Args:
        labels: The ending of these channels: "lst" or "annotation".
    """
    data = {"File": (RECORDIO, *IMAGES), "Pipe": (RECORDIO,)}
    return {
        "train": ChannelRule(required=True, content_types=data),
        "validation": ChannelRule(required=True, content_types=data),
        f"train_{labels}": ChannelRule(content_types={"File": IMAGES}),
        f"validation_{labels}": ChannelRule(content_types={"File": IMAGES}),
        "model": ChannelRule(content_types={"File": (MODEL,)}),
    }


def one_format(labels: str) -> Callable[[Use], Iterator[BrokenRule]]:
    """Return the rule that all channels have the same format, and that the image format has its label channels."""
    ending = f"_{labels}"

    def rule(use: Use) -> Iterator[BrokenRule]:
        train, validation = (use.channels[name].mime for name in ("train", "validation"))
        if (train == RECORDIO) != (validation == RECORDIO):
            reason = f"its format differs from that of the channel train, {train}"
            step = f"Write content_type {RECORDIO} for both channels, or an image type for both."
            yield BrokenRule(field="inputs", entry="validation", value=validation, reason=reason, next_step=step)
        for name in (f"train{ending}", f"validation{ending}"):
            if train != RECORDIO and name not in use.channels:
                reason = f"the content_type {train} requires the channel {name}"
                yield BrokenRule(field="inputs", reason=reason, next_step=f"Add {name}, or write {RECORDIO}.")
            if train == RECORDIO and name in use.channels:
                reason = f"RecordIO contains the labels, so there is no channel {name}"
                yield BrokenRule(field="inputs", entry=name, reason=reason, next_step="Remove this channel.")

    return rule


def replicated_pipes(use: Use) -> Iterator[BrokenRule]:
    """Yield the channels of RecordIO that are streamed and sharded, because the algorithm shards the stream itself.

    "When using the RecordIO content type in pipe mode, you must set the S3DataDistributionType of the S3DataSource to
    FullyReplicated" (https://docs.aws.amazon.com/sagemaker/latest/dg/image-classification.html#IC-inputoutput).
    """
    for name, channel in use.channels.items():
        if channel.input_mode == "Pipe" and channel.distribution != "FullyReplicated":
            reason = "the algorithm shards a stream of RecordIO between the instances itself"
            step = "Write distribution FullyReplicated for this channel."
            yield BrokenRule(field="inputs", entry=name, value=channel.distribution, reason=reason, next_step=step)
