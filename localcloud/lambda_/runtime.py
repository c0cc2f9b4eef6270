"""The runtime of a Lambda function's process: fetches events from the runtime API and calls the handler.

It uses only the standard library, because it starts without site-packages: a function can import the packages of AWS's
runtime, its layers and its own code. The protocol is that of AWS's documentation, "Using the Lambda runtime API".
"""

import contextlib
import importlib
import json
import os
import runpy
import sys
import time
import traceback
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

Handler = Callable[[Any, Any], Any]
_PREFIX = "2018-06-01/runtime"


class Context:
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

    def next_event(self) -> tuple[str, bytes, Context]:
        """Wait for an event; end the process if the server has ended."""
        connection = self._connection()
        connection.request("GET", f"/{self._path}/{_PREFIX}/invocation/next")
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            sys.exit(0)
        request_id = answer.headers["Lambda-Runtime-Aws-Request-Id"]
        function_arn = answer.headers["Lambda-Runtime-Invoked-Function-Arn"]
        context = Context(request_id, function_arn, int(answer.headers["Lambda-Runtime-Deadline-Ms"]))
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
    try:
        handler = load_handler(os.environ["_HANDLER"])
    except BaseException as error:  # noqa: BLE001 - every exception, even SystemExit, is the result of the function
        _say(traceback.format_exc())
        api.post("init/error", _error(error))
        sys.exit(1)
    while True:
        _serve(api, handler)


def stay_on_this_machine() -> None:
    """Apply the server's network guard to the function's code."""
    guard = runpy.run_path(str(Path(__file__).parents[1] / "processes/loopback.py"))
    sys.addaudithook(guard["refuse_other_machines"])


def load_handler(name: str) -> Handler:
    """Load the function of a handler string as AWS's runtime does.

    Args:
        name: For example "lambda.accept_manifest.handler": the part before the last dot is the module.

    Returns:
        The handler.

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


def _serve(api: RuntimeApi, handler: Handler) -> None:
    request_id, body, context = api.next_event()
    try:
        answer = json.dumps(handler(json.loads(body or b"null"), context)).encode()
        path = f"invocation/{request_id}/response"
    except Exception as error:  # noqa: BLE001 - every exception of a handler is the result of its invocation
        _say(f"[ERROR] {type(error).__name__}: {error}\n{traceback.format_exc()}")
        answer, path = _error(error, request_id), f"invocation/{request_id}/error"
    _say(f"\0{request_id}\n")  # marks the end of the handler's output
    api.post(path, answer)


def _say(text: str) -> None:
    with contextlib.suppress(ValueError, AttributeError):  # the handler may have closed or replaced its streams
        sys.stdout.flush()
        sys.stderr.flush()
    os.write(1, text.encode())


def _error(error: BaseException, request_id: str = "") -> bytes:
    described: dict[str, Any] = {
        "errorMessage": str(error),
        "errorType": getattr(error, "type_name", type(error).__name__),
        "requestId": request_id,
        "stackTrace": traceback.format_tb(error.__traceback__)[1:],
    }
    return json.dumps(described).encode()


if __name__ == "__main__":
    main()
