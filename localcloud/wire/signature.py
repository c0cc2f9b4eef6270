"""Signatures of requests: AWS Signature Version 4, and 2 for S3, in a header or in a presigned URL."""

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

_CREDENTIAL = re.compile(r"Credential=([^/,\s]+)/(\d{8})/([^/,\s]+)/([^/,\s]+)/aws4_request")
_PART = re.compile(r"(SignedHeaders|Signature)=([^,\s]+)")
_VERSION_2 = re.compile(r"AWS ([^:\s]+):(\S*)")
_REGION_OF_VERSION_2 = "us-east-1"
"""Version 2 signatures have no Region. Presigned URLs of S3 still use version 2 (boto3's default in us-east-1)."""


@dataclass(frozen=True)
class Signature:
    """Scope and signature of a request, as stated by its sender.

    Attributes:
        region: Region of the scope.
        service: Signing name of the service, for example "monitoring" for CloudWatch.
        version: 4 or 2.
        presigned: True if the signature is in the query.
        date: The date of the scope, YYYYMMDD; empty in version 2.
        signed_headers: The names of the signed headers, in lower case.
    """

    access_key: str
    region: str
    service: str
    version: int = 4
    presigned: bool = False
    date: str = ""
    signed_headers: tuple[str, ...] = ()
    value: str = field(default="", repr=False)


def signature_of(environ: dict[str, Any]) -> Signature | None:
    """Read the signature from the Authorization header or from a presigned URL.

    Args:
        environ: WSGI environment of the request.

    Returns:
        The signature, which `localcloud.wire.signature_check` verifies; None if the request is not signed.
    """
    header = environ.get("HTTP_AUTHORIZATION", "")
    if match := _CREDENTIAL.search(header):
        return _version_4(match, dict(_PART.findall(header)), presigned=False)
    query = environ.get("QUERY_STRING", "")
    if "X-Amz-Credential=" in query:
        parameters = {name: values[0] for name, values in parse_qs(query).items()}
        if match := _CREDENTIAL.search(f"Credential={parameters['X-Amz-Credential']}"):
            parts = {name: parameters.get(f"X-Amz-{name}", "") for name in ("SignedHeaders", "Signature")}
            return _version_4(match, parts, presigned=True)
    if old := _VERSION_2.match(header):
        return Signature(old[1], _REGION_OF_VERSION_2, "s3", version=2, value=old[2])
    if "AWSAccessKeyId=" in query:
        parameters = {name: values[0] for name, values in parse_qs(query).items()}
        key, value = parameters.get("AWSAccessKeyId", ""), parameters.get("Signature", "")
        return Signature(key, _REGION_OF_VERSION_2, "s3", version=2, presigned=True, value=value) if key else None
    return None


def _version_4(scope: re.Match[str], parts: dict[str, str], *, presigned: bool) -> Signature:
    names = tuple(parts.get("SignedHeaders", "").lower().split(";"))
    return Signature(scope[1], scope[3], scope[4], 4, presigned, scope[2], names, parts.get("Signature", ""))
