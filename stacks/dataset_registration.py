"""Dataset registration: registers the datasets whose markers are uploaded to the data buckets of the Regions."""

from aws_cdk import Aws, Duration
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.event_function import EventFunction, Runtime
from stacks.grants import grant
from stacks.keys import read_with, use_keys_of_regions
from traingrid import names
from traingrid.grid.model import GridSettings

MAX_TIMEOUT = Duration.minutes(15)
"""The longest timeout of a function (https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html). Listing
a dataset takes a request for each 1,000 objects."""


class DatasetRegistration(Construct):
    """lambda/register_dataset, invoked for every marker that the Regions forward to the home bus."""

    def __init__(
        self, scope: Construct, identifier: str, *, grid: GridSettings, bus: events.IEventBus, runtime: Runtime
    ) -> None:
        super().__init__(scope, identifier)
        registrar = EventFunction(
            self,
            "Register",
            handler="lambda.register_dataset.handler",
            description="Registers the dataset of a marker, or writes a report of its error",
            runtime=runtime,
            pattern=new_datasets(),
            bus=bus,
            timeout=MAX_TIMEOUT,
            role_name=names.home_role(grid.name, "register"),
        )
        self.function = registrar.function
        self.role: iam.Role = registrar.role
        self.dead_letters: sqs.Queue = registrar.dead_letters


def new_datasets(buckets: tuple[str, ...] = ()) -> events.EventPattern:
    """Return the event pattern of new markers in some buckets, or in all buckets whose events reach a bus.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html
    """
    thing = {"object": {"key": [{"suffix": f"/{names.DATASET_MARKER}"}]}}
    return events.EventPattern(
        source=["aws.s3"],
        detail_type=["Object Created"],
        detail={"bucket": {"name": list(buckets)}, **thing} if buckets else thing,
    )


def let_register(role: iam.Role, grid: GridSettings, bucket: s3.Bucket, ledger: dynamodb.ITable) -> None:
    """Allow the home Region's role to record datasets, and to write reports and the manifests of rules."""
    grant(
        role,
        ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"],
        [ledger.table_arn],
        # https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/specifying-conditions.html. ForAllValues also
        # matches a request without the key; Null excludes it.
        conditions={
            "ForAllValues:StringEquals": {"dynamodb:LeadingKeys": [names.DATASETS]},
            "Null": {"dynamodb:LeadingKeys": "false"},
        },
    )
    reports = [f"{bucket.bucket_arn}/{names.DATASET_REPORT_PREFIX}*{names.REPORT_SUFFIX}"]
    reports += [f"{bucket.bucket_arn}/{names.GENERATED_PREFIX}{rule.name}/*" for rule in grid.on_dataset]
    grant(role, ["s3:PutObject"], reports, because="Users choose the names of markers, datasets and versions")


def let_read_datasets(role: iam.Role, grid: GridSettings, regions: list[str], key: kms.IKey | None = None) -> None:
    """Allow a role to read markers, and to list data buckets, in Regions of one account.

    Args:
        key: The key of the Region, for a role in the Region's stack; without it, keys are named by their alias.
    """
    if not regions:
        return
    buckets = [f"arn:aws:s3:::{name}" for region in regions for name in grid.data_buckets(Aws.ACCOUNT_ID, region)]
    grant(role, ["s3:ListBucket"], buckets)
    markers = [f"{bucket}/*/{names.DATASET_MARKER}" for bucket in buckets]
    grant(role, ["s3:GetObject"], markers, because="Users choose the folders of datasets; only markers are readable")
    if key is not None:
        read_with(role, [key.key_arn], region=regions[0])
    else:
        use_keys_of_regions(role, grid, ["kms:Decrypt"])
    for region in regions:
        read_with(role, grid.regions[region].data_keys, region=region)
