"""A change of the ledger reaches the catalog through the stream, the mapping and the function, in localcloud.

Handler, layers, mapping and the role's policy are those of the synthesized grid. Differences to AWS: the catalog is a
SQLite file or a PostgreSQL server on this machine instead of a cluster of Aurora DSQL, and the window is shorter.
"""

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import column, table, update

from tests.integration.catalog.ledger_runs import rows
from tests.integration.control_plane.account import HOME, OTHER, Account
from tests.integration.localcloud.compute import wait_until
from tests.integration.policies.grid import INSIDE, ROLES, documents, the_templates
from tests.integration.stacks.templates import ROOT, Template, a_grid, only, resources
from tests.support.ledger_items import job_key
from tests.support.packages import needs
from traingrid import names
from traingrid.aws.clients import client
from traingrid.catalog.database import Catalog
from traingrid.job.facts import JobFacts
from traingrid.job.state import JobState

LAYERS = (ROOT / "build" / "layer" / "python", ROOT / "build" / "layer" / "catalog" / "python")
ENDED: JobFacts = {"state": JobState.COMPLETED, "training_job": "traingrid-job", "metrics": {"validation_top1": 0.75}}
VERSION = table("alembic_version", column("version_num"))

pytestmark = [
    needs("make setup-catalog"),  # creates the layers
    # Aurora DSQL's stand-in is a dialect of this process; a deployed function has the product's, which needs a cluster.
    pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True),
]


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Template]:
    """The templates of a grid with `catalog: dsql`, with ARNs instead of references."""
    folder = tmp_path_factory.mktemp("followed")
    for layer in ("python", "catalog/python"):
        (folder / "layer" / layer).mkdir(parents=True)
    return the_templates(folder / "layer", a_grid({INSIDE: None}, catalog="dsql"))


class Parts(NamedTuple):
    """ARNs of the ledger's stream, of the function's role and of its layers."""

    stream: str
    role: str
    layers: list[str]


@pytest.fixture(scope="module")
def parts(account: Account, templates: dict[str, Template]) -> Parts:
    return Parts(_stream(account), _role(account, templates), _layers())


def _stream(account: Account) -> str:
    """Add a stream to the account's ledger."""
    specification = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
    described = client("dynamodb", HOME).update_table(
        TableName=account.deployment.table, StreamSpecification=specification
    )
    return str(described["TableDescription"]["LatestStreamArn"])


def _role(account: Account, templates: dict[str, Template]) -> str:
    """Create a role with the policy of the template, which names the account's table."""
    iam = client("iam", HOME)
    trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    name = names.follower_role("traingrid")
    document = {"Version": "2012-10-17", "Statement": [trust]}
    created = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(document))
    place = {ROLES["follower"].stack: templates["traingrid-control"]}
    for number, policy in enumerate(documents(place, "follower")):
        text = json.dumps(policy).replace(names.ledger("traingrid"), account.deployment.table)
        iam.put_role_policy(RoleName=name, PolicyName=f"policy{number}", PolicyDocument=text)
    return str(created["Role"]["Arn"])


def _layers() -> list[str]:
    """Publish the functions' layer, and that of the catalog."""
    service = client("lambda", HOME)
    return [
        service.publish_layer_version(LayerName=f"layer{number}", Content={"ZipFile": zipped(folder.parent, "python")})[
            "LayerVersionArn"
        ]
        for number, folder in enumerate(LAYERS)
    ]


@pytest.fixture
def follows(
    catalog: Catalog, url: str, account: Account, templates: dict[str, Template], parts: Parts
) -> Iterator[None]:
    """The function, with the mapping of the template, which follows the ledger into the catalog."""
    service, name, there = client("lambda", HOME), "follower", account.deployment
    (function,) = [
        found["Properties"]
        for logical, found in resources(templates["traingrid-control"], "AWS::Lambda::Function").items()
        if logical.startswith("CatalogFollower")
    ]
    variables = {
        "TRAINGRID_GRID": there.grid.to_environment(),
        "TRAINGRID_ACCOUNT": there.account,
        "TRAINGRID_TABLE": there.table,
        "TRAINGRID_MANIFEST_BUCKET": there.manifest_bucket,
        "TRAINGRID_CATALOG": url,
    }
    service.create_function(
        FunctionName=name,
        Role=parts.role,
        Code={"ZipFile": zipped(ROOT, "lambda", "traingrid", without="traingrid/cli/")},
        Layers=parts.layers,
        Environment={"Variables": variables},
        **{key: function[key] for key in ("Handler", "Runtime", "Timeout", "MemorySize")},
    )
    mapping = only(templates["traingrid-guard"], "AWS::Lambda::EventSourceMapping")
    queue = "CatalogFollowerFollowDeadLetters"
    client("sqs", HOME).create_queue(QueueName=queue)
    destination = {"OnFailure": {"Destination": f"arn:aws:sqs:{HOME}:{there.account}:{queue}"}}
    left_out = ("Tags", "FunctionName", "EventSourceArn", "DestinationConfig", "MaximumBatchingWindowInSeconds")
    made = service.create_event_source_mapping(
        FunctionName=name,
        EventSourceArn=parts.stream,
        MaximumBatchingWindowInSeconds=1,
        DestinationConfig=destination,
        **{key: value for key, value in mapping.items() if key not in left_out},
    )
    yield
    service.delete_event_source_mapping(UUID=made["UUID"])
    service.delete_function(FunctionName=name)


def zipped(root: Path, *folders: str, without: str = "__pycache__") -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path in sorted(path for folder in folders for path in (root / folder).rglob("*") if path.is_file()):
            name = path.relative_to(root).as_posix()
            if "__pycache__" not in name and not name.startswith(without):
                archive.write(path, name)
    return content.getvalue()


def states(catalog: Catalog, submission: str) -> Callable[[], list[str]]:
    return lambda: [row["state"] for row in rows(catalog, submission)]


def test_the_runs_are_current_without_a_sync(catalog: Catalog, account: Account, follows: None) -> None:
    submission = account.record((HOME, OTHER))
    wait_until(lambda: states(catalog, submission)() == ["Pending", "Pending"])
    account.ledger.record_job(job_key(1, submission=submission), ENDED)
    wait_until(lambda: states(catalog, submission)() == ["Pending", "Completed"])
    assert [row["instance_type"] for row in rows(catalog, submission)] == ["ml.m5.large"] * 2


def test_records_of_an_outage_are_delivered_afterwards(catalog: Catalog, account: Account, follows: None) -> None:
    """Tables of another version stand for any failure of the database; they are not changed."""
    with catalog.engine.begin() as connection:
        (before,) = connection.execute(VERSION.select()).scalars()
        connection.execute(update(VERSION).values(version_num="9999"))
    submission = account.record((HOME,))
    logs = client("logs", HOME)

    def lines() -> str:
        found = logs.filter_log_events(logGroupName="/aws/lambda/follower")["events"]
        return "".join(event["message"] for event in found)

    wait_until(lambda: "of a newer version of traingrid (9999)" in lines())
    account.ledger.record_job(job_key(0, submission=submission), ENDED)
    assert states(catalog, submission)() == []
    with catalog.engine.begin() as connection:
        connection.execute(update(VERSION).values(version_num=before))
    wait_until(lambda: states(catalog, submission)() == ["Completed"])
