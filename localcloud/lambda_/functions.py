"""Lambda: runs the deployed code of functions, synchronously or with AWS's asynchronous retries.

The account's concurrency is enforced: an invocation beyond it is refused, and an asynchronous event waits.
Not enforced: memory size, reserved concurrency, IAM permission to invoke. Container-image functions are refused.
"""

import base64
import threading
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar, cast

from moto.awslambda import urls as lambda_urls
from moto.awslambda.exceptions import LambdaClientError
from moto.awslambda.models import (
    EventInvokeConfig,
    EventSourceMapping,
    LambdaBackend,
    LambdaFunction,
    lambda_backends,
)
from werkzeug.wrappers import Request, Response

from localcloud.credentials.arn import account_of_arn, region_of_arn
from localcloud.lambda_ import assets, destinations, stream_mappings
from localcloud.lambda_.execution_environments import FunctionSpec, InvocationResult, Sandbox
from localcloud.lambda_.function_rules import check_function
from localcloud.lambda_.networks import check_network
from localcloud.lambda_.stream_mappings import StreamPoller
from localcloud.limits.quota import LAMBDA_CONCURRENCY

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

_IDLE_SECONDS = 120.0
_ASYNC_WORKERS = 4
_MAX_THROTTLED_WAIT = 300.0


def install(cloud: "LocalCloud") -> None:
    """Replace moto's Lambda backend with ours; no process starts before the first invocation."""
    functions = Functions(cloud)
    FunctionsBackend.functions = functions
    cloud.replace(lambda_backends, backend=FunctionsBackend)
    cloud.functions = functions
    cloud.pages["/localcloud/runtime/"] = functions.serve_runtime
    cloud.on_stop(functions.stop)


class FunctionsBackend(LambdaBackend):
    """Lambda without Docker.

    moto 5.2.5 also drops DeadLetterConfig and LoggingConfig, and uses the oldest of two invoke configs.
    """

    functions: ClassVar["Functions"]
    _url_module = lambda_urls

    def create_function(self, spec: dict[str, Any]) -> LambdaFunction:
        """Create a function from a ZIP archive.

        Raises:
            LambdaClientError: If it is a container image, which cannot run here, its configuration is invalid, or it
                cannot be connected to its subnets.
        """
        if spec.get("PackageType") == "Image":
            message = "localcloud runs only functions from ZIP archives; PackageType Image requires a container engine."
            raise LambdaClientError("InvalidParameterValueException", message)
        arn = f"arn:aws:lambda:{self.region_name}:{self.account_id}:function:{spec['FunctionName']}"
        check_function("CreateFunction", spec, spec["Role"], arn)
        check_network(spec.get("VpcConfig"), spec["Role"], self.region_name)
        function = super().create_function(spec)
        new_function = self.get_function(spec["FunctionName"])
        new_function.dead_letter_target = spec.get("DeadLetterConfig", {}).get("TargetArn")
        new_function.logging_config = spec.get("LoggingConfig", {})
        return function

    def update_function_configuration(
        self, function_name: str, qualifier: str | None, body: dict[str, Any]
    ) -> dict[str, Any]:
        """Update the configuration, including the dead-letter queue and the log format.

        Raises:
            LambdaClientError: If the configuration is invalid, or the function cannot be connected to its subnets.
        """
        function = self.get_function(function_name, qualifier)
        role = body.get("Role", function.role)
        request = {"FunctionName": function_name, **body}
        check_function("UpdateFunctionConfiguration", request, role, function.function_arn)
        check_network(body.get("VpcConfig"), role, self.region_name)
        reply: dict[str, Any] = super().update_function_configuration(function_name, qualifier, body)
        if "LoggingConfig" in body:
            function.logging_config = body["LoggingConfig"]
        if "DeadLetterConfig" in body:
            function.dead_letter_target = body["DeadLetterConfig"].get("TargetArn")
        return reply

    def put_function_event_invoke_config(self, function_name: str, config: dict[str, Any]) -> dict[str, Any]:
        """Replace the configuration; moto appends it and then reads the first one."""
        function = self.get_function(function_name)
        function.event_invoke_config = [EventInvokeConfig(function.function_arn, function.last_modified, config)]
        return cast(dict[str, Any], function.event_invoke_config[0].response())

    def create_event_source_mapping(self, spec: dict[str, Any]) -> EventSourceMapping:
        """Create the mapping of a DynamoDB stream; moto would invoke the function in the thread of each write.

        Raises:
            LambdaClientError: If AWS refuses it, or localcloud cannot serve it.
        """
        if ":dynamodb:" not in spec["EventSourceArn"]:
            message = "localcloud supports only event sources that are DynamoDB streams"
            raise LambdaClientError("InvalidParameterValueException", message)
        function = self.get_function(spec["FunctionName"])
        stream_mappings.check(spec, function)
        account_and_region = {"RegionName": self.region_name, "AccountId": self.account_id}
        mapping = EventSourceMapping({**spec, **account_and_region, "FunctionArn": function.function_arn})
        same = (mapping.function_arn, mapping.event_source_arn)
        if any(
            (existing.function_arn, existing.event_source_arn) == same
            for existing in self._event_source_mappings.values()
        ):
            raise LambdaClientError("ResourceConflictException", "An event source mapping with them already exists")
        self.functions.follow(mapping)
        self._event_source_mappings[mapping.uuid] = mapping
        return mapping

    def delete_event_source_mapping(self, uuid: str) -> EventSourceMapping | None:
        """Delete a mapping, and stop reading its stream."""
        self.functions.unfollow(uuid)
        return cast(EventSourceMapping | None, super().delete_event_source_mapping(uuid))

    def invoke(
        self, function_name: str, qualifier: str | None, body: Any, headers: Any, response_headers: Any
    ) -> str | bytes | None:
        """Run the function's code; the invocation type `Event` only queues the event."""
        function = self.get_function(function_name, qualifier)
        event = body.encode() if isinstance(body, str) else body or b"{}"
        value_by_header = {key.lower(): value for key, value in dict(headers).items()}
        kind = value_by_header.get("x-amz-invocation-type", "RequestResponse")
        response_headers["x-amz-executed-version"] = str(function.version)
        if kind == "RequestResponse":
            outcome = self.functions.run(function, event, str(uuid.uuid4()))
            if outcome is None:
                raise TooManyRequestsError
            response_headers["x-amz-log-result"] = base64.b64encode(outcome.log_tail).decode()
            if outcome.error:
                response_headers["x-amz-function-error"] = outcome.error
            return outcome.payload
        if kind == "Event":
            self.functions.run_later(function, event)
        return b""


class TooManyRequestsError(LambdaClientError):
    """Lambda's error for an invocation beyond the account's concurrency (API reference, Invoke, Errors)."""

    code = 429

    def __init__(self) -> None:
        super().__init__("TooManyRequestsException", "Rate Exceeded.")


class Functions:
    """Runs functions: provides execution environments, retries asynchronous events, and notifies destinations."""

    def __init__(self, cloud: "LocalCloud") -> None:
        self._cloud = cloud
        self._folder = cloud.data_dir / "lambda"
        self._idle: list[Sandbox] = []
        self._sandboxes: dict[str, Sandbox] = {}
        self._lock = threading.Lock()
        self._workers = ThreadPoolExecutor(_ASYNC_WORKERS, thread_name_prefix="lambda-event")
        self._timers: set[threading.Timer] = set()
        self._running: Counter[tuple[str, str]] = Counter()
        self._is_stopped = False
        self._pollers: dict[str, StreamPoller] = {}

    def follow(self, mapping: EventSourceMapping) -> None:
        """Pass the records of a mapping's stream to its function, from now on."""
        poller = StreamPoller(mapping, self)
        with self._lock:
            self._pollers[mapping.uuid] = poller
        poller.start()

    def unfollow(self, mapping: str) -> None:
        """Stop reading the stream of a mapping."""
        with self._lock:
            poller = self._pollers.pop(mapping, None)
        if poller:
            poller.stop()

    def run(self, function: LambdaFunction, event: bytes, request_id: str) -> InvocationResult | None:
        """Run a function once and wait for its end; return None if the account's concurrency is used up."""
        account_and_region = (function.account_id, function.region)
        with self._lock:
            if self._running[account_and_region] >= self._cloud.limits.value(*account_and_region, LAMBDA_CONCURRENCY):
                return None
            self._running[account_and_region] += 1
        try:
            sandbox = self._sandbox_for(self._spec(function))
            outcome = sandbox.invoke(event, request_id)
            self._give_back(sandbox)
            return outcome
        finally:
            with self._lock:
                self._running[account_and_region] -= 1

    def run_later(self, function: LambdaFunction, event: bytes) -> None:
        """Queue an asynchronous event: up to three attempts, then the function's destinations."""
        self._submit(function.function_arn, event, str(uuid.uuid4()), 1)

    def serve_runtime(self, request: Request) -> Response:
        """Serve the runtime API of every execution environment."""
        token = request.path.removeprefix("/localcloud/runtime/").split("/", 1)[0]
        sandbox = self._sandboxes.get(token)
        return sandbox.serve(request.path, request) if sandbox else Response(status=410)

    def stop(self) -> None:
        """End every execution environment; events that wait for a retry are lost."""
        with self._lock:
            self._is_stopped = True
            timers = list(self._timers)
            sandboxes = list(self._sandboxes.values())
            pollers = list(self._pollers.values())
        for poller in pollers:
            poller.stop()
        for timer in timers:
            timer.cancel()
        self._workers.shutdown(wait=False, cancel_futures=True)
        for sandbox in sandboxes:
            sandbox.close()

    def _submit(self, arn: str, event: bytes, request_id: str, attempt: int, throttled: int = 0) -> None:
        if not self._is_stopped:
            self._workers.submit(self._attempt, arn, event, request_id, attempt, throttled)

    def _attempt(self, arn: str, event: bytes, request_id: str, attempt: int, throttled: int) -> None:
        """Make one attempt. Look up the function again, because an update may have fixed it.

        A throttled event does not count as an attempt. It waits between one second and five minutes
        (https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html).
        """
        function = lambda_backends[account_of_arn(arn)][region_of_arn(arn)].get_function_by_arn(arn)
        if function is None or self._is_stopped:
            return
        outcome = self.run(function, event, request_id)
        if outcome is None:
            delay = min(2.0**throttled, _MAX_THROTTLED_WAIT)
            self._submit_later(delay, arn, event, request_id, attempt, throttled + 1)
            return
        config = function.event_invoke_config[0].config if function.event_invoke_config else {}
        retries = config.get("MaximumRetryAttempts", 2)
        if outcome.error and attempt <= retries and not self._is_stopped:
            self._retry(arn, event, request_id, attempt)
        elif not self._is_stopped:
            destinations.send_result(function, config, event, outcome, attempt)

    def _retry(self, arn: str, event: bytes, request_id: str, attempt: int) -> None:
        delays = self._cloud.settings.lambda_retry_delays_seconds
        self._submit_later(delays[min(attempt, len(delays)) - 1], arn, event, request_id, attempt + 1)

    def _submit_later(self, delay: float, *arguments: Any) -> None:
        """Call `_submit` after a delay."""
        timer = threading.Timer(delay, self._submit, arguments)
        timer.daemon = True
        with self._lock:
            self._timers = {waiting for waiting in self._timers if waiting.is_alive()} | {timer}
            timer.start()

    def _sandbox_for(self, spec: FunctionSpec) -> Sandbox:
        """Return an idle execution environment of a function's version, or a new one; end those of other versions."""
        with self._lock:
            stale = [sandbox for sandbox in self._idle if not self._is_usable(sandbox, spec)]
            self._idle = [sandbox for sandbox in self._idle if sandbox not in stale]
            idle_sandbox = next((sandbox for sandbox in self._idle if sandbox.spec == spec), None)
            if idle_sandbox:
                self._idle.remove(idle_sandbox)
        for sandbox in stale:
            self._close(sandbox)
        if idle_sandbox:
            return idle_sandbox
        sandbox = Sandbox(self._cloud, spec, self._sandboxes)
        if self._is_stopped:
            self._close(sandbox)
        return sandbox

    def _is_usable(self, sandbox: Sandbox, spec: FunctionSpec) -> bool:
        """Return True if an idle environment is reusable: not idle for too long, and of the current function."""
        replaced = (sandbox.spec.arn, sandbox.spec.version) == (spec.arn, spec.version) and sandbox.spec != spec
        return sandbox.is_alive and not replaced and sandbox.idle_seconds < _IDLE_SECONDS

    def _give_back(self, sandbox: Sandbox) -> None:
        if sandbox.is_alive and not self._is_stopped:
            with self._lock:
                self._idle.append(sandbox)
        else:
            self._close(sandbox)

    def _close(self, sandbox: Sandbox) -> None:
        self._sandboxes.pop(sandbox.token, None)
        sandbox.close()

    def _spec(self, function: LambdaFunction) -> FunctionSpec:
        backend = lambda_backends[function.account_id][function.region]
        layers = [backend.layers_versions_by_arn(layer["Arn"]) for layer in function.layers]
        folders = [assets.unpack(layer.code_bytes, layer.code_sha_256, self._folder / "layers") for layer in layers]
        code = assets.unpack(function.code_bytes, function.code_sha_256, self._folder / "code")
        logging = getattr(function, "logging_config", {})
        log_format = logging.get("LogFormat", "Text")
        level = logging.get("ApplicationLogLevel", "INFO") if log_format == "JSON" else ""
        in_layers = (path for folder in reversed(folders) for path in assets.layer_paths(folder))
        return FunctionSpec(
            name=function.function_name,
            arn=function.function_arn,
            version=str(function.version),
            region=function.region,
            role=function.role,
            handler=function.handler,
            timeout=float(function.timeout),
            memory=int(function.memory_size),
            log_format=log_format,
            log_level=level,
            variables=tuple(sorted(function.environment_vars.items())),
            code=code,
            import_path=(code, *in_layers, assets.runtime_packages(self._folder)),
        )
