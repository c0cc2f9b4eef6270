"""A grid with a name of maximum length, updated step by step while a manifest of 50 lines trains without losses.

The training programs are stubs; all other programs are those of a deployment. The tests depend on each other, in order.
"""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from localcloud.faults.plan import FaultPlan, Stub
from localcloud.sagemaker.runner import Runner
from localcloud.sagemaker.transfer import TransferInterruptedError
from localcloud.server.local_cloud import LocalCloud
from tests.e2e.deployed import ACCOUNT, empty_cloud
from tests.e2e.submissions import submit, until
from tests.integration.stacks.templates import ROOT, an_app
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.audit.audit import audit
from traingrid.audit.read_snapshot import read_world
from traingrid.aws.clients import client
from traingrid.errors import TraingridError
from traingrid.grid.model import NAME_LIMIT, GridSettings
from traingrid.ledger.damage import intact
from verification.checkout.deploy import run_cdk
from verification.checkout.fork_client import ForkClient
from verification.checkout.image_pushes import push_images

NAME = "grid-of-twentyfour-chars"
HOME, SECOND, THIRD = "ap-southeast-2", "us-east-1", "eu-west-1"
OTHER = "210987654321"
LINES = 50
AT_ONCE = 16
"""Concurrent children: each has a quarter of the 4 vCPUs."""
ENDING_PER_STEP = 4
QUEUE = {"service_queue": {"instances": LINES}}
FIRST: dict[str, Any] = {
    "name": NAME,
    "home": HOME,
    "account": ACCOUNT,
    "regions": {HOME: QUEUE},
    "orchestrator": {"image_tag": "1", "max_vcpus": 4},
    "alarms": {"emails": ["a@example.com"], "monthly_budget_usd": 100},
    "images": {"resnet": {"repository": "training", "tag": "1"}},
    "job": {"image": "resnet", "instance_type": "ml.m5.large"},
}
STEPS: dict[str, dict[str, Any]] = {
    "another email": {"alarms": {"emails": ["a@example.com", "b@example.com"], "monthly_budget_usd": 100}},
    "from public to private": {"network": "private"},
    "the second Region of a private grid": {"regions": {HOME: QUEUE, SECOND: None}},
    "a service queue": {"regions": {HOME: QUEUE, SECOND: QUEUE}},
    "the first Region of another account": {"regions": {HOME: QUEUE, SECOND: QUEUE, THIRD: {"account": OTHER}}},
    "a Region without jobs removed": {"regions": {HOME: QUEUE, THIRD: {"account": OTHER}}},
}
"""Updates, each applied on top of the previous ones."""
REFUSED = {"shares": {"research": 1, "production": 4}, "network": "public"}


class Pace:
    """Lets a given number of training stubs end, independent of the duration of updates."""

    def __init__(self) -> None:
        self._turns = threading.Semaphore(0)

    def train(self, runner: Runner, seconds: float) -> None:
        """Wait for permission to end, instead of for the stub's duration."""
        while not self._turns.acquire(timeout=0.2):
            if runner.job.stop_requested.is_set():
                raise TransferInterruptedError

    def let_end(self, trainings: int) -> None:
        """Permit this many trainings to end."""
        self._turns.release(trainings)


@dataclass
class Deployer:
    """Deploys grids into a localcloud with the real CDK CLI; they are synthesized in this process."""

    cloud: LocalCloud
    grid: dict[str, Any]
    pace: Pace

    @property
    def work(self) -> Path:
        return Path(self.cloud.data_dir)

    def deploy(self, *, bootstrap: Mapping[str, str] | None = None) -> None:
        """Deploy the current grid, after bootstrapping some Regions, each in its account."""
        grid = GridSettings.model_validate(self.grid)
        folder = self.work / f"out-{len(list(self.work.glob('out-*')))}"
        an_app(grid, ROOT / "build" / "layer", folder).synth()
        app, endpoint = ("--app", str(folder)), self.cloud.endpoint_url
        trust = (
            "--trust",
            ACCOUNT,
            "--cloudformation-execution-policies",
            "arn:aws:iam::aws:policy/AdministratorAccess",
        )
        for region, account in (bootstrap or {}).items():
            how = trust if account != ACCOUNT else ()
            run_cdk(endpoint, self.work, "bootstrap", *app, *how, f"aws://{account}/{region}", account=account)
        run_cdk(endpoint, self.work, "deploy", *app, "--all", "--require-approval", "never", "--concurrency", "4")
        (self.work / "grid.yaml").write_text(yaml.safe_dump(self.grid))
        list(push_images(endpoint, grid))

    def plane(self) -> ControlPlane:
        """Return the control plane as the CLI accesses it."""
        return ControlPlane.of(self.work / "grid.yaml")


@pytest.fixture(scope="module")
def deployer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployer]:
    fork_client = ForkClient()
    try:
        with empty_cloud(tmp_path_factory.mktemp("updates"), HOME) as cloud, pytest.MonkeyPatch.context() as patch:
            cloud.spawn = fork_client.spawn
            cloud.faults.set(FaultPlan(stubs=(Stub(seconds=3600),)))
            pace = Pace()
            patch.setattr(Runner, "_pass", lambda runner, seconds: pace.train(runner, seconds))  # noqa: PLW0108 - binds
            made = Deployer(cloud, dict(FIRST), pace)
            made.deploy(bootstrap={HOME: ACCOUNT, SECOND: ACCOUNT})
            bucket = names.data_bucket(NAME, ACCOUNT, HOME)
            for channel in ("train", "validation"):
                client("s3", HOME).put_object(Bucket=bucket, Key=f"x/{channel}/a", Body=b"a")
            yield made
    finally:
        fork_client.close()


@pytest.fixture(scope="module")
def running(deployer: Deployer) -> tuple[str, str]:
    """Return a submission of 50 lines and its array, of which 16 children run concurrently."""
    report = submit(deployer.plane(), "fifty.csv", manifest(*["direct"] * LINES))
    assert report["state"] == "submitted", report
    until(lambda: len(created(deployer)) == 2 + AT_ONCE)
    head = deployer.plane().ledger.submission(report["submission"])
    assert head is not None
    return report["submission"], head.batch_job


def manifest(*launches: str) -> str:
    source = f"s3://{names.data_bucket(NAME, ACCOUNT, HOME)}/x"
    return "\n".join(["region,s3_uri,launch", *(f"{HOME},{source},{launch}" for launch in launches)]) + "\n"


def created(deployer: Deployer) -> list[str]:
    """Return the names of the created training jobs."""
    entries = deployer.cloud.record.entries("sagemaker", "CreateTrainingJob")
    return [entry["parameters"]["TrainingJobName"] for entry in entries]


def violations(deployer: Deployer, submission: str) -> list[str]:
    calls = deployer.cloud.record.entries()
    world = read_world(deployer.plane().deployment, submission=submission, details=True, at_rest=True, calls=calls)
    return [str(violation) for violation in audit(world)]


def test_a_grid_with_the_longest_name_records_ends_without_children(deployer: Deployer) -> None:
    """A training job and a service job end without a child; rules named in a trust policy forward their events."""
    assert len(NAME) == NAME_LIMIT
    plane = deployer.plane()
    submission = submit(plane, "unwatched.csv", manifest("direct", "queued"))["submission"]
    until(lambda: [item.phase for item in intact(plane.ledger.jobs(submission))] == ["Training", "Training"])
    head = plane.ledger.submission(submission)
    assert head is not None
    plane.children.terminate(head.batch_job, "the test needs lines without a child")
    until(lambda: (plane.batch.describe(head.batch_job) or {})["status"] == "FAILED")
    assert [job.state for job in plane.status(submission).jobs] == ["InProgress", "InProgress"]
    deployer.pace.let_end(2)
    until(lambda: [job.state for job in plane.status(submission).jobs] == ["Completed", "Completed"])
    assert violations(deployer, submission) == []


@pytest.mark.parametrize("step", STEPS)
def test_an_update_is_deployed_while_jobs_run(deployer: Deployer, running: tuple[str, str], step: str) -> None:
    """Some children end before each update, so that others start during and after its deployment."""
    deployer.grid |= STEPS[step]
    deployer.pace.let_end(ENDING_PER_STEP)
    deployer.deploy(bootstrap={THIRD: OTHER} if "account" in step else None)
    assert not deployer.plane().status(running[0]).ended


def test_an_update_that_would_break_running_jobs_is_refused_with_a_command(
    deployer: Deployer, running: tuple[str, str]
) -> None:
    before = dict(deployer.grid)
    deployer.grid |= REFUSED
    with pytest.raises(TraingridError) as refused:
        deployer.deploy()
    message = " ".join(str(refused.value).split())
    assert f"The job queue {NAME} cannot be replaced by {NAME}-shared" in message
    assert "The network cannot change from private to public" in message
    assert f"traingrid cancel {running[0]}" in message
    deployer.grid = before


def test_all_lines_complete(deployer: Deployer, running: tuple[str, str]) -> None:
    submission, array = running
    plane = deployer.plane()
    deployer.pace.let_end(LINES)
    until(lambda: plane.status(submission).ended)
    assert [job.state for job in plane.status(submission).jobs] == ["Completed"] * LINES
    children = list(plane.batch.children(array, LINES))
    assert [(child["status"], len(child["attempts"])) for child in children] == [("SUCCEEDED", 1)] * LINES
    assert violations(deployer, submission) == []
    assert len(set(created(deployer))) == len(created(deployer)) == LINES + 2
    deleted = {entry["parameters"]["RoleName"] for entry in deployer.cloud.record.entries("iam", "DeleteRole")}
    assert not [role for role in deleted if "Orchestrator" in role or role.endswith("-child")]
