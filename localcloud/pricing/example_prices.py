"""Example prices: instance types, Regions and transfers, from which price lists and spot prices are generated.

The prices are invented, in the order of magnitude of AWS's. The prefixes of usage types and the names of locations are
AWS's (https://docs.aws.amazon.com/AmazonS3/latest/userguide/aws-usage-report-understand.html,
https://docs.aws.amazon.com/general/latest/gr/sagemaker.html).
"""

from datetime import UTC, datetime
from typing import NamedTuple

PUBLISHED = datetime(2026, 11, 20, 12, tzinfo=UTC)
"""The publication of the example price lists."""


class ExampleRegion(NamedTuple):
    """A Region: its prefix in usage types, its name as a location, the ratio of its prices, and dollars per GB out."""

    prefix: str
    location: str
    ratio: float
    transfer: float


class ExampleType(NamedTuple):
    """An instance type: dollars per hour of training on demand, its vCPUs and its memory in GiB."""

    dollars: float
    vcpus: int
    memory: int


REGIONS = {
    "us-east-1": ExampleRegion("USE1", "US East (N. Virginia)", 1.0, 0.02),
    "us-east-2": ExampleRegion("USE2", "US East (Ohio)", 1.0, 0.02),
    "us-west-2": ExampleRegion("USW2", "US West (Oregon)", 1.0, 0.02),
    "eu-west-1": ExampleRegion("EU", "EU (Ireland)", 1.11, 0.02),
    "eu-central-1": ExampleRegion("EUC1", "EU (Frankfurt)", 1.2, 0.02),
    "eu-north-1": ExampleRegion("EUN1", "EU (Stockholm)", 1.06, 0.02),
    "ap-northeast-1": ExampleRegion("APN1", "Asia Pacific (Tokyo)", 1.3, 0.09),
    "ap-southeast-1": ExampleRegion("APS1", "Asia Pacific (Singapore)", 1.25, 0.09),
}

TYPES = {
    "ml.m5.large": ExampleType(0.12, 2, 8),
    "ml.m5.xlarge": ExampleType(0.24, 4, 16),
    "ml.c5.xlarge": ExampleType(0.21, 4, 8),
    "ml.g4dn.xlarge": ExampleType(0.75, 4, 16),
    "ml.g5.xlarge": ExampleType(1.4, 4, 16),
    "ml.g5.2xlarge": ExampleType(1.5, 8, 32),
    "ml.g5.12xlarge": ExampleType(7.0, 48, 192),
    "ml.g5.48xlarge": ExampleType(20.0, 192, 768),
    "ml.p3.2xlarge": ExampleType(3.8, 8, 61),
    "ml.p3.16xlarge": ExampleType(28.0, 64, 488),
    "ml.p4d.24xlarge": ExampleType(38.0, 96, 1152),
    "ml.p5.48xlarge": ExampleType(95.0, 192, 2048),
}

ABSENT = {("eu-north-1", "ml.p5.48xlarge"), ("eu-central-1", "ml.p5.48xlarge"), ("eu-west-1", "ml.p3.16xlarge")}
"""Types that a Region lacks."""

WITHOUT_SPOT = {"ml.p4d.24xlarge", "ml.p5.48xlarge"}
"""Types for which EC2 has no spot price."""

COMPONENTS = {"Training": ("Train", 1.0), "Hosting": ("Host", 1.02), "Processing": ("Processing", 1.01)}
"""The components of SageMaker by name: the word in usage types, and the ratio of their prices."""
