"""Campaign facts: the page of `traingrid ui` reads replicas, runs and prices of transfers from the catalog."""

from sqlalchemy import Connection, insert

from traingrid.catalog import tables
from traingrid.catalog.campaign_facts import campaign_facts
from traingrid.catalog.database import Catalog


def filled(connection: Connection) -> None:
    connection.execute(insert(tables.datasets), [{"dataset": "a", "version": "1", "campaign": "oslo", "bytes": 7}])
    places = [("eu-west-1", "s3://b/a/", None), ("us-east-1", "s3://c/a", 9)]
    for region, uri, size in places:
        row = {"dataset": "a", "version": "1", "region": region, "uri": uri, "bytes": size}
        connection.execute(insert(tables.replicas), [row])
    runs = [(0, 1, "rome", 1.0), (0, 2, "oslo", 2.0), (1, 1, "oslo", None), (2, 1, "", 4.0)]
    for job, attempt, campaign, dollars in runs:
        row = {"submission": "0123abcd", "job": job, "attempt": attempt, "campaign": campaign}
        connection.execute(insert(tables.runs), [row | {"actual_dollars": dollars}])


def test_data_belongs_to_the_replica_with_the_longest_folder(catalog: Catalog) -> None:
    catalog.write(filled)
    facts = campaign_facts(catalog)
    place = facts.place_of("s3://b/a/train/")
    assert place is not None
    assert (place.region, place.campaign, place.bytes) == ("eu-west-1", "oslo", 7)
    assert facts.places["s3://c/a"].bytes == 9
    assert facts.place_of("s3://b/ab") is None


def test_a_job_has_the_campaign_of_its_last_run(catalog: Catalog) -> None:
    catalog.write(filled)
    facts = campaign_facts(catalog)
    assert facts.jobs == {"0123abcd": {0: "oslo", 1: "oslo", 2: ""}}
    assert facts.runs == {"rome": (1, 1.0), "oslo": (2, 2.0)}
