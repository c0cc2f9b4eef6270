"""A Lambda function behind one EventBridge rule, whose lost events all end in one dead-letter queue."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aws_cdk import Duration, IgnoreMode, RemovalPolicy
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_destinations as destinations
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.grants import acknowledge

ROOT = Path(__file__).parent.parent
EVENT_AGE = Duration.hours(6)
"""Lambda's own longest age of an asynchronous event; the rule gives up at the same age."""


@dataclass(frozen=True, kw_only=True)
class FunctionCode:
    """What every function of a grid runs: the code of this repository, and its libraries as a layer."""

    code: lambda_.Code
    layer: lambda_.LayerVersion


def function_code(scope: Construct, layer: Path) -> FunctionCode:
    """Return the code of lambda/ and traingrid/, and the layer in the folder `layer` (with a folder `python` in it)."""
    return FunctionCode(
        code=lambda_.Code.from_asset(
            str(ROOT),
            # In .gitignore's language: nothing but lambda/ and traingrid/, of these neither the CLI nor caches.
            exclude=["/*", "!/lambda", "!/traingrid", "/traingrid/cli", "__pycache__", "*.pyc"],
            ignore_mode=IgnoreMode.GIT,
        ),
        layer=lambda_.LayerVersion(
            scope,
            "Libraries",
            code=lambda_.Code.from_asset(
                # Compiled files carry the time of their making, and a template must not depend on that.
                str(layer),
                exclude=["/*", "!/python", "__pycache__", "*.pyc"],
                ignore_mode=IgnoreMode.GIT,
            ),
            compatible_runtimes=[lambda_.Runtime.PYTHON_3_11],
            description="What traingrid needs beyond the Python runtime of Lambda",
        ),
    )


class EventFunction(Construct):
    """A function, the rule that invokes it, and the queue that keeps what neither could deliver.

    EventBridge sends an event to the queue that it could not hand to Lambda; Lambda sends one there that the function
    failed on three times. Concurrency is not reserved: a young account has 10 in all, of which none can be reserved.
    """

    def __init__(
        self,
        scope: Construct,
        identifier: str,
        *,
        handler: str,
        description: str,
        code: FunctionCode,
        environment: Mapping[str, str],
        log_retention: logs.RetentionDays,
        pattern: events.EventPattern,
        bus: events.IEventBus | None = None,
    ) -> None:
        super().__init__(scope, identifier)
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(14),
        )
        acknowledge(self.dead_letters, "AwsSolutions-SQS3", "This is a dead-letter queue")
        self.log_group = logs.LogGroup(self, "Log", retention=log_retention, removal_policy=RemovalPolicy.DESTROY)
        self.role = _lambda_role(self)
        self.log_group.grant_write(self.role)
        self.function = lambda_.Function(
            self,
            "Function",
            runtime=lambda_.Runtime.PYTHON_3_11,
            architecture=lambda_.Architecture.X86_64,
            handler=handler,
            description=description,
            code=code.code,
            layers=[code.layer],
            environment=dict(environment),
            memory_size=512,
            timeout=Duration.seconds(60),
            role=self.role,
            log_group=self.log_group,
            on_failure=destinations.SqsDestination(self.dead_letters),
            retry_attempts=2,
            max_event_age=EVENT_AGE,
        )
        acknowledge(
            self.function,
            "AwsSolutions-L1",
            "Python 3.11 is what the whole of traingrid is built and tested on, the training image included",
        )
        self.rule = events.Rule(self, "Rule", description=description, event_pattern=pattern, event_bus=bus)
        self.rule.add_target(
            targets.LambdaFunction(
                self.function, dead_letter_queue=self.dead_letters, max_event_age=EVENT_AGE, retry_attempts=185
            )
        )


def _lambda_role(scope: Construct) -> iam.Role:
    """Return a role that only Lambda may assume, and that may do nothing yet.

    The trust has no condition, because Lambda documents none for it
    (https://docs.aws.amazon.com/lambda/latest/dg/lambda-intro-execution-role.html).
    """
    return iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
