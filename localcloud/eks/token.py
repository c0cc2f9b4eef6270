"""Tokens: the bearer token of a client, which is a presigned call of STS GetCallerIdentity.

The checks are those of function Verify in
https://github.com/kubernetes-sigs/aws-iam-authenticator/blob/master/pkg/token/token.go, which EKS runs. It sends the
call to STS; here the signature is verified in the same process. Instead of the hosts of STS, the call must name this
server, over HTTP.
"""

import base64
import binascii
import io
from typing import Any
from urllib.parse import parse_qs, urlsplit

from localcloud.credentials import access_keys
from localcloud.eks.token_form import CLUSTER_HEADER, PREFIX
from localcloud.wire.signature import signature_of
from localcloud.wire.signature_check import flaw_of

_MAX_TOKEN_LENGTH = 4096
_MAX_EXPIRY_SECONDS = 900
_PARAMETERS = frozenset(
    {"action", "version", *(f"x-amz-{name}" for name in ("algorithm", "credential", "date", "expires"))}
    | {f"x-amz-{name}" for name in ("security-token", "signature", "signedheaders")}
)


class TokenError(Exception):
    """A token is not valid; the message is for the log only, because clients get 401 without a reason."""


def arn_of(token: str, cluster: str, port: int) -> str:
    """Return the ARN of the principal that signed a token.

    Args:
        cluster: The name of the cluster, which the signature includes.
        port: The port of this server.

    Raises:
        TokenError: The token is not valid.
    """
    environ = _request(_url(token), cluster, port)
    signature = signature_of(environ)
    if signature is None or signature.service != "sts":
        raise TokenError("the call is not signed for STS")
    if CLUSTER_HEADER not in signature.signed_headers:
        raise TokenError(f"the header {CLUSTER_HEADER} is not signed")
    credentials = access_keys.credentials_of(signature.access_key)
    if credentials is None:
        raise TokenError("the access key is not known")
    if flaw := flaw_of(environ, signature, credentials):
        raise TokenError(flaw)
    return str(access_keys.principal_of(signature.access_key))


def access_key_of(token: str) -> str:
    """Return the access key that a token names, without verifying the token; empty if there is none."""
    try:
        signature = signature_of({"QUERY_STRING": urlsplit(_url(token)).query})
    except (TokenError, ValueError):
        return ""
    return signature.access_key if signature else ""


def _url(token: str) -> str:
    if len(token) > _MAX_TOKEN_LENGTH or not token.startswith(PREFIX):
        raise TokenError(f"the token is too long, or does not begin with {PREFIX}")
    encoded = token.removeprefix(PREFIX)
    if "=" in encoded:
        raise TokenError("the token has padding")
    try:
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise TokenError("the token is not base64") from error


def _request(url: str, cluster: str, port: int) -> dict[str, Any]:
    """Return the call of a URL as a WSGI environment, with the header that the verifier adds."""
    try:
        parts = urlsplit(url)
        host, url_port = parts.hostname or "", parts.port
    except ValueError as error:
        raise TokenError("the URL is malformed") from error
    is_here = url_port == port and (host in ("127.0.0.1", "::1", "localhost") or host.endswith(".localhost"))
    if parts.scheme != "http" or not is_here or parts.path != "/":
        raise TokenError(f"the URL does not name this server: {parts.scheme}://{parts.netloc}{parts.path}")
    _check(parse_qs(parts.query, keep_blank_values=True))
    return {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": "/",
        "RAW_URI": f"/?{parts.query}",
        "QUERY_STRING": parts.query,
        "HTTP_HOST": parts.netloc,
        "HTTP_X_K8S_AWS_ID": cluster,
        "wsgi.input": io.BytesIO(),
        "CONTENT_LENGTH": "",
    }


def _check(query: dict[str, list[str]]) -> None:
    lower = {name.lower(): values for name, values in query.items()}
    if not set(lower) <= _PARAMETERS or len(lower) != len(query) or any(len(values) != 1 for values in lower.values()):
        raise TokenError("the call has an unknown or a repeated parameter")
    if lower.get("action") != ["GetCallerIdentity"]:
        raise TokenError("the action is not GetCallerIdentity")
    expires = lower.get("x-amz-expires", [""])[0]
    if not expires.isdecimal() or int(expires) > _MAX_EXPIRY_SECONDS:
        raise TokenError("X-Amz-Expires is not between 0 and 900")
    if "x-amz-date" not in lower:
        raise TokenError("X-Amz-Date is missing")
