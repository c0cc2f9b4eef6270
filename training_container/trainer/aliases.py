"""Aliases: accepts the flag names of the original ResNet-50 recipe, as hyperparameters and on the command line.

    train --num_epochs 90 --b 256 --lr_decay_mode poly --warmup_epochs 10 --data_dir FOLDER --clear_log true

Source: train_imagenet_resnet_hvd.py of AWS's deep-learning-models, whose users know these names. This module does not
import TensorFlow.
"""

from collections.abc import Iterator, Mapping, Sequence

from training_container.trainer.config_fields import HyperparameterError

NAMES = {"num_epochs": "epochs", "b": "batch_size", "lr_decay_mode": "lr_schedule"}
VALUES = {("lr_schedule", "poly"): "polynomial"}


def resolved(texts: Mapping[str, str]) -> dict[str, str]:
    """Return hyperparameters with aliases replaced by the trainer's own names and values.

    Args:
        texts: Each hyperparameter's value as text, by name or alias.

    Raises:
        HyperparameterError: A hyperparameter is given under two names with different values.
    """
    values: dict[str, str] = {}
    given_as: dict[str, str] = {}
    for given, text in texts.items():
        name = NAMES.get(given, given)
        value = VALUES.get((name, text.strip()), text.strip())
        if values.get(name, value) != value:
            raise HyperparameterError(
                f"Hyperparameter {name!r} is given twice: {given_as[name]} is {texts[given_as[name]]!r} and {given} is "
                f"{text!r}. Remove one of them."
            )
        values[name], given_as[name] = value, given
    return values


def from_flags(arguments: Sequence[str]) -> dict[str, str]:
    """Return hyperparameters from a command line: `--name value`, `--name=value`, or `--name` alone for true.

    Args:
        arguments: The arguments after the program's name. Aliases are not replaced; Config does that.

    Raises:
        HyperparameterError: An argument is not a flag, or a flag is repeated.
    """
    texts: dict[str, str] = {}
    for name, value in _pairs(arguments):
        if name in texts:
            raise HyperparameterError(f"Flag --{name} is repeated on the command line. Remove one of them.")
        texts[name] = value
    return texts


def _pairs(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    rest = list(arguments)
    while rest:
        flag = rest.pop(0)
        name, equals, value = flag.lstrip("-").partition("=")
        if not flag.startswith("-") or not name:
            raise HyperparameterError(
                f"Argument {flag!r} is not a flag. Pass hyperparameters as --name value, for example --epochs 90."
            )
        if not equals:
            value = "true" if not rest or rest[0].startswith("--") else rest.pop(0)
        yield name.replace("-", "_"), value
