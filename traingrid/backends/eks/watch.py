"""Watch: threads that notice changes of a training job's object and pods, because EKS sends no events.

The threads only set a flag. The reader of the flag describes the training job, so a lost change is only noticed later.
"""

import logging
import threading
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.backends.eks.owned_pods import selector_of
from traingrid.errors import TraingridError
from traingrid.kubernetes.client import POD, Client, Kind
from traingrid.kubernetes.errors import GONE, UNAUTHORIZED, ApiError, UnavailableError

logger = logging.getLogger(__name__)
_BOOKMARK, _DELETED = "BOOKMARK", "DELETED"
_AGAIN_SECONDS, _REFUSED_SECONDS = 5.0, 60.0


class ChangeWatch:
    """Watches a training job until its object is gone or the watch is closed."""

    def __init__(self, client: Client, kind: Kind, entry: Mapping[str, Any]) -> None:
        self._client, self._name = client, str(entry["metadata"]["name"])
        self._changed, self._closed = threading.Event(), threading.Event()
        self._unlisted, self._lock = {kind.plural, POD.plural}, threading.Lock()
        labels_of_pods = selector_of(kind, entry)
        field_of_name = f"metadata.name={self._name}"
        for watched, selection in ((kind, ("", field_of_name)), (POD, (labels_of_pods, ""))):
            # Daemons, so that a process on SIGTERM does not wait for them.
            threading.Thread(
                target=self._follow, args=(watched, selection), daemon=True, name=f"watch {watched.plural}"
            ).start()

    @property
    def has_changed(self) -> bool:
        """True if something changed since the last `reset`."""
        return self._changed.is_set()

    def reset(self) -> None:
        """Forget all changes; called before the training job is described."""
        self._changed.clear()

    def close(self) -> None:
        """End the threads at their next change, or when the server ends their watches."""
        self._closed.set()

    def _follow(self, kind: Kind, selection: tuple[str, str]) -> None:
        while not self._closed.is_set():
            try:
                self._follow_once(kind, selection)
            except ApiError as error:
                if error.code == GONE:  # the history was compacted: list again
                    continue
                passes = isinstance(error, UnavailableError) and error.code != UNAUTHORIZED
                seconds = _AGAIN_SECONDS if passes else _REFUSED_SECONDS
                logger.debug("the watch of %s of %s was interrupted: %s", kind.plural, self._name, error)
                self._closed.wait(seconds)
            except (TraingridError, BotoCoreError, ClientError) as error:  # those of AWS: no token can be signed
                logger.debug("the watch of %s of %s was interrupted: %s", kind.plural, self._name, error)
                self._closed.wait(_REFUSED_SECONDS)

    def _follow_once(self, kind: Kind, selection: tuple[str, str]) -> None:
        """List the objects, and follow their changes until the watch is closed or a request fails.

        A new list counts as a change, because an object may have changed since the list before. The first lists count
        as one change when the last of them has been read, because a description before it may miss a change, and one
        after it does not.
        """
        *_, (_, version) = self._client.pages(kind, *selection)  # the version of the last page
        with self._lock:
            self._unlisted.discard(kind.plural)
            if not self._unlisted:
                self._changed.set()
        while not self._closed.is_set():
            for event in self._client.watch(kind, version, *selection):
                version = event["object"]["metadata"].get("resourceVersion", version)
                if event["type"] == _BOOKMARK:
                    continue
                self._changed.set()
                if self._closed.is_set() or (event["type"] == _DELETED and kind is not POD):
                    self._closed.set()  # without its object, the training job does not change any more
                    return
