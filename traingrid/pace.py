"""The pace of one child among many: how often it reads its training job's log and describes its training job.

AWS counts the calls of an account and Region together, and a child cannot see the others. It knows how many of its
array may run at once, so it takes an equal share, as if all of them trained in its own Region.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from traingrid.grid_orchestrator import Orchestrator

LOG_READS_PER_SECOND = 10.0
"""Calls of GetLogEvents per second for an account in the slowest Regions, e.g. eu-west-1; the quota is not adjustable
(https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/cloudwatch_limits_cwl.html)."""

_SHARE_OF_FOLLOWING = 0.4
# Half of the quota is left for other readers; the rest of our half is for logs that are read to their end.
_SHORTEST_LOG_LOOK = 10.0

DESCRIBES_PER_SECOND = 10.0
"""Calls of DescribeTrainingJob per second that the children of an array may make together. AWS publishes no figure; for
ListTrainingJobs 2 a second were reported (https://github.com/aws-solutions/deepracer-on-aws/issues/87)."""

# Between two DescribeTrainingJob of a child. Events bring every change to the ledger within seconds, so asking is only
# for an event that was lost.
_SHORTEST_DESCRIBE, _LONGEST_DESCRIBE, _DESCRIBE_PER_AGE = 5.0, 600.0, 1 / 4


@dataclass(frozen=True, kw_only=True)
class Pace:
    """The pace of one child.

    Attributes:
        children: How many children may run at once with it, itself included.
    """

    children: int = 1

    @classmethod
    def of_array(cls, size: int, orchestrator: Orchestrator) -> Self:
        """Return the pace of a child of an array of `size` children."""
        return cls(children=max(1, min(size, int(orchestrator.max_vcpus / orchestrator.vcpu))))

    def log_seconds(self, hosts: int) -> float:
        """Return the seconds between two looks at the log of a training job with so many hosts."""
        share = LOG_READS_PER_SECOND * _SHARE_OF_FOLLOWING / self.children
        return max(_SHORTEST_LOG_LOOK, hosts / share)

    def describe_seconds(self, age: float) -> float:
        """Return the seconds until the next DescribeTrainingJob for a job that was watched for `age` seconds."""
        shortest = max(_SHORTEST_DESCRIBE, 2 * self.children / DESCRIBES_PER_SECOND)
        return max(shortest, min(age * _DESCRIBE_PER_AGE, _LONGEST_DESCRIBE))

    def first_log_look(self, hosts: int) -> float:
        """Return the seconds until the first look: by chance within an interval, so that looks do not come at once."""
        return random.uniform(0.0, self.log_seconds(hosts)) if self.children > 1 else 0.0  # noqa: S311 # no secret


def spread(seconds: float) -> float:
    """Return a duration that differs by chance by up to a fifth, and is the same on average."""
    return seconds * random.uniform(0.8, 1.2)  # noqa: S311  # no secret depends on it
