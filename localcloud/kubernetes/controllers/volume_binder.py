"""Volume binder: binds claims to the volumes that they name.

Source: https://kubernetes.io/docs/concepts/storage/persistent-volumes/#reserving-a-persistentvolume.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localcloud.kubernetes.controllers.controller import Controller
from localcloud.kubernetes.resources import CLAIM, VOLUME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from localcloud.kubernetes.store import Key, Object


class VolumeBinder(Controller):
    """The part of a cluster that binds claims to volumes."""

    def keys(self, key: Key, entry: Object) -> Iterable[Key]:
        """Return the key of a claim; for a volume, those of all claims, because it may be that of any."""
        if key[0] is VOLUME:
            claims, _ = self.client.store.all(CLAIM)
            return [(CLAIM, claim["metadata"]["namespace"], claim["metadata"]["name"]) for claim in claims]
        return [key] if key[0] is CLAIM and entry else []

    def sync(self, key: Key) -> float | None:
        """Bind a claim, and set its phase."""
        claim = self.client.find(*key)
        if claim is None:
            return None
        name = (claim.get("spec") or {}).get("volumeName") or ""
        volume = self.client.find(VOLUME, "", name) if name else None
        holder = ((volume or {}).get("spec") or {}).get("claimRef") or {}
        claim_key = (key[1], key[2])
        free = not holder or (holder.get("namespace"), holder.get("name")) == claim_key
        if volume is None or not free:
            self._set_phase(CLAIM, claim, {"phase": "Pending"})
            return None
        reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": key[1], "name": key[2]}
        reference["uid"] = claim["metadata"]["uid"]
        if holder != reference:
            self.client.update(VOLUME, volume, lambda changed: changed["spec"].update(claimRef=reference))
        self._set_phase(VOLUME, volume, {"phase": "Bound"})
        status = {"phase": "Bound", "accessModes": volume["spec"].get("accessModes") or []}
        self._set_phase(CLAIM, claim, {**status, "capacity": volume["spec"].get("capacity") or {}})
        return None

    def _set_phase(self, resource: Any, entry: Object, status: dict[str, Any]) -> None:
        self.client.update_status(resource, entry, lambda changed: changed.update(status=status))
