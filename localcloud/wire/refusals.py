"""AWS's errors, in the wire protocol of the refused request."""

import json
from http import HTTPStatus
from typing import Any
from xml.sax.saxutils import escape

from werkzeug.wrappers import Response

XML_SERVICES = frozenset(
    {"s3", "iam", "sts", "sns", "ec2", "cloudformation", "autoscaling", "elasticloadbalancing", "rds", "email"}
)
"""Signing names of the services that respond in XML (protocols query, ec2 and rest-xml in botocore's models)."""


def refusal(environ: dict[str, Any], status: HTTPStatus, code: str, message: str, service: str) -> Response:
    """Return an error in the protocol of a request.

    Args:
        environ: WSGI environment of the request.
        code: AWS's error code.
        message: AWS's text, and the next step.
        service: Signing name of the service; "" if it is unknown.
    """
    headers = {"x-amzn-ErrorType": code, "x-amzn-query-error": f"{code};Sender"}
    if "cbor" in environ.get("CONTENT_TYPE", ""):
        body = b"\xa2" + _cbor_text("__type") + _cbor_text(code) + _cbor_text("message") + _cbor_text(message)
        return Response(body, status, headers | {"smithy-protocol": "rpc-v2-cbor"}, mimetype="application/cbor")
    if service not in XML_SERVICES:
        text = json.dumps({"__type": code, "message": message})
        return Response(text, status, headers, mimetype="application/x-amz-json-1.1")
    text = f"<ErrorResponse><Error><Code>{code}</Code><Message>{escape(message)}</Message></Error></ErrorResponse>"
    return Response(text, status, headers, mimetype="text/xml")


def _cbor_text(text: str) -> bytes:
    """Return a text of up to 65,535 bytes as CBOR (RFC 8949, major type 3 with a two-byte length)."""
    encoded = text.encode()
    return b"\x79" + len(encoded).to_bytes(2, "big") + encoded
