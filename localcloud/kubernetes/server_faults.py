"""Server faults: failures of an API server that a test injects.

Sources: https://kubernetes.io/docs/concepts/cluster-administration/flow-control/ (429 with Retry-After),
https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes (watches end any time), and
config/components/webhook/manifests.yaml of https://github.com/kubernetes-sigs/kueue (a webhook that the server must
call when jobs are created and updated, but not when they are deleted or their status is updated). The server's answer
without the webhook is that of https://github.com/kubernetes-sigs/kueue/issues/7650.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from localcloud.kubernetes.status import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from localcloud.kubernetes.paths import Target

_WEBHOOKS = {"jobs": ("vjob.kb.io", "batch-v1-job"), "mpijobs": ("vmpijob.kb.io", "kubeflow-org-v2beta1-mpijob")}
_CALLED_FOR = ("create", "update", "patch")


class ServerFaults:
    """The injected faults of one server. Thread-safe.

    Attributes:
        webhook_is_down: True while Kueue's webhook for jobs does not answer. Requests of localcloud's own controllers
            do not pass the server, so they are not refused.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refusals, self._seconds = 0, 1
        self._watches, self.abrupt = 0, False
        self.webhook_is_down = False

    def throttle(self, requests: int, retry_after: int = 1) -> None:
        """Refuse the next requests with 429.

        Args:
            retry_after: The seconds in the header Retry-After.
        """
        with self._lock:
            self._refusals, self._seconds = requests, retry_after

    def end_watches(self, *, abruptly: bool = False) -> None:
        """End all present watches; abruptly, the connections break in the middle of the reply."""
        with self._lock:
            self._watches += 1
            self.abrupt = abruptly

    def check(self) -> None:
        """Refuse a request if it is throttled.

        Raises:
            ApiError: It is.
        """
        with self._lock:
            if self._refusals <= 0:
                return
            self._refusals -= 1
            details = {"retryAfterSeconds": self._seconds}
        message = "Too many requests, please try again later."
        raise ApiError(code=429, reason="TooManyRequests", message=message, details=details)

    def check_webhook(self, verb: str, target: Target | None) -> None:
        """Refuse a change of a job if the webhook that must admit it is down.

        Raises:
            ApiError: It is.
        """
        if not self.webhook_is_down or target is None or target.subresource or verb not in _CALLED_FOR:
            return
        name, path = _WEBHOOKS.get(target.resource.plural, ("", ""))
        if name:
            url = f"https://kueue-webhook-service.kueue-system.svc:443/validate-{path}?timeout=10s"
            reason = f'Post "{url}": no endpoints available for service "kueue-webhook-service"'
            message = f'Internal error occurred: failed calling webhook "{name}": failed to call webhook: {reason}'
            raise ApiError(code=500, reason="InternalError", message=message)

    def watch_ended(self) -> Callable[[], bool]:
        """Return a function that returns True once a watch that begins now must end."""
        watches_before = self._watches
        return lambda: self._watches != watches_before
