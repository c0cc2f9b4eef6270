"""Catalog follower: the function that copies changes of the ledger into the catalog in Aurora DSQL."""

import json
from dataclasses import replace
from pathlib import Path

from aws_cdk import Duration
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.catalog_cluster import CatalogCluster
from stacks.dead_letters import EVENT_AGE
from stacks.event_function import EventFunction, Runtime, libraries
from stacks.grants import grant
from traingrid import names
from traingrid.grid.model import GridSettings
from traingrid.ledger.items import JOB_PREFIX, SUBMISSION

LAYER = "catalog"
"""The folder, in that of the functions' layer, with the libraries that only this function needs."""
_RECORDS = 1_000
"""Records of one invocation. With keys only, they are less than a MB, and Lambda passes up to 6 MB
(https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventsourcemapping.html)."""
_WINDOW = Duration.seconds(60)
"""The longest time that Lambda gathers records. While jobs train, children record progress every few seconds, so this
decides how often the function runs: once a minute for each shard of the stream."""
_RETRIES = 100
"""Retries of a batch that is already split into single records; each splitting has further ones. An outage of the
database ends with the first of these and `EVENT_AGE`."""


class CatalogFollower(Construct):
    """lambda/follow_ledger, with the libraries of the catalog, which no other function has.

    It runs for the changes of items that the catalog shows. Children, the intake and the other functions neither know
    it nor wait for it: DynamoDB writes the stream, and Lambda reads it.
    """

    def __init__(
        self,
        scope: Construct,
        identifier: str,
        *,
        grid: GridSettings,
        cluster: CatalogCluster,
        layer: Path,
        runtime: Runtime,
    ) -> None:
        super().__init__(scope, identifier)
        catalog = f"dsql://{names.CATALOG_FOLLOWER}@{cluster.endpoint}"
        libraries_of_catalog = libraries(self, layer / LAYER, "Libraries of the catalog")
        follower = EventFunction(
            self,
            "Follow",
            handler="lambda.follow_ledger.handler",
            description="Copies changes of the ledger into the catalog",
            runtime=replace(
                runtime,
                environment={**runtime.environment, "TRAINGRID_CATALOG": catalog},
                more_libraries=(libraries_of_catalog,),
            ),
            timeout=Duration.minutes(5),
            role_name=names.follower_role(grid.name),
        )
        self.function = follower.function
        self.role: iam.Role = follower.role
        self.dead_letters: sqs.Queue = follower.dead_letters

    def follow(self, scope: Construct, stream: str) -> lambda_.CfnEventSourceMapping:
        """Return a mapping that invokes the function for records of the ledger's stream, beginning with the oldest one.

        Lambda may miss records if it begins with the latest one
        (https://docs.aws.amazon.com/lambda/latest/dg/services-dynamodb-eventsourcemapping.html). It splits batches that
        fail, which does not count as a retry
        (https://docs.aws.amazon.com/lambda/latest/dg/services-dynamodb-errors.html).

        Args:
            scope: A stack that is deployed after the control stack.
            stream: The stream's ARN.
        """
        return lambda_.CfnEventSourceMapping(
            scope,
            "CatalogStream",
            function_name=self.function.function_arn,
            event_source_arn=stream,
            starting_position="TRIM_HORIZON",
            batch_size=_RECORDS,
            maximum_batching_window_in_seconds=_WINDOW.to_seconds(),
            bisect_batch_on_function_error=True,
            maximum_record_age_in_seconds=EVENT_AGE.to_seconds(),
            maximum_retry_attempts=_RETRIES,
            filter_criteria=lambda_.CfnEventSourceMapping.FilterCriteriaProperty(
                filters=[
                    lambda_.CfnEventSourceMapping.FilterProperty(pattern=json.dumps({"dynamodb": {"Keys": pattern}}))
                    for pattern in key_patterns()
                ]
            ),
            destination_config=lambda_.CfnEventSourceMapping.DestinationConfigProperty(
                on_failure=lambda_.CfnEventSourceMapping.OnFailureProperty(destination=self.dead_letters.queue_arn)
            ),
        )


def key_patterns() -> list[dict[str, object]]:
    """Return patterns of the keys of items that the catalog shows: submissions, jobs, datasets and copies.

    https://docs.aws.amazon.com/lambda/latest/dg/with-ddb-filtering.html
    """
    return [
        {"item": {"S": [SUBMISSION, {"prefix": JOB_PREFIX}]}},
        {"submission": {"S": [names.DATASETS, names.MOVES]}},
    ]


def allow_copying_ledger(role: iam.Role, bucket: s3.Bucket, ledger: dynamodb.ITable, cluster: CatalogCluster) -> None:
    """Allow a role to read the ledger, its stream and submissions, and to connect to the catalog.

    The actions on the stream, and the pattern of its name, are those of
    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/iam-policy-example-lamda-process-dynamodb-streams.html.
    In the database, it has the permissions of the role that `traingrid catalog init` creates.
    """
    grant(role, ["dynamodb:GetItem", "dynamodb:Query"], [ledger.table_arn])
    grant(
        role,
        ["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"],
        [f"{ledger.table_arn}/stream/*"],
        because="A stream's name is the time at which DynamoDB created it",
    )
    grant(role, ["dynamodb:ListStreams"], ["*"], because="The action does not support resources; Lambda requires it")
    submissions = f"{bucket.bucket_arn}/{names.SUBMISSION_PREFIX}*"
    grant(role, ["s3:GetObject"], [submissions], because="Any submission; their ids are hashes")
    # Without it, S3 returns AccessDenied for a file that the intake has not written yet, as for a forbidden one.
    grant(role, ["s3:ListBucket"], [bucket.bucket_arn])
    grant(role, ["dsql:DbConnect"], [cluster.arn])
