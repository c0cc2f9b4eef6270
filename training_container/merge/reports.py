"""Reports: the facts about each model in its report.json, and the checks that models can be merged. No TensorFlow."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from training_container import outside_json
from training_container.merge.options import Counting
from training_container.merge.parts import MergeError, MergePart
from training_container.recipe.config import Config

_SHAPE = ("model", "classes", "image_size")
"""The hyperparameters that determine the shapes of the weights."""
_OUTPUT = ("classes", "first_label", "image_size")
"""The hyperparameters that networks with a common input and output share."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network that the image's trainer has exported.

    Attributes:
        config: The hyperparameters with which it was trained.
        class_names: The names of its classes; empty if the training records had only numbers.
        initial_weights: The digest of the weights with which its training began; empty if it is not recorded.
        records: The number of its training records; 0 if it is not recorded.
    """

    part: MergePart
    config: Config
    class_names: tuple[str, ...] = ()
    initial_weights: str = ""
    records: int = 0

    def __str__(self) -> str:
        return str(self.part)

    @classmethod
    def read(cls, part: MergePart) -> Self:
        """Read the report of a model.

        Raises:
            MergeError: There is none, or it is not that of a single network.
        """
        report = _report(part)
        if report.get("merge_method") == "ensemble":
            raise MergeError(f"The model of {part} is an ensemble. Merge its members instead.")
        names = {entry.name for entry in dataclasses.fields(Config)}
        config = Config(**{name: value for name, value in report.items() if name in names})
        return cls(
            part=part,
            config=config,
            class_names=tuple(report.get("class_names") or ()),
            initial_weights=str(report.get("initial_weights") or ""),
            records=int(report.get("training_images") or 0),
        )


def _report(part: MergePart) -> Mapping[str, Any]:
    try:
        report = outside_json.loads((part.folder / "report.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        report = None
    if not isinstance(report, dict) or "model" not in report:
        raise MergeError(
            f"The model of {part} has no report.json of the image's trainer, so that only its files can be joined: use "
            "the method parts."
        )
    return report


def check_average(networks: Sequence[Network]) -> None:
    """Check that the weights of networks can be averaged.

    Averages work for networks that were trained further from one trained network (Wortsman et al. 2022,
    arXiv:2203.05482). The loss is high between networks that began with different weights.

    Raises:
        MergeError: The networks differ in shape or classes, or did not start from the same weights.
    """
    _check_equal(networks, _SHAPE, "models of different shapes cannot be averaged")
    check_ensemble(networks)
    first_network = networks[0]
    for network in networks:
        if not network.initial_weights:
            raise MergeError(
                f"The model of {network} does not record its initial weights, because an earlier version of the "
                "training image trained it. Train it again, or use the method ensemble."
            )
        if network.initial_weights != first_network.initial_weights:
            raise MergeError(
                f"The training of {network} did not start from the same weights as that of {first_network}, so that "
                "their weights cannot be averaged. Start both from a common model, or use the method ensemble."
            )


def counts_of(networks: Sequence[Network], weight_by: Counting) -> list[int]:
    """Return the weight of each network in an average.

    Raises:
        MergeError: A model does not record the number of its training records.
    """
    if weight_by == "models":
        return [1 for _ in networks]
    for network in networks:
        if network.records <= 0:
            raise MergeError(
                f"The model of {network} does not record its number of training records, because it read a stream "
                "without counting it. Read its data in File or FastFile mode, or weight all models equally."
            )
    return [network.records for network in networks]


def check_ensemble(networks: Sequence[Network]) -> None:
    """Check that networks have the same classes and take the same images.

    Raises:
        MergeError: They differ.
    """
    _check_equal(networks, _OUTPUT, "a merged network has one input and one list of classes")
    first_network = networks[0]
    for network in networks:
        if network.class_names != first_network.class_names:
            raise MergeError(
                f"The classes of {network} have other names than those of {first_network}. Train on the same classes."
            )
        if _crops(network.config) != _crops(first_network.config):
            raise MergeError(
                f"The hyperparameters augmentation and cache of {network} and {first_network} crop images in different "
                "ways. Train with the same ones."
            )


def _crops(config: Config) -> bool:
    """Return True if validation uses the middle part of images, as data/augment.py decides it."""
    return config.augmentation == "crop_and_flip" and not config.cache


def _check_equal(networks: Sequence[Network], names: Sequence[str], rule: str) -> None:
    first_network = networks[0]
    for network in networks:
        for name in names:
            value, expected = getattr(network.config, name), getattr(first_network.config, name)
            if value != expected:
                text = f"The hyperparameter {name} of {network} is {value}, that of {first_network} {expected}"
                raise MergeError(f"{text}; {rule}.")
