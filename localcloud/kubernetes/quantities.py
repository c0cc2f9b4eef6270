"""Quantities: amounts of resources, for example "500m" or "2Gi".

Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_SUFFIXES = {
    **{suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(1000),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate(("M", "G", "T", "P", "E"), 2)},
}


def amount(quantity: object) -> Decimal:
    """Return the amount of a quantity."""
    text = str(quantity)
    for suffix, factor in _SUFFIXES.items():
        if text.endswith(suffix):
            return Decimal(text.removesuffix(suffix)) * factor
    return Decimal(text)


def requests(spec: Mapping[str, Any]) -> Counter[str]:
    """Return the amounts of resources that a pod requests, in whole thousandths.

    Sidecars run together with the containers and with later init containers; other init containers run alone
    (https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers).
    """
    largest, sidecars = Counter[str](), Counter[str]()
    for container in spec.get("initContainers") or []:
        if container.get("restartPolicy") == "Always":
            sidecars += _requests(container)
            largest |= sidecars
        else:
            largest |= sidecars + _requests(container)
    total = sidecars
    for container in spec.get("containers") or []:
        total = total + _requests(container)
    totals = total | largest
    totals["pods"] = 1000
    return totals


def _requests(container: Mapping[str, Any]) -> Counter[str]:
    requested = (container.get("resources") or {}).get("requests") or {}
    return Counter({name: int(amount(value) * 1000) for name, value in requested.items()})
