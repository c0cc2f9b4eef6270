"""The pause of a checkpoint of ResNet-50 with momentum (205 MB): written by the caller, and by a thread.

A round is one save of each, in alternating order, after a step has changed all variables.
"""

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench.size import size

ROUNDS = size(8, 1)


def checkpoints(rounds: int = ROUNDS) -> dict[str, Any]:
    """Return the seconds of each save, of the step after it, of the checks before it, and of the thread.

    The first save with a thread, which collects the variables, is not a round.
    """
    import tensorflow as tf  # noqa: PLC0415  # the other measurements do not use it in this process

    from training_container.trainer.checkpoints.checkpoints import Checkpoints, Progress  # noqa: PLC0415  # as above
    from training_container.trainer.validation import are_finite  # noqa: PLC0415  # as above

    model = tf.keras.applications.ResNet50(weights=None)
    optimizer = tf.keras.optimizers.SGD(1e-9, momentum=0.9)
    optimizer.build(model.trainable_variables)
    gradients = [tf.ones_like(variable) for variable in model.trainable_variables]
    update = tf.function(lambda: optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True)))
    seconds: dict[str, list[float]] = {
        f"{part}_{writer}": [] for part in ("save", "step", "write") for writer in ("caller", "thread")
    }
    with tempfile.TemporaryDirectory(prefix="traingrid-checkpoints-") as folder:
        saved = {
            name: Checkpoints(Path(folder) / name, asynchronous=name == "thread", model=model, optimizer=optimizer)
            for name in ("caller", "thread")
        }
        for number in range(-1, rounds):
            for writer in list(saved)[:: 1 if number % 2 else -1]:
                update()
                parts = {
                    "save": elapsed(partial(saved[writer].save, Progress(step=number + 1))),
                    "step": elapsed(update),
                    "write": elapsed(saved[writer].finish),
                }
                for part, value in parts.items():
                    seconds[f"{part}_{writer}"] += [value] * (number >= 0)
    finite = [elapsed(lambda: are_finite(model.variables)) for _ in range(rounds)]
    ratios = [thread / caller for thread, caller in zip(seconds["save_thread"], seconds["save_caller"], strict=True)]
    rows = {**seconds, "check_of_weights": finite, "save_thread_to_caller": ratios}
    return {name: {"rounds": values} for name, values in rows.items()}


def elapsed(run: Callable[[], object]) -> float:
    """Return the seconds that a function takes."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began
