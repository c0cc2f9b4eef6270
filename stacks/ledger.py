"""Ledger: a DynamoDB table with one item for each submission and one for each of its jobs."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from constructs import Construct, IConstruct

from stacks.grants import KEYS_OF_AWS, acknowledge, skip_in_checkov
from traingrid import names
from traingrid.grid.catalog import DSQL_CATALOG
from traingrid.grid.model import GridSettings
from traingrid.ledger.job_states import INDEXED

_SUBMISSION = dynamodb.Attribute(name="submission", type=dynamodb.AttributeType.STRING)
_ITEM = dynamodb.Attribute(name="item", type=dynamodb.AttributeType.STRING)
_CLAIMED_AT = dynamodb.Attribute(name="claimed_at", type=dynamodb.AttributeType.STRING)


class Ledger(Construct):
    """A table with the partition key `submission` and the sort key `item` ("submission", "job#00000").

    The table is retained when its stack is deleted, and protected from accidental deletion, because it records which
    jobs ran and how they ended. Its name contains only the grid's name, so that grid.yaml is enough to find it.

    CloudFormation cannot delete a protected table either. So it must be the last resource of its stack
    (`create_after`): if a first deployment fails earlier, the table does not exist, and the rollback leaves nothing.
    For the same reason, the other parts of the stack refer to the table by its name.

    It has two indexes. `states` is a smaller copy of the jobs for `traingrid status`
    (traingrid/ledger/job_states.py). It has the keys of the table, so its partitions are as busy as the table's. A
    write that changes no copied attribute does not write to it
    (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html).

    `submissions` lists the submissions without a read of their jobs. An index has only the items with both of its keys
    (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-indexes-general-sparse-indexes.html), and only
    the items of submissions have `claimed_at`. DynamoDB adds the existing items to a new index
    (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.OnlineOps.html). It has all attributes, so
    that a submission reads the same from both, and because a submission is written only a few times.

    An update of a table creates at most one index
    (https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-dynamodb-table.html). So a grid
    of version 0.1.0, whose table has none, is deployed twice, first with the context key `ledger_indexes=1`.

    With `catalog: dsql`, it has a stream of the keys of changed items, which is all that the function that follows it
    needs. A stream is added to an existing table, and removed, without a replacement
    (https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-dynamodb-table.html).

    Attributes:
        table: The table, imported by its name. Resources that refer to it do not depend on its creation.
        stream: The ARN of its stream, for other stacks; None if it has none.
    """

    def __init__(self, scope: Construct, identifier: str, *, grid: GridSettings, key: kms.IKey | None) -> None:
        super().__init__(scope, identifier)
        self.table = dynamodb.Table.from_table_name(self, "ByName", names.ledger(grid.name))
        self._table = dynamodb.Table(
            self,
            "Table",
            table_name=names.ledger(grid.name),
            partition_key=_SUBMISSION,
            sort_key=_ITEM,
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED if key else None,
            encryption_key=key,
            deletion_protection=True,
            stream=dynamodb.StreamViewType.KEYS_ONLY if grid.catalog == DSQL_CATALOG else None,
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        )
        self._add_indexes()
        self.stream = self._table.table_stream_arn
        acknowledge(
            self._table,
            "NIST.800.53.R5-DynamoDBInBackupPlan",
            "Point-in-time recovery restores any second of the last 35 days; longer backups are the account's decision",
        )
        if key is None:
            skip_in_checkov(self._table, "CKV_AWS_119", KEYS_OF_AWS)

    def _add_indexes(self) -> None:
        """Add the indexes; with the context key `ledger_indexes=1` only the first one."""
        self._table.add_global_secondary_index(
            index_name=names.LEDGER_STATES,
            partition_key=_SUBMISSION,
            sort_key=_ITEM,
            projection_type=dynamodb.ProjectionType.INCLUDE,
            non_key_attributes=list(INDEXED),
        )
        if self.node.try_get_context("ledger_indexes") != "1":
            self._table.add_global_secondary_index(
                index_name=names.LEDGER_SUBMISSIONS, partition_key=_ITEM, sort_key=_CLAIMED_AT
            )

    def create_after(self, *parts: IConstruct) -> None:
        """Create the table after these parts of the stack.

        https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-dependson.html
        """
        self._table.node.add_dependency(*parts)
