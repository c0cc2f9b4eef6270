"""The runtime of a Lambda function's process: fetches events from the runtime API and calls the handler.

It uses only the standard library, because it starts without site-packages: a function can import the packages of AWS's
runtime, its layers and its own code. The protocol is that of AWS's documentation, "Using the Lambda runtime API".
"""

import contextlib
import importlib
import json
import logging
import os
import runpy
import sys
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

Handler = Callable[[Any, Any], Any]
_PREFIX = "2018-06-01/runtime"
_OWN_ATTRIBUTES = {*vars(logging.makeLogRecord({})), "aws_request_id"}


class LambdaContext:
    """The handler's second argument (AWS Lambda, "Using the Lambda context object", Python)."""

    def __init__(self, request_id: str, function_arn: str, deadline_ms: int) -> None:
        self.aws_request_id = request_id
        self.invoked_function_arn = function_arn
        self.function_name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]
        self.function_version = os.environ["AWS_LAMBDA_FUNCTION_VERSION"]
        self.memory_limit_in_mb = os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
        self.log_group_name = os.environ["AWS_LAMBDA_LOG_GROUP_NAME"]
        self.log_stream_name = os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]
        self.identity = None
        self.client_context = None
        self._deadline_ms = deadline_ms

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds until the invocation times out."""
        return max(self._deadline_ms - int(time.time() * 1000), 0)


class RuntimeApi:
    """Client of the runtime API: one HTTP connection to the server that started this process."""

    def __init__(self, address: str) -> None:
        host, _, path = address.partition("/")
        self._host, self._path = host, path

    def next_event(self) -> tuple[str, bytes, LambdaContext]:
        """Wait for an event; end the process if the server has ended."""
        connection = self._connection()
        connection.request("GET", f"/{self._path}/{_PREFIX}/invocation/next")
        reply = connection.getresponse()
        body = reply.read()
        if reply.status != 200:
            sys.exit(0)
        request_id = reply.headers["Lambda-Runtime-Aws-Request-Id"]
        function_arn = reply.headers["Lambda-Runtime-Invoked-Function-Arn"]
        context = LambdaContext(request_id, function_arn, int(reply.headers["Lambda-Runtime-Deadline-Ms"]))
        return request_id, body, context

    def post(self, path: str, value: bytes) -> None:
        """Send the result of an event, or the error of a function that did not start."""
        connection = self._connection()
        connection.request("POST", f"/{self._path}/{_PREFIX}/{path}", body=value)
        connection.getresponse().read()

    def _connection(self) -> HTTPConnection:
        return HTTPConnection(self._host, timeout=None)


def main() -> None:
    """Load the handler, then serve events until the server ends this process."""
    stay_on_this_machine()
    # A process that starts without paths (-I -S) cannot receive its folders otherwise; AWS's image uses PYTHONPATH.
    sys.path[:0] = os.environ.pop("LOCALCLOUD_IMPORT_PATH").split(os.pathsep)
    api = RuntimeApi(os.environ["AWS_LAMBDA_RUNTIME_API"])
    log = set_up_logging(os.environ.get("AWS_LAMBDA_LOG_FORMAT", ""), os.environ.get("AWS_LAMBDA_LOG_LEVEL", ""))
    try:
        handler = load_handler(os.environ["_HANDLER"])
    except BaseException as error:  # noqa: BLE001 - every exception, even SystemExit, is the result of the function
        _write(log.error_lines(_error(error)))
        api.post("init/error", json.dumps(_error(error)).encode())
        sys.exit(1)
    while True:
        _serve(api, handler, log)


class LambdaLog(logging.Handler):
    """The handler of the root logger, which writes records to the function's log, as in AWS's runtime.

    Source: https://github.com/aws/aws-lambda-python-runtime-interface-client, awslambdaric/bootstrap.py

    Args:
        as_json: Whether the function's log format is JSON.
    """

    request_id = ""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json
        text = "[%(levelname)s]\t%(asctime)s.%(msecs)03dZ\t%(aws_request_id)s\t%(message)s"
        self.setFormatter(JsonFormatter() if as_json else logging.Formatter(text, "%Y-%m-%dT%H:%M:%S"))
        self.formatter.converter = time.gmtime  # type: ignore[union-attr]  # set in the previous statement

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record. As in AWS, the caller gets the exception of a field that is not serializable."""
        record.aws_request_id = self.request_id
        sys.stdout.write(self.format(record) + "\n")
        sys.stdout.flush()

    def error_lines(self, error: dict[str, Any]) -> str:
        """Return the lines about an unhandled exception."""
        if self._as_json:
            return json.dumps({"timestamp": _timestamp(time.time()), "level": "ERROR", **error}) + "\n"
        trace = "".join(error["stackTrace"])
        return f"[ERROR] {error['errorType']}: {error['errorMessage']}\nTraceback (most recent call last):\n{trace}"


class JsonFormatter(logging.Formatter):
    """Formats a record with the fields of Lambda's JSON log format.

    Source: https://docs.aws.amazon.com/lambda/latest/dg/python-logging.html
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return a JSON object; `extra` is added at its top level, and empty fields are omitted."""
        line: dict[str, Any] = {
            "timestamp": _timestamp(record.created),
            "level": record.levelname,
            "message": record.getMessage(),
            "logger": record.name,
            "requestId": getattr(record, "aws_request_id", None),
        }
        if record.exc_info and record.exc_info[0]:
            kind, error, trace = record.exc_info
            line |= {"errorType": kind.__name__, "errorMessage": str(error), "stackTrace": traceback.format_tb(trace)}
            line["location"] = f"{record.pathname}:{record.funcName}:{record.lineno}"
        extra = {
            name: value for name, value in vars(record).items() if name not in _OWN_ATTRIBUTES and name not in line
        }
        return json.dumps({name: value for name, value in (line | extra).items() if value is not None})


def set_up_logging(log_format: str, level: str) -> LambdaLog:
    """Add AWS's handler to the root logger.

    Args:
        log_format: "JSON" or "Text".
        level: Lambda's application log level; empty for Python's default, WARNING.
    """
    log = LambdaLog(as_json=log_format.upper() == "JSON")
    root = logging.getLogger()
    root.addHandler(log)
    if level:  # Python has no level TRACE
        root.setLevel("DEBUG" if level.upper() == "TRACE" else level.upper())
    return log


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def stay_on_this_machine() -> None:
    """Apply the server's network guard to the function's code."""
    guard = runpy.run_path(str(Path(__file__).parents[1] / "processes/loopback.py"))
    sys.addaudithook(guard["refuse_other_machines"])


def load_handler(name: str) -> Handler:
    """Load the function of a handler string as AWS's runtime does.

    Args:
        name: For example "lambda.accept_manifest.handler": the part before the last dot is the module.

    Raises:
        ImportModuleError: If the module, or one of its imports, is missing.
        HandlerNotFoundError: If the module has no such function.
    """
    module_name, _, function_name = name.rpartition(".")
    try:
        module = importlib.import_module(module_name.replace("/", "."))
    except ImportError as error:
        message = f"Unable to import module '{module_name}': {error}"
        raise ImportModuleError(message) from error
    handler: Handler | None = getattr(module, function_name, None)
    if handler is None:
        message = f"Handler '{function_name}' missing on module '{module_name}'"
        raise HandlerNotFoundError(message)
    return handler


class ImportModuleError(Exception):
    """The error Runtime.ImportModuleError of AWS's runtime."""

    type_name = "Runtime.ImportModuleError"


class HandlerNotFoundError(Exception):
    """The error Runtime.HandlerNotFound of AWS's runtime."""

    type_name = "Runtime.HandlerNotFound"


def _serve(api: RuntimeApi, handler: Handler, log: LambdaLog) -> None:
    request_id, body, context = api.next_event()
    log.request_id = request_id
    try:
        reply = json.dumps(handler(json.loads(body or b"null"), context)).encode()
        path = f"invocation/{request_id}/response"
    except Exception as error:  # noqa: BLE001 - every exception of a handler is the result of its invocation
        error_report = _error(error, request_id)
        _write(log.error_lines(error_report))
        reply = json.dumps(error_report).encode()
        path = f"invocation/{request_id}/error"
    _write(f"\0{request_id}\n")  # marks the end of the handler's output
    api.post(path, reply)


def _write(text: str) -> None:
    with contextlib.suppress(ValueError, AttributeError):  # the handler may have closed or replaced its streams
        sys.stdout.flush()
        sys.stderr.flush()
    os.write(1, text.encode())


def _error(error: BaseException, request_id: str = "") -> dict[str, Any]:
    return {
        "errorMessage": str(error),
        "errorType": getattr(error, "type_name", type(error).__name__),
        "requestId": request_id,
        "stackTrace": traceback.format_tb(error.__traceback__)[1:],
    }


if __name__ == "__main__":
    main()
