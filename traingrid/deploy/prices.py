"""Prices: AWS's list prices in us-east-1, in US dollars, of an idle grid's resources. Other Regions differ.

Free tiers are ignored, because the account may already use them up. A month has 730 hours, as in the AWS Pricing
Calculator.
"""

from dataclasses import dataclass

HOURS = 730.0
"""Hours in a month."""
GIGABYTE = 2**30
"""Bytes of a GB in AWS's prices (https://aws.amazon.com/s3/faqs/, "How will I be charged and billed for my use of
Amazon S3?": its examples count 1 GB as 1,073,741,824 bytes)."""


@dataclass(frozen=True)
class UnitPrice:
    """The price of one unit.

    Attributes:
        dollars: The price of one unit, per month unless `of` specifies another period.
        of: The unit.
        source: The page with the price.
    """

    dollars: float
    of: str
    source: str


_CLOUDWATCH, _DYNAMODB = (
    "https://aws.amazon.com/cloudwatch/pricing/",
    "https://aws.amazon.com/dynamodb/pricing/on-demand/",
)
_LAMBDA, _VPC = "https://aws.amazon.com/lambda/pricing/", "https://aws.amazon.com/vpc/pricing/"

ALARM = UnitPrice(0.10, "metric that an alarm looks at, of standard resolution", _CLOUDWATCH)
CUSTOM_METRIC = UnitPrice(0.30, "custom metric, for the hours in which it is sent", _CLOUDWATCH)
DASHBOARD = UnitPrice(3.00, "dashboard, of which an account has three for nothing", _CLOUDWATCH)
LOG_INGESTION = UnitPrice(0.50, "GB of log that comes in", _CLOUDWATCH)
LOG_STORAGE = UnitPrice(0.03, "GB of log that is kept", _CLOUDWATCH)
TRACE = UnitPrice(5.00 / 1e6, "trace that is recorded", "https://aws.amazon.com/xray/pricing/")
REQUEST = UnitPrice(0.20 / 1e6, "invocation of a function", _LAMBDA)
GB_SECOND = UnitPrice(0.0000166667, "GB-second of a function on x86", _LAMBDA)
READ = UnitPrice(0.125 / 1e6, "read request unit", _DYNAMODB)
TABLE_STORAGE = UnitPrice(0.25, "GB in a table", _DYNAMODB)
TABLE_RECOVERY = UnitPrice(0.20, "GB in a table with point-in-time recovery", _DYNAMODB)
BUCKET_STORAGE = UnitPrice(0.023, "GB in S3 Standard", "https://aws.amazon.com/s3/pricing/")
PUT_REQUEST = UnitPrice(0.005 / 1e3, "PUT, COPY, POST or LIST request of S3 Standard", BUCKET_STORAGE.source)
GET_REQUEST = UnitPrice(0.0004 / 1e3, "GET request of S3 Standard", BUCKET_STORAGE.source)
TRANSFER = UnitPrice(
    0.02,
    "GB that is copied to another Region; from some Regions, it costs more",
    "https://repost.aws/articles/ARjzluyMS8RbeOOK4MGXRG6Q/cost-effective-methods-for-accessing-s3-buckets-cross-region",
)
KEY = UnitPrice(1.00, "key, and as much again for each yearly rotation", "https://aws.amazon.com/kms/pricing/")
IMAGE_STORAGE = UnitPrice(0.10, "GB of images in ECR", "https://aws.amazon.com/ecr/pricing/")
NAT_GATEWAY = UnitPrice(0.045 * HOURS, "NAT gateway", _VPC)
ADDRESS = UnitPrice(0.005 * HOURS, "public IPv4 address", _VPC)
ENDPOINT = UnitPrice(
    0.01 * HOURS, "interface endpoint in an availability zone", "https://aws.amazon.com/privatelink/pricing/"
)
CLUSTER_STORAGE = UnitPrice(0.33, "GB in Aurora DSQL", "https://aws.amazon.com/rds/aurora/dsql/pricing/")
CLUSTER_WORK = UnitPrice(8.00 / 1e6, "distributed processing unit (DPU) of Aurora DSQL", CLUSTER_STORAGE.source)
