"""Stall limit: how long ranks wait for another one before they fail."""

from training_container.contract.training_job import TrainingJob
from training_container.recipe.config import Config

# A rank whose wait for a stream times out must have time to report it.
_MARGIN_SECONDS = 60.0


def stall_limit(job: TrainingJob, config: Config) -> float:
    """Return the seconds that ranks wait in a collective for another rank; 0 for no limit.

    By default, the limit exceeds pipe_timeout_seconds if a channel is a stream: a rank may wait that long for its
    stream, and the others wait for the rank.
    """
    if job.has_streams and "stall_seconds" not in job.hyperparameters:
        return max(config.stall_seconds, config.pipe_timeout_seconds + _MARGIN_SECONDS)
    return config.stall_seconds
