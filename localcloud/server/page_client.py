"""Client of a server's own pages, for example /localcloud/status: signed requests without an AWS service."""

import urllib.request

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from localcloud.credentials.secret import DUMMY_KEY

_SERVICE, _REGION = "localcloud", "us-east-1"  # the server accepts any values for its pages


def ask(endpoint: str, secret: str, path: str, body: bytes | None = None, *, timeout: float = 30.0) -> bytes:
    """Send a GET or POST request to a page of a server, and return the body of its response.

    Args:
        path: Path of the page, with its query.
        body: Body of a POST; None for a GET.
        timeout: Seconds to wait for the response.

    Raises:
        OSError: If the server does not answer, or refuses the request (urllib.error.HTTPError).
    """
    signed = AWSRequest(method="GET" if body is None else "POST", url=f"{endpoint}{path}", data=body)
    SigV4Auth(Credentials(DUMMY_KEY, secret), _SERVICE, _REGION).add_auth(signed)
    request = urllib.request.Request(f"{endpoint}{path}", body, dict(signed.headers.items()))  # noqa: S310 - loopback only
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=timeout) as reply:
        return bytes(reply.read())
