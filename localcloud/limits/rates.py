"""Rates that localcloud enforces for API calls and Fargate's task launches, each with its source."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

_LOGS = "https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/cloudwatch_limits_cwl.html"
_BATCH = "https://repost.aws/knowledge-center/aws-batch-requests-error"
_LIST_JOBS = "https://github.com/aws-solutions/deepracer-on-aws/issues/87"
_CREATE_JOB = "https://github.com/aws/sagemaker-python-sdk/issues/645"
_EC2 = "https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html"
_FARGATE = "https://docs.aws.amazon.com/AmazonECS/latest/userguide/throttling.html"
_QUOTAS = "https://docs.aws.amazon.com/servicequotas/latest/userguide/reference_limits.html"


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A rate per account and Region, enforced by a token bucket.

    Attributes:
        service: Signing name of the service.
        action: Glob of the operations; each operation has its own bucket.
        per_second: Tokens added per second.
        burst: Size of the bucket.
        assumed: True if the source reports throttling without a rate; then the rate is our assumption.
        in_region: Values of `per_second` that differ by Region; there, the bucket size equals this value.
    """

    service: str
    action: str
    per_second: float
    burst: float
    source: str
    assumed: bool = False
    in_region: tuple[tuple[str, float], ...] = ()

    def at(self, region: str) -> tuple[float, float]:
        """Return tokens per second and the bucket size in a Region."""
        rate_of_region = dict(self.in_region).get(region)
        return (rate_of_region, rate_of_region) if rate_of_region else (self.per_second, self.burst)


def _logs(action: str, per_second: float, **in_region: float) -> Rate:
    by_region = tuple((name.replace("_", "-"), value) for name, value in in_region.items())
    return Rate(
        service="logs",
        action=action,
        per_second=per_second,
        burst=per_second,
        source=_LOGS,
        in_region=by_region,
    )


RATES: tuple[Rate, ...] = (
    _logs(
        "GetLogEvents",
        25,
        us_west_2=10,
        ap_northeast_3=10,
        ap_southeast_3=10,
        ca_west_1=10,
        eu_central_1=10,
        eu_west_1=10,
        eu_west_3=30,
        il_central_1=10,
    ),
    _logs(
        "FilterLogEvents",
        10,
        us_east_1=25,
        ap_northeast_3=5,
        ap_southeast_3=5,
        ca_west_1=5,
        eu_central_1=5,
        il_central_1=5,
    ),
    _logs("DescribeLogStreams", 25),
    _logs("DescribeLogGroups", 10),
    _logs("DescribeMetricFilters", 5),
    _logs("DescribeSubscriptionFilters", 5),
    _logs("ListTagsForResource", 5),
    Rate(service="batch", action="*", per_second=50, burst=50, source=_BATCH),
    # The source's account was throttled by five requests within milliseconds, at an average of 0.11 per second.
    Rate(service="sagemaker", action="ListTrainingJobs", per_second=2, burst=2, source=_LIST_JOBS),
    # Service Quotas has "Rate of CreateTrainingJob requests" (L-21A1652A); no source for its value was found. Five
    # processes of the source's account were throttled.
    Rate(service="sagemaker", action="CreateTrainingJob", per_second=2, burst=60, source=_CREATE_JOB, assumed=True),
    Rate(service="ec2", action="Describe*", per_second=20, burst=100, source=_EC2),
    Rate(service="servicequotas", action="List*Quotas", per_second=10, burst=20, source=_QUOTAS),
    Rate(service="servicequotas", action="Get*", per_second=5, burst=10, source=_QUOTAS),
    Rate(service="servicequotas", action="ListRequested*", per_second=5, burst=10, source=_QUOTAS),
    Rate(service="servicequotas", action="RequestServiceQuotaIncrease", per_second=3, burst=6, source=_QUOTAS),
)
"""Omitted, because neither AWS's documentation nor a public report gives a rate: DescribeTrainingJob, StopTrainingJob,
DescribeStacks, and IAM's Get* and List*."""

FARGATE_LAUNCHES = Rate(service="fargate", action="*", per_second=20, burst=100, source=_FARGATE)
"""Launches of tasks by AWS Batch. On-demand and spot tasks have separate buckets. The rate of RunTask (20 calls per
second, each for up to 10 tasks) is not enforced, because AWS does not document how many tasks Batch launches per
call."""

SERVICES = frozenset(rate.service for rate in RATES)


def rate_of(service: str, action: str) -> Rate | None:
    """Return the rate of an operation, or None if there is none."""
    return next((rate for rate in RATES if rate.service == service and fnmatchcase(action, rate.action)), None)
