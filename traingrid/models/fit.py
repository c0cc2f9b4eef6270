"""Model fit: whether a line can begin with the model of a job, as far as the two lines show it.

A script loads any model that its author intends, so only lines of the same built-in algorithm, and of the training
image's own trainer, are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid import names
from traingrid.algorithms.trainer_config import Config, framework_of
from traingrid.manifest.line import hyperparameters, is_algorithm, uses_own_trainer
from traingrid.manifest.problem import RefusedError
from traingrid.text import canonical

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traingrid.grid.deployment import Deployment
    from traingrid.job.job import Job
    from traingrid.manifest.line import Line

_NETWORK = {
    "image-classification": ("num_layers", "image_shape", "num_classes"),
    "object-detection": ("base_network", "num_classes"),
}
"""The hyperparameters that define the network, which must not change
(https://docs.aws.amazon.com/sagemaker/latest/dg/image-classification.html and object-detection.html, "Incremental
Training")."""
NEW_HEAD = "new_head"
"""The trainer's hyperparameter that begins with a new last layer."""
_AVERAGE = "average"
"""The method of merges whose result is one network (docs/merge.md)."""
_DEFAULTS = {
    "model": Config.model,
    "classes": str(Config.classes),
    "num_layers": "152",
    "image_shape": "3,224,224",
    "base_network": "vgg-16",
}
"""The defaults of these hyperparameters: of the trainer, and on the pages of the algorithms' hyperparameters
(https://docs.aws.amazon.com/sagemaker/latest/dg/IC-Hyperparameter.html and
object-detection-api-config.html)."""


def unfit(line: Line, trained: Job, deployment: Deployment) -> Iterator[RefusedError]:
    """Yield the reasons why a line cannot begin with the model of a job.

    Args:
        line: The line, whose fields are valid.
        trained: The job that trained the model, as it was submitted last.
    """
    grid = deployment.grid
    mine = hyperparameters(line.settings, grid)
    if is_algorithm(line.settings, grid):
        yield from _algorithm(line, mine, trained, deployment)
    elif uses_own_trainer(line.settings, grid):
        yield from _trainer(mine, trained, framework_of(line.settings.applied_to(grid.job).launcher))


def _algorithm(line: Line, mine: Mapping[str, str], trained: Job, deployment: Deployment) -> Iterator[RefusedError]:
    alias = line.settings.image or deployment.grid.job.image
    image_or_algorithm = line.settings.algorithm or deployment.image_uri(alias, line.region)
    if not trained.is_algorithm or _program(image_or_algorithm) != _program(trained.algorithm or trained.image):
        reason = (
            "the model was trained by another program, and an algorithm only begins with a model that it has trained"
        )
        yield RefusedError(reason, "Name a job of the same algorithm.")
        return
    step = "Write the same value: these hyperparameters define the network"
    yield from _changed_values(_NETWORK.get(_program(image_or_algorithm), ()), mine, trained, step)


def _trainer(mine: Mapping[str, str], trained: Job, framework: str) -> Iterator[RefusedError]:
    if trained.source or not trained.tensorboard:
        reason = "the model was not trained by the training image's own trainer, which this line uses"
        yield RefusedError(reason, "Name a job of that trainer, or load the model in a script.")
        return
    if (origin := framework_of(trained.launcher)) != framework:
        reason = f"the model was trained with {origin}, and this line's program is the trainer for {framework}"
        yield RefusedError(reason, f"Name a job of the trainer for {framework}, or load the model in a script.")
        return
    if trained.hyperparameters.get(names.IMAGE_PROGRAM) == names.MERGE_PROGRAM:
        method = trained.hyperparameters.get(names.MERGE_METHOD, "")
        if method != _AVERAGE:
            reason = f"the model is a merge with the method {method}, and this line's program begins with one network"
            yield RefusedError(reason, f"Name a merge with the method {_AVERAGE}, or one of the merged jobs.")
            return
    new_head = mine.get(NEW_HEAD, "").lower() == "true"
    if new_head:
        yield from _changed_values(("model",), mine, trained, "Write the same value")
    else:
        step = f"Write the same value, or for other classes {NEW_HEAD} true"
        yield from _changed_values(("model", "classes"), mine, trained, step)


def _changed_values(names: tuple[str, ...], mine: Mapping[str, str], trained: Job, step: str) -> Iterator[RefusedError]:
    for name in names:
        old = _value(name, trained.hyperparameters)
        new = _value(name, mine)
        if old != new:
            reason = f"the hyperparameter {name} is {new}, and the model was trained with {old}"
            yield RefusedError(reason, f"{step}.")


def _program(image_or_algorithm: str) -> str:
    """Return the name of an algorithm without registry or account, which depend on the Region, and without tag."""
    return image_or_algorithm.rpartition("/")[2].partition("@")[0].partition(":")[0]


def _value(name: str, hyperparameters: Mapping[str, str]) -> str:
    """Return the value of a hyperparameter without blanks, or its default."""
    return canonical(hyperparameters.get(name, _DEFAULTS.get(name, "")).replace(" ", ""))
