"""Polling pace: decides how often a child reads its training job's log and describes its training job.

AWS limits the calls of an account and Region in total, and a child cannot see the other children. It knows how many
children of its array may run at once, so it takes an equal share, as if all of them trained in its Region.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from traingrid.grid.orchestrator import Orchestrator

LOG_READS_PER_SECOND = 10.0
"""Calls of GetLogEvents per second for an account in the slowest Regions, e.g. eu-west-1; the quota is not adjustable
(https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/cloudwatch_limits_cwl.html)."""

_SHARE_OF_FOLLOWING = 0.4
# Half of the quota remains for other readers. The remaining tenth is for reading logs of ended jobs.
_MIN_LOG_LOOK = 10.0

DESCRIBES_PER_SECOND = 10.0
"""Calls of DescribeTrainingJob per second that all children of an array may make. AWS publishes no limit; for
ListTrainingJobs 2 per second were reported (https://github.com/aws-solutions/deepracer-on-aws/issues/87)."""

# The interval between two DescribeTrainingJob calls of a child. Events record every change in the ledger within
# seconds, so these calls only detect changes whose event was lost.
_MIN_DESCRIBE, _MAX_DESCRIBE, _DESCRIBE_PER_AGE = 5.0, 600.0, 1 / 4


@dataclass(frozen=True, kw_only=True)
class PollingPace:
    """The pace of one child.

    Attributes:
        children: The number of children that may run at once, including this one.
    """

    children: int = 1

    @classmethod
    def of_array(cls, size: int, orchestrator: Orchestrator) -> Self:
        """Return the pace of a child of an array of `size` children."""
        return cls(children=max(1, min(size, int(orchestrator.max_vcpus / orchestrator.vcpu))))

    def log_seconds(self, hosts: int) -> float:
        """Return the seconds between two reads of the log of a training job with this number of hosts."""
        share = LOG_READS_PER_SECOND * _SHARE_OF_FOLLOWING / self.children
        return max(_MIN_LOG_LOOK, hosts / share)

    def describe_seconds(self, age: float) -> float:
        """Return the seconds until the next DescribeTrainingJob of a job that has been watched for `age` seconds."""
        shortest = max(_MIN_DESCRIBE, 2 * self.children / DESCRIBES_PER_SECOND)
        return max(shortest, min(age * _DESCRIBE_PER_AGE, _MAX_DESCRIBE))

    def first_log_look(self, hosts: int) -> float:
        """Return a random delay of the first read, within one interval, so that children do not read at once."""
        return random.uniform(0.0, self.log_seconds(hosts)) if self.children > 1 else 0.0  # noqa: S311 # jitter


def spread(seconds: float) -> float:
    """Return the duration changed randomly by up to 20 %; the average stays the same."""
    return seconds * random.uniform(0.8, 1.2)  # noqa: S311  # not used for cryptography
