"""Client: reads, creates, changes and deletes the objects of a cluster.

Reads, patches and deletions are repeated a few times after errors that pass. A creation is sent exactly once, because
its reply may be lost: the caller looks the object up by its name. Only after 401 it is repeated, because the server did
nothing.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/.
"""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from traingrid.kubernetes.connection import Connection, RequestLimits
from traingrid.kubernetes.errors import ALREADY_EXISTS, CONFLICT, NOT_FOUND, ApiError, error_of
from traingrid.strict_json import json_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from traingrid.kubernetes.cluster import Cluster
    from traingrid.kubernetes.connection import Explain
    from traingrid.kubernetes.token import Tokens

Object = dict[str, Any]
"""An object of Kubernetes, as its JSON form."""
PAGE = 250
"""The objects of one chunk of a list; kube-controller-manager and kubectl use 500, and our objects are larger."""
MERGE_PATCH = "application/merge-patch+json"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of namespaced objects.

    Attributes:
        version: Its `apiVersion`.
        plural: Its name in paths.
    """

    version: str
    kind: str
    plural: str

    def path(self, namespace: str, name: str = "") -> str:
        """Return the path of all objects of a namespace, or of one object."""
        root = "apis" if "/" in self.version else "api"
        return f"/{root}/{self.version}/namespaces/{namespace}/{self.plural}" + (f"/{name}" if name else "")


JOB = Kind(version="batch/v1", kind="Job", plural="jobs")
MPI_JOB = Kind(version="kubeflow.org/v2beta1", kind="MPIJob", plural="mpijobs")
POD = Kind(version="v1", kind="Pod", plural="pods")
SERVICE = Kind(version="v1", kind="Service", plural="services")
EVENT = Kind(version="v1", kind="Event", plural="events")


class Client:
    """A client of one namespace of a cluster; threads may share it. Its other arguments are those of `Connection`."""

    def __init__(  # noqa: PLR0913, PLR0917  # two are for tests
        self,
        cluster: Cluster,
        namespace: str,
        tokens: Tokens,
        limits: RequestLimits | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        *,
        explain: Explain | None = None,
    ) -> None:
        self.cluster, self.namespace = cluster, namespace
        self._connection = Connection(
            cluster, tokens, limits=limits or RequestLimits(), sleep=sleep, clock=clock, explain=explain
        )

    def get(self, kind: Kind, name: str) -> Object:
        """Return an object.

        Raises:
            ApiError: The object does not exist, or the request was refused.
        """
        return self._json("GET", kind.path(self.namespace, name))

    def find(self, kind: Kind, name: str) -> Object | None:
        """Return an object; None if it does not exist, or the cluster does not have its kind."""
        try:
            return self.get(kind, name)
        except ApiError as error:
            if error.code == NOT_FOUND:
                return None
            raise

    def create(self, kind: Kind, new: Object) -> Object:
        """Create an object by exactly one request.

        Raises:
            UnavailableError: The object may have been created, because the reply was lost or is an error of the server.
            ApiError: The request was refused.
            LateRequestError: It was not sent (`traingrid.late_request`).
        """
        content = json.dumps(new).encode()
        return self._json("POST", kind.path(self.namespace), {"fieldValidation": "Strict"}, content, tries=1)

    def ensure(self, kind: Kind, new: Object) -> None:
        """Create an object unless one has its name, with as many requests as a read may take.

        Raises:
            ApiError: The request was refused, or the server did not answer.
        """
        content, remaining_tries = json.dumps(new).encode(), self._connection.limits.tries
        while True:
            try:
                self._json("POST", kind.path(self.namespace), {"fieldValidation": "Strict"}, content)
            except ApiError as error:
                remaining_tries -= 1
                if error.code == CONFLICT and error.reason == ALREADY_EXISTS:
                    return
                if error.code != CONFLICT or remaining_tries <= 0:
                    raise
                self._connection.sleep(1.0)
            else:
                return

    def pages(self, kind: Kind, labels: str = "", fields: str = "") -> Iterator[tuple[list[Object], str]]:
        """Yield the chunks of a list, each with the resource version of the whole list.

        Args:
            labels: The label selector.
            fields: The field selector.

        Raises:
            ApiError: The request was refused; 410 if the continuation has expired before the end.
        """
        selected = {"labelSelector": labels, "fieldSelector": fields, "limit": str(PAGE)}
        query = {name: value for name, value in selected.items() if value}
        while True:
            page = self._json("GET", kind.path(self.namespace), query)
            metadata = page.get("metadata") or {}
            yield page.get("items") or [], metadata.get("resourceVersion", "")
            if not metadata.get("continue"):
                return
            query["continue"] = metadata["continue"]

    def all(self, kind: Kind, labels: str = "", fields: str = "") -> Iterator[Object]:
        """Yield all objects that the selectors select; see `pages`."""
        for page, _ in self.pages(kind, labels, fields):
            yield from page

    def patch(self, kind: Kind, name: str, patch: Object) -> Object:
        """Apply a JSON merge patch to an object, and return it."""
        content = json.dumps(patch).encode()
        return self._json("PATCH", kind.path(self.namespace, name), None, content, MERGE_PATCH)

    def delete(self, kind: Kind, name: str, *, uid: str = "", propagation: str = "Background") -> bool:
        """Delete an object; its finalizers may keep it.

        Args:
            uid: Delete only the object with this uid.
            propagation: What happens to the objects that it owns: Foreground, Background or Orphan.

        Returns:
            False if it did not exist.
        """
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        if uid:
            options["preconditions"] = {"uid": uid}
        try:
            self._json("DELETE", kind.path(self.namespace, name), None, json.dumps(options).encode())
        except ApiError as error:
            if error.code == NOT_FOUND:
                return False
            raise
        return True

    def watch(
        self, kind: Kind, version: str, labels: str = "", fields: str = "", seconds: int = 300
    ) -> Iterator[Object]:
        """Yield the changes after a resource version, until the server ends the watch.

        Args:
            version: The resource version of a list, or of the last change.
            labels: The label selector.
            fields: The field selector.
            seconds: The time after which the server ends the watch.

        Raises:
            ApiError: The request was refused; 410 if the version is too old, after which the caller lists again.
        """
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(seconds)}
        query["allowWatchBookmarks"] = "true"
        if labels:
            query["labelSelector"] = labels
        if fields:
            query["fieldSelector"] = fields
        path = kind.path(self.namespace)
        with closing(self._connection.reply("GET", path, query, tries=1, silent_seconds=seconds)) as reply:
            for line in self._connection.lines(reply):
                event = json_object(line, f"A change of {kind.plural}")
                changed = event.get("object")
                if not isinstance(changed, dict):
                    raise ApiError(HTTPStatus.OK, "", f"a change of {kind.plural} without its object")
                if event.get("type") == "ERROR":
                    code = changed.get("code")
                    raise error_of(code if isinstance(code, int) else 0, changed)
                yield event

    def log(self, pod: str, container: str, since: str = "", tail: int | None = None) -> Iterator[str]:
        """Yield the lines of a container's log, each with its time in front.

        Args:
            since: The time, in RFC 3339, from which lines are read.
            tail: Only the last lines, as many as this.

        Raises:
            ApiError: The request was refused; 400 if the container has not started yet.
        """
        query = {"container": container, "timestamps": "true"}
        if since:
            query["sinceTime"] = since
        if tail is not None:
            query["tailLines"] = str(tail)
        with closing(self._connection.reply("GET", f"{POD.path(self.namespace, pod)}/log", query)) as reply:
            for line in self._connection.lines(reply):
                yield line.decode(errors="replace")

    def _json(  # noqa: PLR0913, PLR0917  # the parts of a request
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        content: bytes | None = None,
        media: str = "application/json",
        tries: int | None = None,
    ) -> Object:
        reply = self._connection.read(method, path, query, content, media, tries)
        return json_object(reply, f"The reply of {self.cluster.endpoint}{path}")
