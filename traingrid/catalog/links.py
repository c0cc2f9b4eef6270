"""Links: connects runs with datasets, campaigns and prices, which may reach the catalog later than the runs."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, bindparam, case, func, literal_column, or_, select, update

from traingrid.catalog.batches import execute_many, update_rows
from traingrid.catalog.tables import datasets, prices, replicas, runs

_SECONDS_PER_HOUR = 3600.0
_URIS = 100
"""URIs of runs up to which the database selects the replicas that contain them; for more, all replicas are read."""
TRAINING_PLAN = "training_plan"
"""The purchase option of a run on a SageMaker training plan, whose hours are paid in advance
(https://docs.aws.amazon.com/sagemaker/latest/dg/reserve-capacity-with-training-plans.html)."""

EKS = "eks"
"""The purchase option of a run on a cluster of EKS, whose nodes the user pays for: SageMaker's prices do not apply."""


class _Dataset(NamedTuple):
    dataset: str
    version: str
    campaign: str


def link_datasets(connection: Connection, *conditions: ColumnElement[bool]) -> None:
    """Set dataset, version and campaign of runs whose data is below the URI of a replica in their Region.

    Of several replicas, the one with the longest URI counts.

    Args:
        connection: A connection in a transaction.
        conditions: Conditions on `runs`; without them, all runs are compared.
    """
    statement_of_runs = select(
        runs.c.submission,
        runs.c.job,
        runs.c.attempt,
        runs.c.region,
        runs.c.uri,
        runs.c.dataset,
        runs.c.version,
        runs.c.campaign,
    ).where(runs.c.uri != "", *conditions)
    run_rows = connection.execute(statement_of_runs).all()
    dataset_by_uri = _replicas(connection, {row.uri for row in run_rows})
    changes = []
    for row in run_rows:
        dataset = _dataset_of(dataset_by_uri, row.region, row.uri)
        if dataset and dataset != (row.dataset, row.version, row.campaign):
            key = {"key_submission": row.submission, "key_job": row.job, "key_attempt": row.attempt}
            changes.append({**key, **dataset._asdict()})
    if changes:
        statement = update(runs).where(
            runs.c.submission == bindparam("key_submission"),
            runs.c.job == bindparam("key_job"),
            runs.c.attempt == bindparam("key_attempt"),
        )
        execute_many(connection, statement, changes)


def price_runs(connection: Connection, *conditions: ColumnElement[bool]) -> None:
    """Set the actual dollars of ended runs without them, and `dollars` of all runs.

    SageMaker bills BillableTimeInSeconds for each instance at the price on demand. With managed spot training, these
    are fewer than the seconds of training, and the difference is the discount
    (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html, BillableTimeInSeconds).
    Runs on a training plan cost nothing more, and those on EKS have no price.

    Args:
        connection: A connection in a transaction.
        conditions: Conditions on `runs`; without them, all runs are priced.
    """
    price = (
        select(prices.c.dollars_per_hour)
        .where(
            prices.c.region == runs.c.region,
            prices.c.instance_type == runs.c.instance_type,
            prices.c.purchase_option == "on_demand",
        )
        .scalar_subquery()
    )
    hours = runs.c.billable_seconds * runs.c.instances / literal_column(str(_SECONDS_PER_HOUR))
    actual = hours * case((runs.c.purchase_option == TRAINING_PLAN, 0.0), else_=price)
    unpriced = and_(runs.c.actual_dollars.is_(None), runs.c.purchase_option != EKS)
    update_rows(connection, runs, *conditions, unpriced, actual.is_not(None), values={"actual_dollars": actual})
    dollars = func.coalesce(runs.c.actual_dollars, runs.c.estimated_dollars)
    outdated = and_(or_(runs.c.dollars.is_(None), runs.c.dollars != dollars), runs.c.purchase_option != EKS)
    update_rows(connection, runs, *conditions, outdated, dollars.is_not(None), values={"dollars": dollars})


def below(region: str, uri: str) -> ColumnElement[bool]:
    """Return the condition for runs whose data is in a folder, or below it."""
    folder = uri.rstrip("/")
    inside = or_(runs.c.uri == folder, runs.c.uri.startswith(f"{folder}/", autoescape=True))
    return and_(runs.c.region == region, inside)


def _replicas(connection: Connection, uris: Collection[str]) -> dict[tuple[str, str], _Dataset]:
    """Return the dataset of the replicas that may contain some data, by Region and URI without a slash at its end."""
    joined = replicas.join(
        datasets,
        (datasets.c.dataset == replicas.c.dataset) & (datasets.c.version == replicas.c.version),
        isouter=True,
    )
    columns = (replicas.c.region, replicas.c.uri, replicas.c.dataset, replicas.c.version, datasets.c.campaign)
    statement = select(*columns).select_from(joined)
    if len(uris) <= _URIS:
        forms = {form for uri in uris for folder in folders_above(uri) for form in (folder, f"{folder}/")}
        statement = statement.where(replicas.c.uri.in_(forms))
    rows = connection.execute(statement)
    return {(row.region, row.uri.rstrip("/")): _Dataset(row.dataset, row.version, row.campaign or "") for row in rows}


def _dataset_of(dataset_by_uri: dict[tuple[str, str], _Dataset], region: str, uri: str) -> _Dataset | None:
    datasets = (dataset_by_uri.get((region, folder)) for folder in folders_above(uri))
    return next((dataset for dataset in datasets if dataset), None)


def folders_above(uri: str) -> Iterator[str]:
    """Yield the folders that contain some data, without a slash at their end, from the longest to the bucket."""
    folder = uri.rstrip("/")
    while folder.count("/") > 1:  # s3://bucket
        yield folder
        folder = folder.rpartition("/")[0]
