"""Event function: a Lambda function, the EventBridge rule that invokes it, and its dead-letter queue."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from aws_cdk import Duration, IgnoreMode
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_destinations as destinations
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.dead_letters import EVENT_AGE, EVENT_RETRIES, dead_letters
from stacks.grants import acknowledge_all, deny, grant, skip_all_in_checkov
from stacks.log_keeping import LogKeeping
from stacks.network import Placement

ROOT = Path(__file__).parent.parent

_TRACE = ("xray:PutTelemetryRecords", "xray:PutTraceSegments")
"""Permissions with which Lambda traces a function. It samples one invocation per second and 5 % of the others
(https://docs.aws.amazon.com/lambda/latest/dg/services-xray.html). 100,000 traces per month are free, and each further
million costs $5 (https://aws.amazon.com/xray/pricing/)."""

_CONNECT = (
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
)
_SEE_SUBNETS = ("ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets")
"""Permissions with which Lambda connects a function to subnets
(https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AWSLambdaVPCAccessExecutionRole.html)."""


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """Settings that functions of a stack share: code, libraries, environment variables, log settings, key, network.

    A function without a placement is in no VPC.
    """

    code: lambda_.Code
    libraries: lambda_.LayerVersion
    environment: Mapping[str, str]
    keeping: LogKeeping
    key: kms.IKey | None
    more_libraries: tuple[lambda_.LayerVersion, ...] = ()
    placement: Placement | None = None


def repository_code() -> lambda_.Code:
    """Return lambda/ and traingrid/ as Lambda code, without the API, the CLI, the report, the page and caches."""
    return lambda_.Code.from_asset(
        str(ROOT),
        # In .gitignore's syntax.
        exclude=[
            *("/*", "!/lambda", "!/traingrid", "/traingrid/api", "/traingrid/cli"),
            *("/traingrid/report", "/traingrid/ui"),
            *("__pycache__", "*.pyc"),
        ],
        ignore_mode=IgnoreMode.GIT,
    )


def libraries(
    scope: Construct,
    folder: Path,
    description: str = "Libraries that traingrid requires, with the AWS SDK",
) -> lambda_.LayerVersion:
    """Return the Lambda layer of `folder`/python."""
    return lambda_.LayerVersion(
        scope,
        "Libraries",
        code=lambda_.Code.from_asset(str(folder), exclude=["/*", "!/python"], ignore_mode=IgnoreMode.GIT),
        compatible_runtimes=[lambda_.Runtime.PYTHON_3_11],
        description=description,
    )


class EventFunction(Construct):
    """A function, the rule that invokes it, if any, and the queue for events that were not delivered or handled.

    EventBridge sends an event to the queue if it cannot invoke Lambda, and Lambda if the function has failed on it
    three times. No concurrency is reserved: a new account has 10 concurrent invocations, and none can be reserved.
    """

    def __init__(
        self,
        scope: Construct,
        identifier: str,
        *,
        name: str | None = None,
        handler: str,
        description: str,
        runtime: Runtime,
        pattern: events.EventPattern | None = None,
        bus: events.IEventBus | None = None,
        schedule: events.Schedule | None = None,
        timeout: Duration | None = None,
        memory_mib: int = 512,
        role_name: str | None = None,
    ) -> None:
        super().__init__(scope, identifier)
        self.dead_letters = dead_letters(self, runtime.key)
        self.role = _lambda_role(self, role_name)
        if runtime.placement:
            _let_connect(self.role)
        self.function = self._function(handler, description, runtime, timeout or Duration.seconds(60), memory_mib)
        if name:
            cast(lambda_.CfnFunction, self.function.node.default_child).function_name = name
        if pattern or schedule:
            self._invoke_on(
                events.Rule(
                    self, "Rule", description=description, event_pattern=pattern, event_bus=bus, schedule=schedule
                )
            )

    def also_on(
        self, identifier: str, *, pattern: events.EventPattern, bus: events.IEventBus, description: str
    ) -> None:
        """Invoke the function for events of a second pattern, too."""
        self._invoke_on(events.Rule(self, identifier, description=description, event_pattern=pattern, event_bus=bus))

    def _invoke_on(self, rule: events.Rule) -> None:
        rule.add_target(
            targets.LambdaFunction(
                self.function,
                dead_letter_queue=self.dead_letters,
                max_event_age=EVENT_AGE,
                retry_attempts=EVENT_RETRIES,
            )
        )

    def _function(
        self, handler: str, description: str, runtime: Runtime, timeout: Duration, memory_mib: int
    ) -> lambda_.Function:
        placement = runtime.placement
        log_group = runtime.keeping.log_group(self, "Log")
        log_group.grant_write(self.role)
        grant(self.role, _TRACE, ["*"], because="The actions do not support resources: traces belong to the account")
        function = lambda_.Function(
            self,
            "Function",
            runtime=lambda_.Runtime.PYTHON_3_11,
            architecture=lambda_.Architecture.X86_64,
            handler=handler,
            description=description,
            code=runtime.code,
            layers=[runtime.libraries, *runtime.more_libraries],
            environment=dict(runtime.environment),
            memory_size=memory_mib,
            timeout=timeout,
            role=self.role,
            log_group=log_group,
            logging_format=lambda_.LoggingFormat.JSON,
            application_log_level_v2=lambda_.ApplicationLogLevel.INFO,
            tracing=lambda_.Tracing.ACTIVE,
            on_failure=destinations.SqsDestination(self._without_its_key()),
            retry_attempts=2,
            max_event_age=EVENT_AGE,
            vpc=placement.vpc if placement else None,
            vpc_subnets=placement.subnets if placement else None,
            security_groups=placement.security_groups if placement else None,
        )
        _acknowledge(function, has_variables=bool(runtime.environment), is_in_vpc=placement is not None)
        return function

    def _without_its_key(self) -> sqs.IQueue:
        """Return the dead-letter queue as a destination without its key.

        With the queue itself, the CDK would let the role use the queue's key without conditions. The stack grants the
        use of keys, limited to calls through SQS.
        """
        return sqs.Queue.from_queue_arn(self, "OnFailure", self.dead_letters.queue_arn)


def _acknowledge(function: lambda_.Function, *, has_variables: bool, is_in_vpc: bool) -> None:
    """Record why a function deviates from the scanners' rules."""
    concurrency = "A new account has only 10 concurrent invocations, and none of them can be reserved"
    letters = (
        "The queue is its on-failure destination, which gets the error with the event; a dead-letter queue would not"
    )
    network = "It only calls AWS APIs, in every training Region; in a VPC it would need a NAT gateway for $32 per month"
    reasons = {
        "AwsSolutions-L1": "All of traingrid, including the training image, is built and tested with Python 3.11",
        "NIST.800.53.R5-LambdaConcurrency": concurrency,
        "NIST.800.53.R5-LambdaDLQ": letters,
    }
    skips = {"CKV_AWS_115": concurrency, "CKV_AWS_116": letters}
    if not is_in_vpc:
        reasons["NIST.800.53.R5-LambdaInsideVPC"] = network
        skips["CKV_AWS_117"] = network
    acknowledge_all(function, reasons)
    if has_variables:
        skips["CKV_AWS_173"] = "Its variables are names of resources, not secrets"
    skip_all_in_checkov(function, skips)


def _let_connect(role: iam.Role) -> None:
    """Allow Lambda to connect a function with this role to subnets; the function's own code may not use that.

    Lambda requires the permissions for all resources: it refuses a role whose DeleteNetworkInterface is limited to ARNs
    of the account (https://github.com/hashicorp/terraform-provider-aws/issues/20698), and AWS's own policy has "*"
    (https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AWSLambdaVPCAccessExecutionRole.html). Its calls
    have no source function ARN (https://docs.aws.amazon.com/lambda/latest/dg/permissions-source-function-arn.html).
    """
    reason = "Lambda refuses a role whose permissions name resources"
    grant(role, _CONNECT, ["*"], because=reason)
    skip_all_in_checkov(cast(Construct, role.node.find_child("DefaultPolicy")), {"CKV_AWS_111": reason})
    grant(role, _SEE_SUBNETS, ["*"], because="The actions do not support resources")
    deny(role, [*_CONNECT, *_SEE_SUBNETS], conditions={"Null": {"lambda:SourceFunctionArn": "false"}})


def _lambda_role(scope: Construct, name: str | None) -> iam.Role:
    """Return a role that only Lambda may assume, without permissions.

    The trust policy has no condition, because Lambda documents none for it
    (https://docs.aws.amazon.com/lambda/latest/dg/lambda-intro-execution-role.html).
    """
    return iam.Role(scope, "Role", role_name=name, assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
