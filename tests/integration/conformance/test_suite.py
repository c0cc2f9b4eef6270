"""Every claim in a localcloud: met or listed as not modelled, without remote connections or leftover resources."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import conformance.claims  # noqa: F401 - declares the claims
from conformance import report
from conformance.__main__ import LOCAL_INSTANCES, LOCAL_WORKERS
from conformance.claim import CLAIMS, Claim
from conformance.local import local_place
from conformance.runner import Run, run
from localcloud.processes.loopback import is_local
from tests.support.rows import each_row


@dataclass
class Connections:
    """Records the hosts that this process connects to."""

    hosts: set[str] = field(default_factory=set)
    counting: bool = False

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.counting and event in ("socket.connect", "socket.getaddrinfo"):
            address = arguments[1] if event == "socket.connect" else arguments[0]
            self.hosts.add(str(address[0] if isinstance(address, tuple) else address))


_connections = Connections()
sys.addaudithook(_connections.hook)  # hooks cannot be removed (PEP 578), so a single one counts on demand


@dataclass
class Suite:
    """A run of all claims, and the inventory of the localcloud before and after it."""

    run: Run
    before: dict[str, int]
    after: dict[str, int]
    hosts: set[str]


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    with pytest.MonkeyPatch.context() as patch:
        # The user's own settings must have no effect: the place has its own endpoint and keys.
        patch.setenv("AWS_PROFILE", "production")
        patch.setenv("AWS_ENDPOINT_URL", "https://sts.us-east-1.amazonaws.com")
        patch.setenv("ACCOUNT", "210987654321")
        _connections.counting = True
        with local_place(tmp_path_factory.mktemp("conformance")) as place:
            before = inventory(place)
            done = run(place, CLAIMS, workers=LOCAL_WORKERS, instances=LOCAL_INSTANCES)
            after = inventory(place)
        _connections.counting = False
        yield Suite(done, before, after, set(_connections.hosts))


def inventory(place: Any) -> dict[str, int]:
    """Return the number of resources of each kind that costs money or has a name."""
    calls = (
        ("s3", "list_buckets", "Buckets"),
        ("sqs", "list_queues", "QueueUrls"),
        ("iam", "list_roles", "Roles"),
        ("lambda", "list_functions", "Functions"),
        ("dynamodb", "list_tables", "TableNames"),
        ("events", "list_rules", "Rules"),
        ("events", "list_event_buses", "EventBuses"),
        ("ecr", "describe_repositories", "repositories"),
        ("cloudwatch", "describe_alarms", "MetricAlarms"),
        ("sns", "list_topics", "Topics"),
        ("ec2", "describe_subnets", "Subnets"),
        ("eks", "list_clusters", "clusters"),
        ("batch", "describe_job_queues", "jobQueues"),
        ("batch", "describe_compute_environments", "computeEnvironments"),
        ("batch", "describe_service_environments", "serviceEnvironments"),
    )
    found = {}
    for region in place.regions:
        for service, operation, member in calls:
            client = place.session.client(service, region_name=region, endpoint_url=place.endpoint)
            found[f"{region}/{operation}"] = len(getattr(client, operation)().get(member, []))
    return found


@each_row("claim", ((f"{claim.area}/{claim.name}", claim) for claim in CLAIMS))
def test_a_claim_is_met_or_known_not_to_be_modelled(suite: Suite, claim: Claim) -> None:
    (result,) = [result for result in suite.run.results if result.claim is claim]
    found = report.in_local_cloud(result)
    hint = "localcloud meets it now: remove not_modelled" if claim.not_modelled else result.detail
    assert found is report.expected(claim), hint


def test_no_resource_is_left(suite: Suite) -> None:
    assert suite.run.left == []
    service_linked = {f"{region}/list_roles" for region in ("us-east-1", "eu-west-1")}  # AWS keeps these roles, too
    different = {kind for kind in suite.before if suite.before[kind] != suite.after[kind]}
    assert different <= service_linked


def test_a_local_run_connects_only_to_loopback(suite: Suite) -> None:
    assert suite.hosts, "no connection was recorded"
    assert {host for host in suite.hosts if not is_local(host)} == set()


def test_the_audit_hook_records_remote_hosts() -> None:
    counter = Connections(counting=True)
    counter.hook("socket.connect", (None, ("192.0.2.1", 80)))
    counter.hook("socket.getaddrinfo", ("sts.us-east-1.amazonaws.com", 443))
    assert [host for host in sorted(counter.hosts) if is_local(host)] == []
    assert len(counter.hosts) == 2


def test_the_report_contains_no_account_id(suite: Suite, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    report.write(path, report.rows(suite.run.results, real=False))
    assert "123456789012" not in path.read_text()
