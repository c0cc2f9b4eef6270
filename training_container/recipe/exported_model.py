"""Exported model: the report of the model with which a training begins, and the checks that it can (`init_from`)."""

from pathlib import Path
from typing import Any

from training_container import outside_json
from training_container.recipe.config import TENSORFLOW, Config


class InitialModelError(RuntimeError):
    """The initial model cannot be used by this training."""


def report_of(folder: Path) -> dict[str, Any]:
    """Return the content of the report that `artifacts.export` wrote beside the model.

    Raises:
        InitialModelError: It is missing or no report.
    """
    try:
        return dict(outside_json.loads((folder / "report.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        content = ", ".join(sorted(path.name for path in folder.iterdir())[:10]) or "nothing"
        raise InitialModelError(
            f"The initial model was not exported by this trainer: its archive has no report.json that can be read, but "
            f"{content}. Set init_from to a job of this trainer, or load the model in a script."
        ) from error


def origin_of(report: dict[str, Any]) -> str:
    """Return the origin of a model: the epoch of a training, or the number of models of an average."""
    parts = report.get("merged_from")
    return f"the average of {len(parts)} models" if parts else f"of epoch {report.get('exported_epoch')}"


def check_network(report: dict[str, Any], config: Config, framework: str) -> None:
    """Check that a training can begin with the weights of a model.

    Args:
        report: The model's report; that of an earlier image does not name TensorFlow.

    Raises:
        InitialModelError: The model is of another framework or network, or of several networks.
    """
    if (origin := report.get("framework", TENSORFLOW)) != framework:
        raise InitialModelError(
            f"The initial model was trained with {origin}, but this image has the trainer for {framework}, which "
            f"cannot read it. Set init_from to a job of the same image, or use an image with the trainer for {origin}."
        )
    if report.get("merge_method", "average") != "average":  # merge/merge.py writes it
        raise InitialModelError(
            f"The initial model is a merge with the method {report['merge_method']}, but a training begins with the "
            "weights of one network. Set init_from to a merge with the method average, or to one of the merged jobs."
        )
    if report.get("model") != config.model:
        raise InitialModelError(
            f"The initial model is a {report.get('model')}, but the hyperparameter model is {config.model}. Set it to "
            f"{report.get('model')}."
        )
    if report.get("classes") != config.classes and not config.new_head:
        raise InitialModelError(
            f"The initial model has {report.get('classes')} classes, but the hyperparameter classes is "
            f"{config.classes}. Set it to {report.get('classes')}, or set new_head to true to begin with a new last "
            "layer."
        )
