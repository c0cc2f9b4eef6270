"""The runtime of a Lambda function's process: fetches events from the runtime API and calls the handler.

Standard library only, because it is started without site-packages: what a function can import is what AWS's runtime
has, its layers and its own asset. Speaks the protocol of AWS's documentation, "Using the Lambda runtime API".
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
        """Milliseconds until the invocation times out."""
        return max(self._deadline_ms - int(time.time() * 1000), 0)


class RuntimeApi:
    """The other end of this process: one HTTP connection to the server that started it."""

    def __init__(self, address: str) -> None:
        host, _, path = address.partition("/")
        self._host, self._path = host, path

    def next_event(self) -> tuple[str, bytes, Context]:
        """Wait for an event; a server that went away ends the process."""
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
        """Answer an event, or say why the function does not start."""
        connection = self._connection()
        connection.request("POST", f"/{self._path}/{_PREFIX}/{path}", body=value)
        connection.getresponse().read()

    def _connection(self) -> HTTPConnection:
        return HTTPConnection(self._host, timeout=None)


def main() -> None:
    """Load the handler, then serve events until the server ends this process."""
    stay_on_this_machine()
    # A process that starts empty (-I -S) has no other way to get its folders; on AWS the image's PYTHONPATH does it.
    sys.path[:0] = os.environ.pop("LOCALCLOUD_IMPORT_PATH").split(os.pathsep)
    api = RuntimeApi(os.environ["AWS_LAMBDA_RUNTIME_API"])
    try:
        handler = load_handler(os.environ["_HANDLER"])
    except BaseException as error:  # noqa: BLE001 - whatever the function's code raises is its answer, SystemExit too
        _say(traceback.format_exc())
        api.post("init/error", _error(error))
        sys.exit(1)
    while True:
        _serve(api, handler)


def stay_on_this_machine() -> None:
    """The guard of the server's own process, for the function's code as well."""
    guard = runpy.run_path(str(Path(__file__).with_name("loopback.py")))
    sys.addaudithook(guard["refuse_other_machines"])


def load_handler(name: str) -> Handler:
    """Find the function that a handler string names, as AWS's runtime does.

    Args:
        name: E.g. "lambda.accept_manifest.handler": everything before the last dot is the module.

    Returns:
        The handler.

    Raises:
        ImportModuleError: The module, or something that it imports, is missing.
        HandlerNotFoundError: The module has no such function.
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
    """AWS's runtime calls it Runtime.ImportModuleError."""

    type_name = "Runtime.ImportModuleError"


class HandlerNotFoundError(Exception):
    """AWS's runtime calls it Runtime.HandlerNotFound."""

    type_name = "Runtime.HandlerNotFound"


def _serve(api: RuntimeApi, handler: Handler) -> None:
    request_id, body, context = api.next_event()
    try:
        answer = json.dumps(handler(json.loads(body or b"null"), context)).encode()
        path = f"invocation/{request_id}/response"
    except Exception as error:  # noqa: BLE001 - whatever a handler raises is the answer of its invocation
        _say(f"[ERROR] {type(error).__name__}: {error}\n{traceback.format_exc()}")
        answer, path = _error(error, request_id), f"invocation/{request_id}/error"
    _say(f"\0{request_id}\n")  # everything that the handler printed is before this line
    api.post(path, answer)


def _say(text: str) -> None:
    with contextlib.suppress(ValueError, AttributeError):  # a handler may have closed or replaced its streams
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
