"""The ledger's table: one item for each submission and one for each of its jobs."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from constructs import Construct, IConstruct

from stacks.grants import KEYS_OF_AWS, acknowledge, skip_in_checkov
from traingrid import names
from traingrid.grid import Grid


class Ledger(Construct):
    """A table with the partition key `submission` and the sort key `item` ("submission", "job#00000").

    It holds what ran and what came of it, so it is kept when the stack goes and cannot be deleted by accident. Its name
    is the grid's, so that it is found again by who has nothing but grid.yaml.

    CloudFormation cannot delete a protected table either. It must therefore be the last resource of its stack
    (`create_after`): a first deployment that fails before has no table yet, and rolls back to nothing. For that the
    other parts of the stack refer to the table by its name.

    Attributes:
        table: The table by its name; a resource that refers to it does not wait for it.
    """

    def __init__(self, scope: Construct, identifier: str, *, grid: Grid, key: kms.IKey | None) -> None:
        super().__init__(scope, identifier)
        self.table = dynamodb.Table.from_table_name(self, "ByName", names.ledger(grid.name))
        self._created = dynamodb.Table(
            self,
            "Table",
            table_name=names.ledger(grid.name),
            partition_key=dynamodb.Attribute(name="submission", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="item", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED if key else None,
            encryption_key=key,
            deletion_protection=True,
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        )
        acknowledge(
            self._created,
            "NIST.800.53.R5-DynamoDBInBackupPlan",
            "Point-in-time recovery restores any second of the last 35 days; a plan for longer is the account's",
        )
        if key is None:
            skip_in_checkov(self._created, "CKV_AWS_119", KEYS_OF_AWS)

    def create_after(self, *parts: IConstruct) -> None:
        """Create the table after these parts of the stack.

        https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-dependson.html
        """
        self._created.node.add_dependency(*parts)
