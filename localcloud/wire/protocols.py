"""AWS's wire protocols: reads the operation and its parameters from an HTTP request.

The protocols: query (an Action in a form), JSON (an X-Amz-Target header), RPC v2 CBOR (the path), and REST (method and
path, looked up in botocore's service models).
"""

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, unquote

import botocore.session
from botocore.model import OperationModel
from botocore.parsers import RpcV2CBORParser

_LONG = 4096
_SERVICE_OF_SIGNING_NAME = {"monitoring": "cloudwatch", "states": "stepfunctions", "elasticloadbalancing": "elbv2"}
_CBOR_PATH = re.compile(r"/service/[^/]+/operation/(\w+)$")
_JSON_TYPES = ("application/json", "application/x-amz-json")


@dataclass(frozen=True)
class Request:
    """An HTTP request from a WSGI environment and its whole body; `headers` contains header names in lower case.

    `raw_path` is the path as sent, in which a parameter can contain an encoded slash; if it is empty, it is `path`.
    """

    method: str
    path: str
    query: str
    target: str
    content_type: str
    headers: frozenset[str]
    body: bytes
    raw_path: str = ""


@dataclass(frozen=True)
class Call:
    """One AWS operation with its parameters; binary data and, by default, long texts become size and SHA-256."""

    action: str
    parameters: dict[str, Any]


def read_call(service: str, request: Request, *, whole_texts: bool = False) -> Call | None:
    """Find the operation of a request.

    Args:
        service: The service's signing name.
        whole_texts: Keep long texts, for a caller that reads them; the record does not.

    Returns:
        The call; None if the request contains no operation that botocore knows.
    """
    name_and_parameters = _named_call(service, request)
    return name_and_parameters and Call(
        name_and_parameters[0], abridged(name_and_parameters[1], whole_texts=whole_texts)
    )


def _named_call(service: str, request: Request) -> tuple[str, dict[str, Any]] | None:
    """Return the operation of a request, and its unchanged parameters."""
    if request.target:
        return request.target.rsplit(".", 1)[-1], _json(request.body)
    if cbor := _CBOR_PATH.search(request.path):
        return cbor[1], _cbor(request.body)
    form = _form(request)
    if action := form.get("Action"):
        return action, {key: value for key, value in form.items() if key not in ("Action", "Version")}
    return _rest_call(_SERVICE_OF_SIGNING_NAME.get(service, service), request)


def abridged(value: Any, *, whole_texts: bool = False) -> Any:
    """Return a JSON value in which `{"size": bytes, "sha256": hex}` replaces binary data and long texts."""
    if isinstance(value, dict):
        return {str(key): abridged(item, whole_texts=whole_texts) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [abridged(item, whole_texts=whole_texts) for item in value]
    if isinstance(value, bytes):
        return {"size": len(value), "sha256": hashlib.sha256(value).hexdigest()}
    if isinstance(value, str) and len(value) > _LONG and not whole_texts:
        return abridged(value.encode())
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _form(request: Request) -> dict[str, str]:
    """Return the parameters of a call in the query protocol: in the body, or in the URL if presigned."""
    body = request.body.decode(errors="replace") if "form-urlencoded" in request.content_type else ""
    pairs = [*parse_qsl(request.query), *parse_qsl(body)]
    return {name: value for name, value in pairs if not name.startswith("X-Amz-")}


def _json(body: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(body or b"{}")
    except ValueError:
        return {"Body": body}
    return parsed if isinstance(parsed, dict) else {"Body": parsed}


def _cbor(body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    parser = RpcV2CBORParser()
    parsed = parser.parse_data_item(parser.get_peekable_stream_from_bytes(body))
    return parsed if isinstance(parsed, dict) else {}


@dataclass(frozen=True)
class _Route:
    operation: str
    method: str
    path: re.Pattern[str]
    constants: frozenset[tuple[str, str]]
    queries: frozenset[str]
    required: frozenset[str]

    def rank(self) -> tuple[int, int]:
        """Return a sort key, most specific first: required query and headers, then the path's fixed length."""
        fixed = re.sub(r"\(.*?\)", "", self.path.pattern)
        return -len(self.constants) - len(self.required), -len(fixed)

    def leads(self, method: str, query: dict[str, str], headers: frozenset[str]) -> bool:
        """Return True if a request with a matching path has this route; S3 distinguishes CopyObject by a header."""
        return (
            self.method == method and self.constants <= frozenset(query.items()) and self.required <= {*query, *headers}
        )


@cache
def _routes(service: str) -> list[_Route]:
    loader = botocore.session.Session().get_component("data_loader")
    if service not in loader.list_available_services("service-2"):
        return []
    model = botocore.session.Session().get_service_model(service)
    return sorted((_route(model.operation_model(name)) for name in model.operation_names), key=_Route.rank)


def _route(operation: OperationModel) -> _Route:
    path, _, query = operation.http["requestUri"].partition("?")
    pattern = re.sub(
        r"\\{(\w+)(\\\+)?\\}",
        lambda match: f"(?P<{match[1]}>.+)" if match[2] else f"(?P<{match[1]}>[^/]+)",
        re.escape(path),
    )
    shapes = operation.input_shape.members if operation.input_shape else {}
    required = operation.input_shape.required_members if operation.input_shape else []
    places = {
        name: (str(shape.serialization.get("location")), str(shape.serialization.get("name")))
        for name, shape in shapes.items()
    }
    return _Route(
        operation.name,
        operation.http["method"],
        re.compile(pattern.rstrip("/") + "/?$"),
        frozenset(parse_qsl(query, keep_blank_values=True)),
        frozenset(name for place, name in places.values() if place == "querystring"),
        frozenset(
            places[member][1] if places[member][0] == "querystring" else places[member][1].lower()
            for member in required
            if places[member][0] in ("querystring", "header")
        ),
    )


def _rest_call(service: str, request: Request) -> tuple[str, dict[str, Any]] | None:
    query = dict(parse_qsl(request.query, keep_blank_values=True))
    for route in _routes(service):
        match = route.path.match(request.raw_path or request.path)
        if match and route.leads(request.method, query, request.headers):
            path_parameters = {name: unquote(value) for name, value in match.groupdict().items()}
            extra = {key: value for key, value in query.items() if key in route.queries}
            return route.operation, path_parameters | extra | _rest_body(request)
    return None


def _rest_body(request: Request) -> dict[str, Any]:
    if not request.body:
        return {}
    if request.content_type.startswith(_JSON_TYPES) or request.body[:1] == b"{":
        return _json(request.body)
    return {"Body": request.body.decode() if request.body[:1] == b"<" else request.body}
