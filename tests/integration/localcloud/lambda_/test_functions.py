import base64
import io
import json
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from localcloud.lambda_ import execution_environments
from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import LIMIT_SECONDS, role

ROLE = "arn:aws:iam::123456789012:role/function"
CODE = """
import os, sys, time, json
def handler(event, context):
    print("got", json.dumps(event))
    kind = event.get("do") if isinstance(event, dict) else None
    if kind == "raise":
        raise ValueError("no good")
    if kind == "nap":
        time.sleep(0.5)
    if kind == "log":
        import logging
        logging.getLogger("probe").debug("too detailed")
        logging.getLogger("probe").info("%s trained", "mars", extra={"event": "ended", "index": 3, "nothing": None})
        logging.getLogger("probe").warning("slow")
        logging.getLogger("probe").info("no JSON", extra={"field": {1, 2}})
    if kind == "sleep":
        time.sleep(600)
    if kind == "exit":
        os._exit(3)
    if kind == "unfinished line":
        sys.stdout.write("no end of line")
    if kind == "import":
        __import__(event["name"])
    if kind == "connect":
        import socket
        socket.create_connection(("192.0.2.1", 80), timeout=1)
    if kind == "who":
        import boto3
        return boto3.client("sts").get_caller_identity()["Arn"]
    if kind == "object":
        import boto3
        boto3.client("s3").put_object(Bucket=event["bucket"], Key=event["key"], Body=b"x")
    return {"event": event, "environment": dict(os.environ), "path": sys.path, "pid": os.getpid()}
"""


def archive(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as zipped:
        for name, text in files.items():
            zipped.writestr(name, text)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def functions(client: Callable[..., Any]) -> Any:
    role(client("iam"), "function", "lambda.amazonaws.com")
    service = client("lambda")
    layer = service.publish_layer_version(
        LayerName="extra", Content={"ZipFile": archive({"python/in_the_layer.py": "VALUE = 1"})}
    )
    settings = {"Timeout": 2, "Environment": {"Variables": {"COLOUR": "green"}}}
    create(service, "probe", Layers=[layer["LayerVersionArn"]], **settings)
    return service


def create(functions: Any, name: str, **settings: Any) -> None:
    """Create a function that runs CODE, with additional or other parameters of CreateFunction."""
    request = {
        "FunctionName": name,
        "Role": ROLE,
        "Runtime": "python3.11",
        "Handler": "lambda.probe.handler",
        "Code": {"ZipFile": archive({"lambda/probe.py": CODE})},
    }
    functions.create_function(**request | settings)


def call(functions: Any, event: Any, name: str = "probe") -> tuple[Any, str | None, str]:
    answer = functions.invoke(FunctionName=name, Payload=json.dumps(event), LogType="Tail")
    log = base64.b64decode(answer["LogResult"]).decode()
    return json.load(answer["Payload"]), answer.get("FunctionError"), log


def test_the_deployed_code_runs_with_the_functions_environment(functions: Any) -> None:
    answer, error, log = call(functions, {"a": 1})
    assert error is None
    assert answer["event"] == {"a": 1}
    environment = answer["environment"]
    assert environment["COLOUR"] == "green"
    assert environment["AWS_LAMBDA_FUNCTION_NAME"] == "probe"
    assert environment["AWS_REGION"] == "us-east-1"
    assert environment["AWS_CONFIG_FILE"] == "/dev/null"
    assert "START RequestId" in log
    assert 'got {"a": 1}' in log
    assert "REPORT RequestId" in log


def test_one_process_serves_several_events(functions: Any) -> None:
    assert call(functions, {})[0]["pid"] == call(functions, {})[0]["pid"]


@pytest.mark.parametrize("name", ["boto3", "dateutil", "urllib3", "in_the_layer", "sqlite3"])
def test_runtime_packages_layers_and_standard_library_can_be_imported(functions: Any, name: str) -> None:
    assert call(functions, {"do": "import", "name": name})[1] is None


@pytest.mark.parametrize("name", ["pydantic", "moto", "localcloud", "traingrid", "yaml"])
def test_packages_missing_in_aws_cannot_be_imported(functions: Any, name: str) -> None:
    answer, error, _ = call(functions, {"do": "import", "name": name})
    assert error == "Unhandled"
    assert answer["errorType"] == "ModuleNotFoundError"


def test_the_function_acts_as_its_role(functions: Any) -> None:
    assert call(functions, {"do": "who"})[0] == "arn:aws:sts::123456789012:assumed-role/function/localcloud"


def test_the_function_cannot_reach_another_machine(functions: Any) -> None:
    answer, error, _ = call(functions, {"do": "connect"})
    assert error == "Unhandled"
    assert answer["errorType"] == "PermissionError"


def test_an_exception_becomes_an_unhandled_error_with_its_message(functions: Any) -> None:
    answer, error, log = call(functions, {"do": "raise"})
    assert error == "Unhandled"
    assert answer["errorMessage"] == "no good"
    assert answer["errorType"] == "ValueError"
    assert "[ERROR] ValueError: no good" in log


def json_lines(log: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.splitlines() if line.startswith("{")]


def test_a_logger_writes_json_with_its_extra_fields_if_the_format_is_json(functions: Any) -> None:
    create(functions, "json", LoggingConfig={"LogFormat": "JSON"})
    _, error, log = call(functions, {"do": "log"}, name="json")
    info, slow, failed = json_lines(log)
    own = ("level", "message", "logger", "event", "index")
    assert [info[name] for name in own] == ["INFO", "mars trained", "probe", "ended", 3]
    assert info["requestId"] in log.splitlines()[0]
    assert "nothing" not in info
    assert (slow["level"], slow["message"]) == ("WARNING", "slow")
    # AWS's formatter has no default for other types, and its handler does not catch the exception.
    assert (error, failed["level"], failed["errorType"]) == ("Unhandled", "ERROR", "TypeError")
    functions.update_function_configuration(
        FunctionName="json", LoggingConfig={"LogFormat": "JSON", "ApplicationLogLevel": "WARN"}
    )
    assert [line.get("message") for line in json_lines(call(functions, {"do": "log"}, name="json")[2])] == ["slow"]


def test_a_logger_writes_warnings_as_text_if_no_format_is_set(functions: Any) -> None:
    log = call(functions, {"do": "log"})[2]
    (slow,) = [line.split("\t") for line in log.splitlines() if line.startswith("[WARNING]")]
    assert slow[2] in log.splitlines()[0]
    assert slow[3] == "slow"
    assert "mars" not in log


def test_a_function_that_times_out_is_killed(functions: Any) -> None:
    answer, error, log = call(functions, {"do": "sleep"})
    assert error == "Unhandled"
    assert answer["errorMessage"].endswith("Task timed out after 2.00 seconds")
    assert "Task timed out after 2.00 seconds" in log


def test_a_function_that_exits_its_process_is_an_exit_error(functions: Any) -> None:
    answer, error, _ = call(functions, {"do": "exit"})
    assert error == "Unhandled"
    assert answer["errorType"] == "Runtime.ExitError"
    assert call(functions, {})[1] is None


def test_a_missing_handler_is_reported(functions: Any) -> None:
    create(functions, "wrong", Handler="nowhere.handler")
    answer, _, _ = call(functions, {}, "wrong")
    assert answer["errorType"] == "Runtime.ImportModuleError"
    assert "Unable to import module 'nowhere'" in answer["errorMessage"]


def test_new_code_replaces_the_warm_process(functions: Any) -> None:
    new = archive({"lambda/probe.py": "def handler(event, context): return 'new'"})
    create(functions, "changing")
    assert "event" in call(functions, {}, "changing")[0]
    functions.update_function_code(FunctionName="changing", ZipFile=new)
    assert call(functions, {}, "changing")[0] == "new"


def test_logs_are_in_cloudwatch(functions: Any, client: Callable[..., Any]) -> None:
    call(functions, {"marker": "in the log"})
    events = client("logs").filter_log_events(logGroupName="/aws/lambda/probe")["events"]
    assert any("in the log" in event["message"] for event in events)


def test_an_unfinished_last_line_is_logged_without_a_delay(functions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    call(functions, {})
    monkeypatch.setattr(execution_environments, "_LAST_LINE_SECONDS", 300.0)  # the wait for a line that is missing
    log = call(functions, {"do": "unfinished line"})[2].splitlines()
    assert log[1:3] == ['got {"do": "unfinished line"}', "no end of line"]


def test_an_environment_serves_one_event_at_a_time(functions: Any) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: call(functions, {})[0]["pid"], range(8)))
        slow = [pool.submit(call, functions, {"do": "nap"}) for _ in range(4)]
        pids = {future.result()[0]["pid"] for future in slow}
    assert len(answers) == 8
    assert len(pids) == 4


def test_a_failed_asynchronous_event_goes_to_both_queues_after_three_attempts(
    functions: Any, client: Callable[..., Any]
) -> None:
    queues = client("sqs")
    urls = [queues.create_queue(QueueName=name)["QueueUrl"] for name in ("failures", "dead-letters")]
    create(
        functions,
        "failing",
        DeadLetterConfig={"TargetArn": "arn:aws:sqs:us-east-1:123456789012:dead-letters"},
    )
    destination = {"OnFailure": {"Destination": "arn:aws:sqs:us-east-1:123456789012:failures"}}
    functions.put_function_event_invoke_config(FunctionName="failing", DestinationConfig=destination)
    event = {"do": "raise"}
    answer = functions.invoke(FunctionName="failing", InvocationType="Event", Payload=json.dumps(event))
    assert answer["StatusCode"] == 202
    failure, dead = (received(queues, url) for url in urls)
    record = json.loads(failure["Body"])
    assert record["requestContext"]["condition"] == "RetriesExhausted"
    assert record["requestContext"]["approximateInvokeCount"] == 3
    assert record["requestPayload"] == event
    assert record["responsePayload"]["errorMessage"] == "no good"
    assert json.loads(dead["Body"]) == event
    assert dead["MessageAttributes"]["ErrorMessage"]["StringValue"] == "no good"
    log = client("logs").filter_log_events(logGroupName="/aws/lambda/failing")["events"]
    assert sum("START RequestId" in line["message"] for line in log) == 3


def received(queues: Any, url: str) -> Any:
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline:
        found = queues.receive_message(QueueUrl=url, WaitTimeSeconds=1, MessageAttributeNames=["All"]).get("Messages")
        if found:
            return found[0]
    pytest.fail("no message arrived")


def test_an_event_reaches_a_function_only_with_permission(
    functions: Any, client: Callable[..., Any], cloud: LocalCloud
) -> None:
    queues = client("sqs")
    dead = queues.create_queue(QueueName="undelivered")["QueueUrl"]
    allowed = {"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage"}
    queues.set_queue_attributes(QueueUrl=dead, Attributes={"Policy": json.dumps({"Statement": [allowed]})})
    client("s3").create_bucket(Bucket="reached")
    events = client("events")
    rule = events.put_rule(Name="to-function", EventPattern='{"source": ["me"]}')["RuleArn"]
    target = {
        "Id": "1",
        "Arn": "arn:aws:lambda:us-east-1:123456789012:function:probe",
        "InputPath": "$.detail",
        "DeadLetterConfig": {"Arn": "arn:aws:sqs:us-east-1:123456789012:undelivered"},
    }
    events.put_targets(Rule="to-function", Targets=[target])
    event = {"source": "me", "detail-type": "T", "detail": {"do": "object", "bucket": "reached", "key": "by-event"}}
    cloud.put_event("us-east-1", event)
    assert received(queues, dead)["MessageAttributes"]["ERROR_CODE"]["StringValue"] == "NO_PERMISSIONS"
    functions.add_permission(
        FunctionName="probe",
        StatementId="events",
        Action="lambda:InvokeFunction",
        Principal="events.amazonaws.com",
        SourceArn=rule,
    )
    cloud.put_event("us-east-1", event)
    client("s3").get_waiter("object_exists").wait(Bucket="reached", Key="by-event", WaiterConfig={"Delay": 1})
    (put,) = [entry for entry in cloud.record.entries("s3", "PutObject") if entry["parameters"]["Key"] == "by-event"]
    assert put["principal"] == "arn:aws:sts::123456789012:assumed-role/function/localcloud"


def test_a_function_runs_in_subnets_that_its_role_may_connect(client: Callable[..., Any], functions: Any) -> None:
    ec2 = client("ec2")
    subnet, group = ec2.describe_subnets()["Subnets"][0], ec2.describe_security_groups()["SecurityGroups"][0]
    network = {"SubnetIds": [subnet["SubnetId"]], "SecurityGroupIds": [group["GroupId"]]}
    create(functions, "connected", VpcConfig=network)
    assert call(functions, {"a": 1}, "connected")[1] is None
    found = functions.get_function_configuration(FunctionName="connected")["VpcConfig"]
    assert found["SubnetIds"] == network["SubnetIds"]

    logs = {"Effect": "Allow", "Action": ["logs:*", "ec2:CreateNetworkInterface"], "Resource": "*"}
    weak = role(client("iam"), "weak", "lambda.amazonaws.com", logs)
    for settings, refusal in (
        ({"Role": weak, "VpcConfig": network}, "does not have permissions to call DescribeNetworkInterfaces on EC2"),
        ({"VpcConfig": network | {"SecurityGroupIds": []}}, "must coexist or be both empty list"),
        ({"VpcConfig": network | {"SubnetIds": ["subnet-0a1b2c3d"]}}, "EC2 Error Code: InvalidSubnetID.NotFound"),
        ({"VpcConfig": network | {"SecurityGroupIds": ["sg-0a1b2c3d"]}}, "EC2 Error Code: InvalidGroup.NotFound"),
    ):
        with pytest.raises(functions.exceptions.InvalidParameterValueException, match=refusal):
            create(functions, "refused", **settings)
        with pytest.raises(functions.exceptions.InvalidParameterValueException, match=refusal):
            functions.update_function_configuration(FunctionName="probe", **settings)
