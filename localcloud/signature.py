"""Who signed a request, for which service and Region (AWS Signature Version 4, and 2 for S3)."""

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

_CREDENTIAL = re.compile(r"Credential=([^/,\s]+)/(\d{8})/([^/,\s]+)/([^/,\s]+)/aws4_request")
_VERSION_2 = re.compile(r"AWS ([^:\s]+):")
_REGION_OF_VERSION_2 = "us-east-1"
"""Version 2 signs for no Region; what still uses it are presigned URLs of S3 (boto3's default there)."""


@dataclass(frozen=True)
class Signature:
    """The credential scope of a request.

    Attributes:
        access_key: Access key id.
        region: Region it was signed for.
        service: Signing name of the service, e.g. "monitoring" for CloudWatch.
    """

    access_key: str
    region: str
    service: str


def signature_of(environ: dict[str, Any]) -> Signature | None:
    """Read the scope from the Authorization header or from a presigned URL.

    Args:
        environ: WSGI environment of the request.

    Returns:
        The scope; None where the request is not signed. Signatures are not verified: moto does not
        hold the secrets of everybody who may call it.
    """
    found = _CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION", ""))
    query = parse_qs(environ.get("QUERY_STRING", ""))
    if not found:
        found = _CREDENTIAL.search("Credential=" + query.get("X-Amz-Credential", [""])[0])
    if found:
        return Signature(found[1], found[3], found[4])
    old = _VERSION_2.match(environ.get("HTTP_AUTHORIZATION", ""))
    key = old[1] if old else query.get("AWSAccessKeyId", [""])[0]
    return Signature(key, _REGION_OF_VERSION_2, "s3") if key else None
