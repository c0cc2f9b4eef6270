"""Local storage: finds pods that use more of their node's disk than they may, which the kubelet evicts.

Source: localStorageEviction in pkg/kubelet/eviction/eviction_manager.go of Kubernetes, and its messages in helpers.go
there. The eviction manager looks every ten seconds (evictionMonitoringPeriod in pkg/kubelet/kubelet.go). Disks of nodes
are not modelled, so no pod is evicted because another one fills the disk. Of a container, only its volumes count, not
its log and the files outside of them; so there is no limit of a single container.
"""

from __future__ import annotations

import contextlib
import os
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from localcloud.kubernetes.quantities import amount

if TYPE_CHECKING:
    from localcloud.kubernetes.store import Object

PERIOD_SECONDS = 10.0
_BLOCK = 512
_RESOURCE = "ephemeral-storage"


def excess(pod: Object, volumes: Path) -> str:
    """Return the kubelet's message about a pod that exceeds a limit; empty if it exceeds none."""
    total = Decimal(0)
    for volume in pod["spec"].get("volumes") or []:
        source = volume.get("emptyDir")
        if source is None:
            continue
        used_bytes = _usage(volumes / volume["name"])
        limit = source.get("sizeLimit")
        if limit is not None and 0 < amount(limit) < used_bytes:
            return f'Usage of EmptyDir volume "{volume["name"]}" exceeds the limit "{limit}". '
        if source.get("medium") != "Memory":
            total += used_bytes
    limits = [(container.get("resources") or {}).get("limits") or {} for container in pod["spec"]["containers"]]
    amounts = [amount(limit[_RESOURCE]) for limit in limits if _RESOURCE in limit]
    if amounts and total > sum(amounts):
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {sum(amounts)}. "
    return ""


def is_limited(pod: Object) -> bool:
    """Return True if a limit holds for the pod."""
    limits = ((container.get("resources") or {}).get("limits") or {} for container in pod["spec"]["containers"])
    volumes = pod["spec"].get("volumes") or []
    return any((volume.get("emptyDir") or {}).get("sizeLimit") for volume in volumes) or any(
        _RESOURCE in limit for limit in limits
    )


def _usage(folder: Path) -> int:
    """Return the bytes that the files of a folder use on the disk; links to other volumes are not followed."""
    used_bytes = 0
    for path, folders, files in os.walk(folder):
        for name in (*folders, *files):
            with contextlib.suppress(OSError):  # removed meanwhile
                used_bytes += (Path(path) / name).lstat().st_blocks * _BLOCK
    return used_bytes
