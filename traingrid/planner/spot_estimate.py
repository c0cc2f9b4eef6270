"""Spot estimate: the price at which a job with a deadline trains, partly on spot instances and partly on demand.

`traingrid.job.spot_decision` keeps a job on spot instances as long as its deadline allows. `make bench-spot` measures
the cost of that, from which the share of the training on spot instances follows, with all restarts.
"""

import numpy as np
from numpy.typing import NDArray

from traingrid.job.spot_decision import LOOK_SECONDS, RESTART_SECONDS

RESERVED_HOURS = 2 * (RESTART_SECONDS + LOOK_SECONDS) / 3600
"""The hours that a job needs beyond its training before it may start on spot instances."""
RATIOS = (1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
"""Deadlines, as multiples of the duration."""
SHARES = (0.0, 0.64, 0.83, 0.9, 0.96, 0.97, 0.98, 0.98)
"""The share of the training on spot instances for each of these deadlines, of a job of 48 hours in one Region
(bench/results/spot.json). It is not that of SageMaker's pools, which is not public."""


def spot_shares(hours: NDArray[np.float64], time: NDArray[np.float64], redone: float) -> NDArray[np.float64]:
    """Return the shares of trainings that are expected on spot instances; 0 if one may not start there.

    Args:
        hours: The durations; infinite for a training that is not possible.
        time: The hours until the deadlines.
        redone: The part of a duration that an interruption can undo.
    """
    with np.errstate(invalid="ignore"):
        left = time - redone * hours
        may_start = left >= hours + RESERVED_HOURS
        return np.where(may_start, np.interp(left / hours, RATIOS, SHARES), 0.0)


def spot_share(hours: float, time: float, redone: float) -> float:
    """Return the share of one training; see `spot_shares`."""
    return float(spot_shares(np.array([hours]), np.array([time]), redone)[0])


def blended(share: float, spot_dollars: float, on_demand_dollars: float) -> float:
    """Return the price of an hour of which a share is on spot instances; without a price on demand, that of spot."""
    return share * spot_dollars + (1 - share) * (on_demand_dollars or spot_dollars)
