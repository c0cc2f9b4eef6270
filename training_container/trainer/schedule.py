"""The learning rate of every step. Imports no TensorFlow."""

import math

from training_container.trainer.config import Config


def learning_rate(config: Config, ranks: int, epoch: float) -> float:
    """Return the rate at a moment of training: linear warm-up to `ranks` times one rank's rate, then down to zero.

    Args:
        config: its learning_rate is that of one rank.
        ranks: how many ranks share a step; the global batch grows with them, and so does the rate.
        epoch: epochs done so far, as a fraction; see `epochs_done`.

    Source: Goyal et al. 2017 (arXiv:1706.02677), sections 2.1 and 2.2: scale linearly, start from one rank's rate.
    """
    peak = config.learning_rate * ranks
    warmup = config.warmup_epochs
    if epoch < warmup:
        return config.learning_rate + (peak - config.learning_rate) * epoch / warmup
    progress = min((epoch - warmup) / max(config.epochs - warmup, 1e-9), 1.0)
    if config.lr_schedule == "cosine":
        return peak * 0.5 * (1.0 + math.cos(math.pi * progress))
    return float(peak * (1.0 - progress) ** config.lr_power)


def epochs_done(epoch: int, step: int, steps_per_epoch: int | None) -> float:
    """Return how far training is, in epochs.

    Args:
        epoch: whole epochs done.
        step: steps done of the present one.
        steps_per_epoch: None in the first epoch of a stream, whose length nobody knows: the rate then stays where the
            epoch began, rather than at a guess.
    """
    return epoch + (min(step / steps_per_epoch, 1.0) if steps_per_epoch else 0.0)
