"""Verification of signatures: accepts a call only if its sender knows the secret of the stated access key.

botocore's own signers compute the expected signature, over the headers that the request declares as signed.
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

import hashlib
import hmac
import re
import time
from calendar import timegm
from email.utils import parsedate_to_datetime
from http.client import HTTPMessage
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from botocore.auth import UNSIGNED_PAYLOAD, HmacV1Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from localcloud.wire.record import buffered
from localcloud.wire.signature import Signature

_CLOCK_SKEW_SECONDS = 15 * 60
"""https://docs.aws.amazon.com/AmazonS3/latest/API/RESTAuthentication.html: RequestTimeTooSkewed after 15 minutes."""
_MAX_PRESIGNED_SECONDS = 7 * 24 * 3600
"""https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html: X-Amz-Expires is at most seven days."""
_RAW_PATH_SERVICES = frozenset({"s3", "s3-outposts", "s3-object-lambda", "s3express"})
"""S3 signs the path as sent; every other service encodes it once more (botocore.auth.S3SigV4Auth)."""
_HASH = re.compile(r"[0-9a-f]{64}")
_MISMATCH = (
    "The request signature we calculated does not match the signature you provided. "
    "Check your AWS Secret Access Key and signing method."
)


def flaw_of(environ: dict[str, Any], signature: Signature, credentials: Credentials) -> str | None:
    """Verify the signature of a request.

    The chunk signatures of an `aws-chunked` body are not verified, because the signature of the headers, which starts
    their chain, already requires the secret.

    Args:
        environ: WSGI environment of the request; its body can be read again afterwards.
        signature: The signature, as stated in the request.
        credentials: Secret and session token of its access key.

    Returns:
        The reason to refuse the request; None if its signature is valid and recent.
    """
    query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    if signature.version == 2:
        return _flaw_of_version_2(environ, signature, credentials, query)
    parameters = {name: values[0] for name, values in query.items()} if signature.presigned else {}
    request_time = (
        parameters.get("X-Amz-Date") or environ.get("HTTP_X_AMZ_DATE") or _long_date(environ.get("HTTP_DATE", ""))
    )
    # A presigned call of STS is valid for 15 minutes, regardless of X-Amz-Expires:
    # https://github.com/kubernetes-sigs/aws-iam-authenticator/blob/master/pkg/token/token.go (requestPresignParam)
    expires = None if signature.service == "sts" else parameters.get("X-Amz-Expires")
    if flaw := _time_flaw(request_time, signature.date, expires):
        return flaw
    token = parameters.get("X-Amz-Security-Token") if signature.presigned else environ.get("HTTP_X_AMZ_SECURITY_TOKEN")
    if not _is_same(token or "", credentials.token or ""):
        return "The security token included in the request is invalid."
    payload = _payload_hash(environ, signature)
    if payload is None:
        return "The provided 'x-amz-content-sha256' header does not match what was computed."
    request = _request(environ, {name: _header(environ, name) for name in signature.signed_headers})
    request.params = _pairs(environ.get("QUERY_STRING", ""))
    request.context["timestamp"] = request_time
    signer = _Version4(credentials, signature, payload)
    expected = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    return None if "host" in signature.signed_headers and _is_same(expected, signature.value) else _MISMATCH


class _Version4(SigV4Auth):
    """botocore's signer, restricted to the headers and the payload hash that a request states."""

    def __init__(self, credentials: Credentials, signature: Signature, payload: str) -> None:
        super().__init__(credentials, signature.service, signature.region)
        self._signature, self._payload = signature, payload

    def headers_to_sign(self, request: AWSRequest) -> HTTPMessage:
        return request.headers

    def payload(self, request: AWSRequest) -> str:  # noqa: ARG002 - botocore's signature
        return self._payload

    def _normalize_url_path(self, path: str) -> str:
        return path if self._signature.service in _RAW_PATH_SERVICES else str(super()._normalize_url_path(path))  # type: ignore[misc] # absent from botocore-stubs


class _Version2(HmacV1Auth):
    """botocore's signer of version 2, with the time that a request states."""

    def __init__(self, credentials: Credentials, date: str) -> None:
        super().__init__(credentials)
        self._date = date

    def _get_date(self) -> str:
        return self._date


def _flaw_of_version_2(
    environ: dict[str, Any], signature: Signature, credentials: Credentials, query: dict[str, list[str]]
) -> str | None:
    """Verify a version 2 signature (https://docs.aws.amazon.com/AmazonS3/latest/API/RESTAuthentication.html)."""
    expires = query.get("Expires", ["0"])[0]
    names = [name for name in environ if name.startswith(("HTTP_X_AMZ_", "HTTP_CONTENT_MD5", "CONTENT_TYPE"))]
    headers = {name.removeprefix("HTTP_").replace("_", "-").lower(): environ[name] for name in names if environ[name]}
    if signature.presigned:
        if not expires.isdigit() or int(expires) < time.time():
            return "Request has expired."
        headers |= {name: values[0] for name, values in query.items() if name.startswith("x-amz-")}
    elif flaw := _time_flaw(_long_date(environ.get("HTTP_X_AMZ_DATE") or environ.get("HTTP_DATE", "")), "", None):
        return flaw
    if credentials.token and not _is_same(headers.get("x-amz-security-token", ""), credentials.token):
        return "The security token included in the request is invalid."
    request = _request(environ, headers)
    date = "" if "HTTP_X_AMZ_DATE" in environ else environ.get("HTTP_DATE", "")
    signer = _Version2(credentials, expires if signature.presigned else date)
    expected = signer.get_signature(request.method, urlsplit(request.url), request.headers)
    return None if _is_same(expected, signature.value) else _MISMATCH


def _time_flaw(stated: str, scope_date: str, expires: str | None) -> str | None:
    try:
        age = time.time() - timegm(time.strptime(stated, "%Y%m%dT%H%M%SZ"))
        longest = _CLOCK_SKEW_SECONDS if expires is None else min(int(expires), _MAX_PRESIGNED_SECONDS)
    except ValueError:
        return "The request has no date in the form 20261231T235959Z."
    if scope_date and not stated.startswith(scope_date):
        return "The date in the credential scope does not match the date of the request."
    if age > longest or age < -_CLOCK_SKEW_SECONDS:
        return "Signature expired: the request is too old, or from the future. Check this machine's clock."
    return None


def _payload_hash(environ: dict[str, Any], signature: Signature) -> str | None:
    """Return the payload hash for the canonical request; None if the body differs from the signed one."""
    stated_hash = str(environ.get("HTTP_X_AMZ_CONTENT_SHA256", ""))
    if signature.presigned and signature.service in _RAW_PATH_SERVICES and not stated_hash:
        return UNSIGNED_PAYLOAD
    if stated_hash and not _HASH.fullmatch(stated_hash):  # UNSIGNED-PAYLOAD and STREAMING-..., which only S3 accepts
        return stated_hash if signature.service in _RAW_PATH_SERVICES else None
    computed = hashlib.sha256(buffered(environ).body).hexdigest()
    return computed if stated_hash in ("", computed) else None


def _request(environ: dict[str, Any], headers: dict[str, str]) -> Any:
    """Return the request in the form that botocore's signers read, without its body."""
    address = str(environ["RAW_URI"])
    url = address if address.startswith("http") else f"http://{environ.get('HTTP_HOST', '')}{address}"
    return AWSRequest(method=environ["REQUEST_METHOD"], url=url, headers=headers)


def _header(environ: dict[str, Any], name: str) -> str:
    key = name.upper().replace("-", "_")
    value = str(environ.get(key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}", ""))
    return value.encode("latin-1").decode(errors="replace")  # PEP 3333


def _pairs(query: str) -> list[tuple[str, str]]:
    """Return names and values of a query; `+` is not a space (Signature Version 4, "Create a canonical request")."""
    pairs = [pair.partition("=") for pair in query.split("&")] if query else []
    return [(unquote(name), unquote(value)) for name, _, value in pairs if name != "X-Amz-Signature"]


def _long_date(http_date: str) -> str:
    try:
        return parsedate_to_datetime(http_date).strftime("%Y%m%dT%H%M%SZ")
    except ValueError:
        return ""


def _is_same(first: str, second: str) -> bool:
    return hmac.compare_digest(first.encode(), second.encode())
