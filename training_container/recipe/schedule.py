"""Schedule: the learning rate of every step."""

import math

from training_container.recipe.config import Config


def learning_rate(config: Config, ranks: int, epoch: float) -> float:
    """Return the learning rate: linear warm-up to `ranks` times one rank's rate, then decay to zero.

    Args:
        ranks: The number of ranks. The global batch grows with it, and so does the rate.
        epoch: The completed epochs, as a fraction; see `epochs_done`.

    Source: Goyal et al. 2017 (arXiv:1706.02677), sections 2.1 and 2.2: linear scaling, warm-up from one rank's rate.
    """
    initial = config.rate_of_one_rank
    peak = initial * ranks
    warmup = config.warmup_epochs
    if epoch < warmup:
        return initial + (peak - initial) * epoch / warmup
    progress = min((epoch - warmup) / max(config.epochs - warmup, 1e-9), 1.0)
    if config.lr_schedule == "cosine":
        return peak * 0.5 * (1.0 + math.cos(math.pi * progress))
    return float(peak * (1.0 - progress) ** config.lr_power)


def epochs_done(epoch: int, step: int, steps_per_epoch: int | None) -> float:
    """Return the completed epochs, as a fraction.

    Args:
        epoch: Completed epochs.
        step: Completed steps of the current one.
        steps_per_epoch: Steps in an epoch. It is None in the first epoch of a stream, whose length is unknown: then the
            rate stays constant during the epoch, instead of being guessed.
    """
    return epoch + (min(step / steps_per_epoch, 1.0) if steps_per_epoch else 0.0)
