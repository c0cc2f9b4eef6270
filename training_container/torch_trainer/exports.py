"""Exports: the trained network with a report, and the network of an earlier training with which a training begins."""

import copy
import json
from collections.abc import Mapping
from pathlib import Path

import torch

from training_container.contract.training_job import Folders
from training_container.recipe.config import TORCH, Config
from training_container.recipe.exported_model import InitialModelError, check_network, origin_of, report_of
from training_container.script_api import initial_model
from training_container.torch_trainer.networks import Classifier, head_of

WEIGHTS, PROGRAM = "model.pt", "model.pt2"


class Servable(torch.nn.Module):
    """The exported program: images [batch, 3, size, size] in 0..255 to probabilities, and classes from first_label."""

    def __init__(self, network: Classifier, first_label: int) -> None:
        super().__init__()
        self.network, self._first_label = network, first_label

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return probabilities [batch, classes] and classes [batch]."""
        probabilities = self.network(images).softmax(-1)
        return probabilities, probabilities.argmax(-1) + self._first_label


def export(network: Classifier, config: Config, folder: Path, report: Mapping[str, object]) -> None:
    """Write the weights, a state dict of the plain network, and the program that torch.export.load reads."""
    servable = Servable(copy.deepcopy(network).cpu().eval(), config.first_label)
    torch.save(servable.network.network.state_dict(), folder / WEIGHTS)
    images = torch.zeros(2, 3, config.image_size, config.image_size)
    program = torch.export.export(servable, (images,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.export.save(program, folder / PROGRAM)
    (folder / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def begin_with_initial_model(network: Classifier, config: Config, folders: Folders) -> str:
    """Load the weights of the initial model, and return a message about it; empty if the job has none.

    Args:
        network: The network. With `new_head`, its last layer keeps its random weights.

    Raises:
        InitialModelError: The model is of another network, or was not exported by this trainer.
        ContractError: The archive cannot be read.
    """
    folder = initial_model.folder(folders)
    if folder is None:
        return ""
    report = report_of(folder)
    check_network(report, config, TORCH)
    weights = torch.load(folder / WEIGHTS, map_location="cpu", weights_only=True)
    if config.new_head:
        weights |= {name: value for name, value in network.network.state_dict().items() if _is_of_head(name, network)}
    try:
        network.network.load_state_dict(weights)
    except RuntimeError as error:
        raise InitialModelError(
            f"The initial model's {WEIGHTS} does not match its report.json: {str(error).splitlines()[-1].strip()}"
        ) from error
    suffix = ", with a new last layer" if config.new_head else ""
    return f"Beginning with the weights of the initial model, {origin_of(report)}{suffix}."


def _is_of_head(name: str, network: Classifier) -> bool:
    return name.startswith(f"{head_of(network.network)}.")
