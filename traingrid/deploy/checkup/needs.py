"""Needs: the instances of SageMaker, and the kinds and queues of clusters of EKS, that training jobs require."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from traingrid.manifest.line import backends_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traingrid.deploy.checkup.quotas import Need
    from traingrid.grid.model import GridSettings
    from traingrid.manifest.line import Line

ClusterField = Literal["kind", "queue"]
_FIELDS: tuple[ClusterField, ...] = ("kind", "queue")


@dataclass(frozen=True, kw_only=True)
class ClusterNeed:
    """A kind of object or a queue that lines of a manifest require of a Region's cluster.

    Attributes:
        field: The field of the Region's `eks` section that the lines replace.
        line: The number of the first line with this value.
    """

    region: str
    field: ClusterField
    value: str
    line: int


@dataclass(frozen=True, kw_only=True)
class Needs:
    """The needs of training jobs.

    Attributes:
        clusters: The kinds and queues that lines require of clusters, in addition to those of grid.yaml.
    """

    instances: Sequence[Need]
    clusters: Sequence[ClusterNeed] = ()


def cluster_needs(lines: Iterable[Line], grid: GridSettings) -> list[ClusterNeed]:
    """Return the kinds and queues that lines require in each of their Regions in which they may run on EKS."""
    first_lines: dict[tuple[str, ClusterField, str], int] = {}
    for line in lines:
        own_settings = [(field, value) for field in _FIELDS if (value := getattr(line.settings, f"eks_{field}"))]
        if own_settings:
            for region in (line.region, *line.replicas):
                if "eks" in backends_of(line, region, grid):
                    for field, value in own_settings:
                        first_lines.setdefault((region, field, value), line.number)
    return [
        ClusterNeed(region=region, field=field, value=value, line=line)
        for (region, field, value), line in first_lines.items()
    ]
