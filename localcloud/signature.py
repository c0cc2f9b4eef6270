"""Who signed a request, for which service and Region (AWS Signature Version 4)."""

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

_CREDENTIAL = re.compile(r"Credential=([^/,\s]+)/(\d{8})/([^/,\s]+)/([^/,\s]+)/aws4_request")


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
        The scope; None where the request is not signed with version 4. Signatures are not verified: moto does not
        hold the secrets of everybody who may call it.
    """
    found = _CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION", ""))
    if not found:
        presigned = parse_qs(environ.get("QUERY_STRING", "")).get("X-Amz-Credential", [""])[0]
        found = _CREDENTIAL.search("Credential=" + presigned)
    return Signature(found[1], found[3], found[4]) if found else None
