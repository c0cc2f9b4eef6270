"""Tokens: the bearer tokens with which an IAM role authenticates to an Amazon EKS cluster.

A token is a presigned URL of STS GetCallerIdentity that contains the cluster's name in a signed header. The cluster
accepts it for 15 minutes after its signature. Source: the README of https://github.com/kubernetes-sigs/aws-iam-authenticator
(API Authorization from Outside a Cluster), and `aws eks get-token` (awscli/customizations/eks/get_token.py in
https://github.com/aws/aws-cli), which discards a token after 14 minutes.
"""

from __future__ import annotations

import base64
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from traingrid.aws.clients import ActingRole, ClientFactory

PREFIX = "k8s-aws-v1."
"""The prefix of a token."""
CLUSTER_HEADER = "x-k8s-aws-id"
"""The signed header with the cluster's name."""
_URL_SECONDS = 60
_USED_SECONDS = 13 * 60.0


class Tokens:
    """The tokens of one role for one cluster; threads may share it.

    Args:
        cluster: The cluster's name.
        region: Its Region, whose STS endpoint is used.
        make_client: Makes the client of STS.
        role: The role of another account that the process assumes, if the cluster is there.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        cluster: str,
        region: str,
        make_client: ClientFactory,
        role: ActingRole | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._sts: Any = make_client("sts", region, role)
        events = self._sts.meta.events  # of a client that the tokens of other clusters share
        events.register(
            "provide-client-params.sts.GetCallerIdentity", _take_cluster, unique_id=CLUSTER_HEADER + "-parameter"
        )
        events.register("before-sign.sts.GetCallerIdentity", _add_cluster, unique_id=CLUSTER_HEADER)
        self._clock = clock
        self._lock = threading.Lock()
        self._token, self._signed_at = "", 0.0

    def current(self) -> str:
        """Return a token that is valid for at least a minute."""
        with self._lock:
            if not self._token or self._clock() - self._signed_at >= _USED_SECONDS:
                self._token, self._signed_at = self._signed_token(), self._clock()
            return self._token

    def discard(self, token: str) -> None:
        """Sign another token at the next call, because the cluster did not accept this one."""
        with self._lock:
            if token == self._token:
                self._token = ""

    def _signed_token(self) -> str:
        url = self._sts.generate_presigned_url(
            "get_caller_identity", Params={CLUSTER_HEADER: self._cluster}, ExpiresIn=_URL_SECONDS, HttpMethod="GET"
        )
        return PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def _take_cluster(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    """Move the cluster's name out of the parameters, because the operation has none."""
    if CLUSTER_HEADER in params:
        context[CLUSTER_HEADER] = params.pop(CLUSTER_HEADER)


def _add_cluster(request: Any, **_: Any) -> None:
    if CLUSTER_HEADER in request.context:
        request.headers[CLUSTER_HEADER] = request.context[CLUSTER_HEADER]
