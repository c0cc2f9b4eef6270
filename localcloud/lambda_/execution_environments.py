"""Execution environments of Lambda functions: one process each, kept warm between events.

As on AWS, an environment serves one event at a time and is reused; it is replaced when the function changes. The memory
size is not enforced. Initialisation may take a minute instead of 10 seconds, because a single laptop runs the whole
cloud.
"""

import json
import os
import queue
import sys
import threading
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from werkzeug.wrappers import Request, Response

from localcloud.credentials import access_keys
from localcloud.credentials.arn import account_of_arn
from localcloud.log_streams import LogStream, ensure_group
from localcloud.processes.process_group import ProcessGroup

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

INIT_SECONDS = 60.0
_LAST_LINE_SECONDS = 2.0
_LOG_TAIL_BYTES = 4096  # AWS Lambda, Invoke: LogResult contains the last 4 KB
_Outcome = Literal["response", "error", "init", "exit", "timeout"]
"""How an event ends: with the handler's response or error, with a failed initialisation, with the end of the process,
or at the timeout."""


@dataclass(frozen=True, kw_only=True)
class FunctionSpec:
    """The properties of an execution environment; a different spec requires a different environment.

    Attributes:
        version: "$LATEST" or a number.
        role: ARN of its execution role.
        timeout: Seconds.
        memory: MB; passed to the function, not enforced.
        log_format: "Text" or "JSON".
        log_level: The application log level; empty for the log format Text.
        variables: Its environment variables, as sorted pairs.
        code: Folder with the unpacked asset.
        import_path: Folders to import from, in order of precedence.
    """

    name: str
    arn: str
    version: str
    region: str
    role: str
    handler: str
    timeout: float
    memory: int
    log_format: str
    log_level: str
    variables: tuple[tuple[str, str], ...]
    code: Path
    import_path: tuple[Path, ...]


@dataclass(frozen=True)
class InvocationResult:
    """The result of one invocation.

    Attributes:
        payload: The handler's result, or AWS's error object, as JSON.
        error: "Unhandled" or None.
        log_tail: The last 4 KB of the log.
    """

    payload: bytes
    error: str | None
    log_tail: bytes
    request_id: str


class Sandbox:
    """One execution environment."""

    def __init__(self, cloud: "LocalCloud", spec: FunctionSpec, by_token: dict[str, "Sandbox"]) -> None:
        self.spec = spec
        self.token = uuid.uuid4().hex
        by_token[self.token] = self  # before the process starts, because it requests events with this token
        self._idle_since = time.monotonic()
        self._events: queue.Queue[tuple[str, bytes] | None] = queue.Queue()
        self._outcomes: queue.Queue[tuple[_Outcome, bytes]] = queue.Queue()
        self._ready = threading.Event()
        self._output_complete = threading.Event()
        self._log_tail: list[bytes] = []
        self._request_id = ""
        self._must_be_replaced = False
        today = datetime.now(UTC).strftime("%Y/%m/%d")
        stream = f"{today}/[{spec.version}]{self.token}"
        group = f"/aws/lambda/{spec.name}"
        account = account_of_arn(spec.arn)
        ensure_group(account, spec.region, group)
        self._log = LogStream(account, spec.region, group, stream)
        environment = cloud.environment_for(spec.region, spec.role, self._variables(cloud, group, stream))
        access_keys.belongs_to_function(environment["AWS_ACCESS_KEY_ID"], spec.arn)
        self._process = ProcessGroup(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("runtime.py"))],
            environment=environment,
            working_directory=spec.code,
            on_line=self._read_line,
            label=f"lambda/{spec.name}",
        )
        threading.Thread(target=self._watch, name=f"lambda-{spec.name}", daemon=True).start()

    def invoke(self, event: bytes, request_id: str) -> InvocationResult:
        """Run the handler on one event and wait for the end.

        Args:
            event: JSON.
            request_id: Id of the invocation; a retry has the same id.
        """
        self._log_tail.clear()
        self._output_complete.clear()
        self._request_id = request_id
        self._write(f"START RequestId: {request_id} Version: {self.spec.version}")
        self._ready.wait(INIT_SECONDS)  # the runtime's first call starts the function's own timeout
        started_at = time.monotonic()
        self._events.put((request_id, event))
        outcome, payload = self._await_outcome(request_id)
        self._must_be_replaced = outcome not in ("response", "error")
        if outcome != "exit":
            self._output_complete.wait(0 if self._must_be_replaced else _LAST_LINE_SECONDS)
        self._report(request_id, time.monotonic() - started_at)
        self._idle_since = time.monotonic()
        error = None if outcome == "response" else "Unhandled"
        return InvocationResult(payload, error, self._log_tail_bytes(), request_id)

    @property
    def is_alive(self) -> bool:
        """Return True if it can accept another event; a killed process may take a moment to end."""
        return not self._must_be_replaced and self._process.wait(0) is None

    @property
    def idle_seconds(self) -> float:
        """Return the seconds since its last event."""
        return time.monotonic() - self._idle_since

    def close(self) -> None:
        """Kill the process; AWS also removes idle environments without notice."""
        self._events.put(None)
        self._process.kill()
        self._process.wait()
        self._log.flush()

    def serve(self, path: str, request: Request) -> Response:
        """Answer a runtime API call of the process."""
        if path.endswith("/invocation/next"):
            return self._next_event()
        if path.endswith("/init/error"):
            self._outcomes.put(("init", request.get_data()))
            self._ready.set()
        else:
            outcome: _Outcome = "response" if path.endswith("/response") else "error"
            self._outcomes.put((outcome, request.get_data()))
        return Response(status=202)

    def _next_event(self) -> Response:
        self._ready.set()
        item = self._events.get()
        if item is None:
            return Response(status=410)
        request_id, event = item
        deadline = int((time.time() + self.spec.timeout) * 1000)
        headers = {
            "Lambda-Runtime-Aws-Request-Id": request_id,
            "Lambda-Runtime-Invoked-Function-Arn": self.spec.arn,
            "Lambda-Runtime-Deadline-Ms": str(deadline),
        }
        return Response(event, headers=headers, mimetype="application/json")

    def _await_outcome(self, request_id: str) -> tuple[_Outcome, bytes]:
        """Return how the event ended, and the payload of the invocation; kill the process after the timeout."""
        try:
            outcome, payload = self._outcomes.get(timeout=self.spec.timeout if self._ready.is_set() else 0.0)
        except queue.Empty:
            self._process.kill()
            sentence = f"Task timed out after {self.spec.timeout:.2f} seconds"
            self._write(f"{_now()} {request_id} {sentence}")
            return "timeout", _error("Sandbox.Timedout", f"RequestId: {request_id} Error: {sentence}")
        if outcome == "exit":
            text = f"RequestId: {request_id} Error: Runtime exited with error: {payload.decode()}"
            return outcome, _error("Runtime.ExitError", text)
        return outcome, payload

    def _watch(self) -> None:
        code = self._process.wait()
        self._outcomes.put(("exit", f"exit status {code}".encode()))
        self._ready.set()
        self._output_complete.set()

    def _read_line(self, line: str) -> None:
        text, end_mark, _ = line.partition(f"\0{self._request_id}")
        if text or not end_mark:  # output without a line break precedes the runtime's mark on its line
            self._write(text)
        if end_mark:
            self._output_complete.set()

    def _write(self, line: str) -> None:
        self._log_tail.append(line.encode() + b"\n")
        self._log.write(line)

    def _report(self, request_id: str, seconds: float) -> None:
        self._write(f"END RequestId: {request_id}")
        milliseconds = seconds * 1000
        self._write(
            f"REPORT RequestId: {request_id}\tDuration: {milliseconds:.2f} ms\tBilled Duration: "
            f"{int(milliseconds) + 1} ms\tMemory Size: {self.spec.memory} MB"
        )
        self._log.flush()

    def _log_tail_bytes(self) -> bytes:
        return b"".join(self._log_tail)[-_LOG_TAIL_BYTES:]

    def _variables(self, cloud: "LocalCloud", group: str, stream: str) -> dict[str, str]:
        """Return the variables of AWS Lambda, "Defined runtime environment variables", then the function's own."""
        spec = self.spec
        address = cloud.endpoint_url.removeprefix("http://")
        return {
            "TZ": ":UTC",
            "_HANDLER": spec.handler,
            "AWS_EXECUTION_ENV": f"AWS_Lambda_python{sys.version_info.major}.{sys.version_info.minor}",
            "AWS_LAMBDA_FUNCTION_NAME": spec.name,
            "AWS_LAMBDA_FUNCTION_VERSION": spec.version,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(spec.memory),
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_LAMBDA_LOG_FORMAT": spec.log_format,
            "AWS_LAMBDA_LOG_GROUP_NAME": group,
            "AWS_LAMBDA_LOG_STREAM_NAME": stream,
            "AWS_LAMBDA_RUNTIME_API": f"{address}/localcloud/runtime/{self.token}",
            "LAMBDA_TASK_ROOT": str(spec.code),
            "LOCALCLOUD_IMPORT_PATH": os.pathsep.join(map(str, spec.import_path)),
            **({"AWS_LAMBDA_LOG_LEVEL": spec.log_level} if spec.log_level else {}),
            **dict(spec.variables),
        }


def _error(kind: str, message: str) -> bytes:
    error: dict[str, Any] = {"errorType": kind, "errorMessage": message}
    return json.dumps(error).encode()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
