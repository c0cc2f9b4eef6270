"""`python -m localcloud.server.print_token FOLDER CLUSTER_ARN`: print a token of the account's user, for `kubectl`."""

import base64
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import botocore.session
from botocore.credentials import Credentials
from botocore.model import ServiceId
from botocore.signers import RequestSigner

from localcloud.credentials.secret import DUMMY_KEY
from localcloud.eks.token_form import CLUSTER_HEADER, PREFIX
from localcloud.server.state_file import Running, read_state

_VALID = timedelta(minutes=14)
"""As `aws eks get-token`: a minute less than the token is valid."""
_EXPIRES_SECONDS = 60


def token(running: Running, cluster_arn: str) -> str:
    """Return a token of the user of the cluster's account."""
    _, _, _, region, account, resource = cluster_arn.split(":")
    keys = Credentials(f"{DUMMY_KEY}-{account}", running.secret)
    hooks = botocore.session.get_session().get_component("event_emitter")
    signer = RequestSigner(ServiceId("STS"), region, "sts", "v4", keys, hooks)
    request: dict[str, Any] = {
        "method": "GET",
        "url": f"{running.endpoint}/?Action=GetCallerIdentity&Version=2011-06-15",
        "body": {},
        "headers": {CLUSTER_HEADER: resource.partition("/")[2]},
        "context": {},
    }
    url = signer.generate_presigned_url(request, "GetCallerIdentity", expires_in=_EXPIRES_SECONDS)
    return PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def main(arguments: list[str]) -> int:
    """Print a token as client-go expects it.

    Returns:
        Exit status: 1 if no server runs in the folder.
    """
    folder, cluster_arn = arguments
    server = read_state(Path(folder))
    if server is None:
        print(f"No local AWS runs in {folder}.", file=sys.stderr)
        return 1
    expiry = (datetime.now(UTC) + _VALID).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {"token": token(server, cluster_arn), "expirationTimestamp": expiry}
    print(json.dumps({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": status}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
