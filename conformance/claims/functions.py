"""Lambda: asynchronous events of failing functions, and log formats."""

import json

from conformance.aws import Aws, refused
from conformance.claim import claim, documented
from conformance.resources.events import Inbox
from conformance.resources.functions import function
from conformance.sources import model, page

_ASYNC = "https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html"
_DESTINATIONS = "https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-retain-records.html"
_FAILS = "def handler(event, context):\n    print('tried', context.aws_request_id)\n    raise ValueError('no good')\n"
_WORKS = "def handler(event, context):\n    print('worked')\n    return {'got': event, 'id': context.aws_request_id}\n"

_LOGS = """
import logging
logger = logging.getLogger(__name__)
def handler(event, context):
    logger.info("swept %s", 1, extra={"event": "sweep", "_aws": {"Timestamp": 1}})
    logger.debug("swept in detail")
"""


def _failure(aws: Aws) -> dict[str, object]:
    """Return the messages in a failing function's destination and dead-letter queue; claims share them."""

    def make() -> dict[str, object]:
        box, dead = Inbox(aws), Inbox(aws)
        name = function(aws, _FAILS, DeadLetterConfig={"TargetArn": dead.arn})
        api, destination = aws.client("lambda"), {"OnFailure": {"Destination": box.arn}}
        api.put_function_event_invoke_config(FunctionName=name, DestinationConfig=destination)
        api.invoke(FunctionName=name, InvocationType="Event", Payload=json.dumps({"a": 1}))
        record = aws.wait(box.messages, "the record of the failure")[0]
        letter = aws.wait(dead.messages, "the dead letter")[0]
        return {"record": json.loads(record["Body"]), "letter": letter, "function": name}

    return aws.once("failure", make)


@claim(
    page(_ASYNC, "Lambda attempts to run it two more times"),
    page(_DESTINATIONS, "an event that failed three processing attempts"),
    used_by="stacks/event_function.py",
)
def failed_event_is_tried_three_times(aws: Aws) -> None:
    """An asynchronous event whose function fails is attempted three times; then the destination receives a record."""
    record = json.loads(json.dumps(_failure(aws)["record"]))
    assert record["requestContext"]["condition"] == "RetriesExhausted"
    assert record["requestContext"]["approximateInvokeCount"] == 3
    assert record["requestPayload"] == {"a": 1}
    assert record["responsePayload"]["errorMessage"] == "no good"


@claim(
    page(
        "https://repost.aws/knowledge-center/lambda-function-duplicate-invocations",
        "same request ID indicate that the Lambda service retried the function",
    ),
    used_by="stacks/event_function.py lambda/accept_manifest.py",
)
def retry_has_the_same_request_id(aws: Aws) -> None:
    """The three attempts for an event have the same request id."""
    name, logs = _failure(aws)["function"], aws.client("logs")

    def tried() -> list[str]:
        events = logs.filter_log_events(logGroupName=f"/aws/lambda/{name}", filterPattern="tried")["events"]
        ids = [event["message"].split()[-1] for event in events if event["message"].startswith("tried")]
        return ids if len(ids) == 3 else []

    assert len(set(aws.wait(tried, "three lines of the log"))) == 1


@claim(
    page(
        "https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-retain-records.html",
        "Lambda only sends the content of the event",
    ),
    used_by="stacks/dead_letters.py",
)
def dead_letter_is_the_event(aws: Aws) -> None:
    """A function's dead-letter queue receives the event itself, with the error message as an attribute."""
    letter = json.loads(json.dumps(_failure(aws)["letter"]))
    assert json.loads(letter["Body"]) == {"a": 1}
    assert "no good" in letter["MessageAttributes"]["ErrorMessage"]["StringValue"]


@claim(
    page(
        "https://docs.aws.amazon.com/lambda/latest/dg/API_Invoke.html",
        "indicates that an error occurred during function execution",
    ),
    used_by="docs/reconciler.md lambda/reconcile.py",
)
def invoked_function_returns_its_result(aws: Aws) -> None:
    """Invoke waits for the function and returns its result; after an exception, FunctionError is Unhandled."""
    api = aws.client("lambda")
    works, fails = aws.once("works", lambda: function(aws, _WORKS)), str(_failure(aws)["function"])
    assert json.load(api.invoke(FunctionName=works, Payload=b'{"b": 2}')["Payload"])["got"] == {"b": 2}
    reply = api.invoke(FunctionName=fails, Payload=b"{}")
    assert (reply["StatusCode"], reply["FunctionError"]) == (200, "Unhandled")
    assert json.load(reply["Payload"])["errorMessage"] == "no good"


@claim(
    model(
        "lambda",
        "LoggingConfig",
        "sends your function's application and system logs to CloudWatch. Select between plain text",
    ),
    used_by="stacks/event_function.py stacks/saved_queries.py",
    not_modelled="Lambda's log format JSON: the lines of Lambda itself are plain text",
)
def log_format_json_is_of_every_line(aws: Aws) -> None:
    """With the log format JSON, the lines of Lambda itself, such as platform.report, are JSON too."""
    name, logs = function(aws, _WORKS, LoggingConfig={"LogFormat": "JSON"}), aws.client("logs")
    aws.client("lambda").invoke(FunctionName=name, Payload=b"{}")

    def lines() -> str:
        return "".join(
            event["message"] for event in logs.filter_log_events(logGroupName=f"/aws/lambda/{name}")["events"]
        )

    patience = aws.seconds(120)
    aws.wait(lambda: "platform.report" in lines(), "the report", seconds=patience)


@claim(
    page(
        "https://docs.aws.amazon.com/lambda/latest/dg/python-logging.html#python-logging-advanced",
        "by using the extra keyword to pass a Python dictionary",
    ),
    page(
        "https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-log-level.html",
        "The default application log level for log filtering is INFO",
    ),
    page(
        "https://github.com/aws/aws-lambda-python-runtime-interface-client/blob/main/awslambdaric/lambda_runtime_log_utils.py",
        "if key not in _RESERVED_FIELDS and key not in result",
    ),
    used_by="lambda/reconcile.py lambda/accept_manifest.py lambda/record_job_event.py traingrid/deploy/region_guard.py",
)
def logger_writes_extra_as_fields_of_json(aws: Aws) -> None:
    """With the log format JSON and the level INFO, Python's loggers write JSON lines with `extra` at the top level."""
    config = {"LogFormat": "JSON", "ApplicationLogLevel": "INFO"}
    name, logs = function(aws, _LOGS, LoggingConfig=config), aws.client("logs")
    aws.client("lambda").invoke(FunctionName=name, Payload=b"{}")

    def lines() -> list[dict[str, object]]:
        events = logs.filter_log_events(logGroupName=f"/aws/lambda/{name}", filterPattern="swept")["events"]
        return [json.loads(event["message"]) for event in events]

    (line,) = aws.wait(lines, "the line", seconds=aws.seconds(120))
    assert (line["level"], line["message"], line["logger"]) == ("INFO", "swept 1", "code")
    assert (line["event"], line["_aws"]) == ("sweep", {"Timestamp": 1})
    assert line["requestId"]
    assert str(line["timestamp"]).endswith("Z")


@claim(
    page(
        "https://docs.aws.amazon.com/lambda/latest/dg/API_Invoke.html",
        "The resource specified in the request does not exist",
    ),
    used_by="traingrid/deploy/region_guard.py docs/reconciler.md",
)
def unknown_function_is_not_found(aws: Aws) -> None:
    """Invoke of an unknown function fails with ResourceNotFoundException."""
    with refused("ResourceNotFoundException"):
        aws.client("lambda").invoke(FunctionName=aws.name("unknown"))


@claim(
    page(
        "https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html#configuration-vpc-permissions",
        "your function's execution role must have the following permissions",
    ),
    page(
        "https://github.com/webiny/webiny-js/issues/2580",
        "does not have permissions to call CreateNetworkInterface on EC2",
    ),
    used_by="stacks/event_function.py",
)
def role_must_connect_the_function_to_subnets(aws: Aws) -> None:
    """A function is not connected to subnets if its role may not create network interfaces."""
    subnet = aws.client("ec2").describe_subnets()["Subnets"][0]
    groups = aws.client("ec2").describe_security_groups(Filters=[{"Name": "vpc-id", "Values": [subnet["VpcId"]]}])
    network = {"SubnetIds": [subnet["SubnetId"]], "SecurityGroupIds": [groups["SecurityGroups"][0]["GroupId"]]}
    name = function(aws, _WORKS)
    with refused("InvalidParameterValueException", "does not have permissions to call CreateNetworkInterface on EC2"):
        aws.client("lambda").update_function_configuration(FunctionName=name, VpcConfig=network)


@documented(
    page(
        "https://docs.aws.amazon.com/lambda/latest/dg/permissions-source-function-arn.html",
        "to create elastic network interfaces (ENIs) for a VPC-enabled function",
    ),
    used_by="stacks/event_function.py",
    why="Lambda's own calls of EC2 are visible in CloudTrail only",
)
def calls_of_lambda_have_no_source_function(aws: Aws) -> None:
    """Lambda's own calls that connect a function to subnets have no lambda:SourceFunctionArn."""


@documented(
    page(
        "https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html",
        "New AWS accounts have reduced concurrency and memory quotas",
    ),
    page(
        "https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html",
        "attempts to run the function again for up to 6 hours",
    ),
    used_by="docs/quotas.md stacks/event_function.py",
    why="the limit of concurrent executions, 10 in a new account, belongs to the account",
)
def young_account_runs_ten_functions_at_once(aws: Aws) -> None:
    """Above the account's concurrency limit, asynchronous events wait in Lambda's queue for up to six hours."""
