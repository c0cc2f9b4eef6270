"""Labels: the labels, annotations and finalizer of our objects in a cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

GRID, SUBMISSION, JOB, ATTEMPT, NAME = (
    f"traingrid/{name}" for name in ("grid", "submission", "job", "attempt", "name")
)
"""The labels of a training job's object and of its pods, for persons and other programs. They can change, so traingrid
finds nothing by them."""
RECORDED = "traingrid/recorded"
"""The label of an object whose end is recorded: the date on which it was released."""
QUEUE = "kueue.x-k8s.io/queue-name"
"""The label with the LocalQueue of an object (https://kueue.sigs.k8s.io/docs/tasks/run/jobs/)."""
QUEUE_PRIORITY = "kueue.x-k8s.io/priority-class"
"""The label with the WorkloadPriorityClass of an object in a queue
(https://kueue.sigs.k8s.io/docs/concepts/workload_priority_class/)."""

FINGERPRINT, TAGS, REQUEST = (f"traingrid/{name}" for name in ("fingerprint", "tags", "request"))
"""The annotations with the fingerprint of the request and all tags (of the object), and with the request (of pods)."""
STOPPED_FOR, STOPPED_BECAUSE, STARTED_AT = (
    f"traingrid/{name}" for name in ("stopped-for", "stopped-because", "started-at")
)
"""The annotations of an object that is stopped: `cancel` or the name of the failure class, a sentence, and the time at
which its pods had started, because its pods will be gone."""
DISRUPTED = "traingrid/disrupted"
"""The annotation of an object with a pod that the cluster ended while it trained: a sentence. The pod will be gone, and
a program that ends without an error after SIGTERM would look like one that has completed."""
TRAINED = "traingrid/trained"
"""The annotation of an object whose hosts have all trained in time, while the controller may count one as failed,
because its upload ended after its deadline, or a container of another program failed; the pods will be gone."""
ENDED = "traingrid/ended"
"""The annotation of an object with the end of its training job, in JSON (`traingrid.backends.eks.state`). It is written
before the end is recorded, because the pods that show the end will be gone."""
MAX_ANNOTATIONS = 256 * 1024
"""The maximum size of all annotations of an object, in bytes (TotalAnnotationSizeLimitB of Kubernetes' validation)."""

FINALIZER = "traingrid/recorded"
"""The finalizer that keeps an object, and so its name, until its end is recorded."""
KEEP_DAYS = 7
"""The days after which the reconciler deletes an object whose end is recorded."""


def today(now: float) -> str:
    """Return the value of `RECORDED` for an object that is released at a time, in seconds since 1970."""
    return datetime.fromtimestamp(now, UTC).date().isoformat()


def is_kept(metadata: Mapping[str, Any], now: float) -> bool:
    """Return True if an object was released, at most `KEEP_DAYS` days ago.

    `RECORDED` alone does not show that, because anyone can set it. A release also removes the finalizer.

    Args:
        now: The present time, in seconds since 1970.
    """
    released = str((metadata.get("labels") or {}).get(RECORDED) or "")
    if not released or FINALIZER in (metadata.get("finalizers") or ()):
        return False
    day = datetime.fromtimestamp(now, UTC).date()
    # A day more: the clocks of two processes may differ.
    return (day - timedelta(days=KEEP_DAYS)).isoformat() <= released <= (day + timedelta(days=1)).isoformat()
