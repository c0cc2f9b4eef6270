"""Campaign facts: the data that the page of `traingrid ui` reads from the catalog."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy import func, select

from traingrid.catalog.links import folders_above
from traingrid.catalog.tables import datasets, replicas, runs, transfer_prices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from traingrid.catalog.database import Catalog


@dataclass(frozen=True, kw_only=True)
class CampaignReplica:
    """A replica of a dataset version.

    Attributes:
        campaign: The campaign of its dataset; empty if the dataset has none.
        bytes: The size of the dataset version; None if it is not known.
    """

    region: str
    campaign: str
    bytes: int | None


@dataclass(frozen=True, kw_only=True)
class CampaignFacts:
    """Facts about campaigns.

    Attributes:
        places: The replicas by their folders, without a slash at the end.
        jobs: The campaigns of jobs with runs, by submission and index.
        runs: The number of runs of each campaign, and the dollars of those that have ended.
        transfer_prices: Dollars per GB from one Region to another.
    """

    places: Mapping[str, CampaignReplica] = field(default_factory=dict)
    jobs: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    runs: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    transfer_prices: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def place_of(self, uri: str) -> CampaignReplica | None:
        """Return the replica that contains some data; of several, the one with the longest folder."""
        places = (self.places.get(folder) for folder in folders_above(uri))
        return next((place for place in places if place), None)


def campaign_facts(catalog: Catalog) -> CampaignFacts:
    """Read the facts in one read-only connection.

    Raises:
        TraingridError: The database does not answer.
    """
    with catalog.read_only() as connection:
        jobs: dict[str, dict[int, str]] = defaultdict(dict)
        for run in connection.execute(select(runs.c.submission, runs.c.job, runs.c.campaign).order_by(runs.c.attempt)):
            jobs[run.submission][run.job] = run.campaign
        totals = select(runs.c.campaign, func.count(), func.sum(runs.c.actual_dollars)).group_by(runs.c.campaign)
        prices = connection.execute(select(transfer_prices))
        return CampaignFacts(
            places=_replica_by_uri(connection),
            jobs=dict(jobs),
            runs={name: (count, float(dollars or 0)) for name, count, dollars in connection.execute(totals) if name},
            transfer_prices={(row.from_region, row.to_region): row.dollars_per_gb for row in prices},
        )


def _replica_by_uri(connection: Connection) -> dict[str, CampaignReplica]:
    """Return the registered replicas by URI, with the campaign of their dataset."""
    same_version = (datasets.c.dataset == replicas.c.dataset) & (datasets.c.version == replicas.c.version)
    columns = (replicas.c.uri, replicas.c.region, replicas.c.bytes, datasets.c.campaign, datasets.c.bytes.label("size"))
    statement = select(*columns).select_from(replicas.join(datasets, same_version, isouter=True))
    return {
        row.uri.rstrip("/"): CampaignReplica(
            region=row.region, campaign=row.campaign or "", bytes=row.bytes or row.size
        )
        for row in connection.execute(statement)
    }
