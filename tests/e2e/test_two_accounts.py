"""A grid in two accounts: a line trains in each, with IAM enforced."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner
from moto.sts.models import sts_backends

import traingrid as tg
from examples.digits.clusters import kubectl
from localcloud.credentials.environments import user_environment
from localcloud.server.local_cloud import LocalCloud
from tests.e2e.deployed import GRID, clusters_in, two_regions
from tests.e2e.submissions import DIGITS, submit, until
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.api.data import upload_folder
from traingrid.audit.audit import audit
from traingrid.audit.read_snapshot import read_world
from traingrid.aws.clients import client, renew
from traingrid.cli.main import cli
from traingrid.ledger.datasets import Datasets
from traingrid.submission.status import SubmissionStatus

HOME, OTHER = "123456789012", "210987654321"
REGIONS = ("us-east-1", "eu-west-1")  # training in the home Region uses the other account
TWO = (
    GRID.replace("home: us-east-1\n", f'home: us-east-1\naccount: "{HOME}"\n')
    .replace("  us-east-1:\n", f'  us-east-1: {{account: "{OTHER}", eks: {{cluster: research}}}}\n')
    .replace('{repository: training, tag: "1"}', "{build: training, target: cpu}")
)


def make_cluster(cloud: LocalCloud) -> None:
    clusters_in(cloud, account=OTHER)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A localcloud with two accounts and a grid."""
    with two_regions(tmp_path_factory.mktemp("accounts"), grid=TWO, prepare=make_cluster) as running:
        yield running


@pytest.fixture(scope="module")
def plane(cloud: LocalCloud) -> Iterator[ControlPlane]:
    """The control plane as a user of the home account accesses it."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in user_environment(cloud.endpoint_url).items():
            patch.setenv(name, value)
        renew()
        yield ControlPlane.of(Path(cloud.data_dir) / "grid.yaml")
    renew()


@pytest.fixture(scope="module")
def trained(plane: ControlPlane) -> SubmissionStatus:
    lines = [f"{region},{upload_folder(plane.deployment, DIGITS / 'campaign-1', region)}\n" for region in REGIONS]
    report = submit(plane, "accounts.csv", "".join(lines))
    assert report["state"] == "submitted", report
    until(lambda: plane.status(report["submission"]).ended)
    return plane.status(report["submission"])


def there(cloud: LocalCloud, service: str, region: str = "us-east-1") -> Any:
    """Return a client with a user's credentials of the other account."""
    keys = user_environment(cloud.endpoint_url, region, OTHER)
    session: Any = boto3.Session(keys["AWS_ACCESS_KEY_ID"], keys["AWS_SECRET_ACCESS_KEY"], region_name=region)
    return session.client(service, endpoint_url=cloud.endpoint_url)


def reconcile(plane: ControlPlane) -> dict[str, Any]:
    """Run the reconciler without a grace period, and return its result."""
    home = plane.deployment.grid.home
    stack = client("cloudformation", home).describe_stacks(StackName=names.control_stack("traingrid"))["Stacks"][0]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
    reply = client("lambda", home).invoke(
        FunctionName=outputs["ReconcileFunction"], Payload=json.dumps({"grace_seconds": 0}).encode()
    )
    done: dict[str, Any] = json.loads(reply["Payload"].read())
    return done


def sessions(part: str) -> list[str]:
    """Return the sessions of a part's role in the other account."""
    arns = [str(session.arn) for session in sts_backends[OTHER]["aws"].assumed_roles]
    return [arn for arn in arns if arn.endswith(f"/traingrid-{part}-us-east-1/traingrid-{part}")]


def test_a_line_trains_in_each_account(trained: SubmissionStatus, cloud: LocalCloud) -> None:
    assert [(job.region, job.state, job.reason) for job in trained.jobs] == [
        (region, "Completed", "") for region in REGIONS
    ]
    for job, account in zip(trained.jobs, (OTHER, HOME), strict=True):
        assert job.artifact.startswith(f"s3://traingrid-output-{account}-{job.region}/{trained.submission}/")
    described = there(cloud, "sagemaker").describe_training_job(TrainingJobName=trained.jobs[0].training_job)
    assert described["TrainingJobArn"].split(":")[4] == OTHER
    assert f"{OTHER}.dkr.ecr.us-east-1" in described["AlgorithmSpecification"]["TrainingImage"]
    with pytest.raises(ClientError, match="not found"):
        client("sagemaker", "us-east-1").describe_training_job(TrainingJobName=trained.jobs[0].training_job)


def test_a_cluster_of_another_account_trains_a_line_whose_end_the_reconciler_releases(
    plane: ControlPlane, cloud: LocalCloud
) -> None:
    """Child and reconciler assume their roles of the other account, in which the cluster has their access entries."""
    uri = upload_folder(plane.deployment, DIGITS / "campaign-1", "us-east-1")
    report = submit(plane, "cluster.csv", f"region,s3_uri,backend\nus-east-1,{uri},eks\n")
    until(lambda: plane.status(report["submission"]).ended)
    (job,) = plane.status(report["submission"]).jobs
    assert (job.state, job.backend, job.reason) == ("Completed", "eks", "")
    assert job.artifact.startswith(f"s3://traingrid-output-{OTHER}-us-east-1/")
    arn = f"arn:aws:eks:us-east-1:{OTHER}:cluster/research"
    reconcile(plane)
    made = json.loads(kubectl(cloud, arn, "get", "job", job.training_job, "-n", "traingrid", "-o", "json"))
    assert made["metadata"].get("finalizers") is None
    assert "traingrid/recorded" in made["metadata"]["labels"]
    assert sessions("launch")
    assert sessions("sweep")


def test_a_dataset_in_another_account_registers_itself(plane: ControlPlane, cloud: LocalCloud) -> None:
    grid = str(Path(cloud.data_dir) / "grid.yaml")
    words = ["upload", str(DIGITS / "campaign-1"), "us-east-1", "--name", "there", "--version", "1"]
    ended = CliRunner().invoke(cli, ["--grid", grid, *words])
    assert "registered there, version 1, in us-east-1" in ended.output, ended.output
    item = Datasets(plane.deployment.table, "us-east-1").find("there", "1")
    assert item is not None
    assert item.replicas["us-east-1"].uri.startswith(f"s3://traingrid-data-{OTHER}-us-east-1/there/1")
    assert sessions("register")


def test_only_the_child_can_assume_the_role_that_launches(trained: SubmissionStatus, cloud: LocalCloud) -> None:
    (created,) = [
        entry
        for entry in cloud.record.entries("sagemaker", "CreateTrainingJob")
        if entry["parameters"]["TrainingJobName"] == trained.jobs[0].training_job
    ]
    assert created["principal"] == f"arn:aws:sts::{OTHER}:assumed-role/traingrid-launch-us-east-1/traingrid-launch"
    for role in ("launch", "sweep", "record"):
        with pytest.raises(ClientError, match="AccessDenied"):
            client("sts", "us-east-1").assume_role(
                RoleArn=f"arn:aws:iam::{OTHER}:role/traingrid-{role}-us-east-1", RoleSessionName="nobody"
            )


def test_events_of_the_other_account_are_recorded_through_the_recorders_role(
    trained: SubmissionStatus, cloud: LocalCloud
) -> None:
    """The home bus's policy accepts the events, and no dead-letter queue contains one."""
    name = trained.jobs[0].training_job
    logs = client("logs", "us-east-1")
    groups = [found["logGroupName"] for found in logs.describe_log_groups()["logGroups"]]
    messages = [
        event["message"]
        for group in groups
        for stream in logs.describe_log_streams(logGroupName=group)["logStreams"]
        for event in logs.get_log_events(logGroupName=group, logStreamName=stream["logStreamName"])["events"]
        if "JobEventsRecord" in group
    ]
    assert messages
    assert not [line for line in messages if "ERROR" in line], messages
    assert sessions("record")
    sqs = there(cloud, "sqs")
    for url in sqs.list_queues()["QueueUrls"]:
        depth = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])["Attributes"]
        assert depth == {"ApproximateNumberOfMessages": "0"}, (url, name)


def test_a_user_reads_logs_and_results_of_the_other_account(
    trained: SubmissionStatus, plane: ControlPlane, tmp_path: Path
) -> None:
    grid = tmp_path / "grid.yaml"
    grid.write_text(TWO)
    result = CliRunner().invoke(cli, ["--grid", str(grid), "logs", trained.submission, "0"])
    assert "validation_top1=" in result.output, result.output
    target = tmp_path / "model"
    got = CliRunner().invoke(cli, ["--grid", str(grid), "download", trained.submission, "0", "--to", str(target)])
    assert got.exit_code == 0, got.output
    assert list(target.rglob("saved_model.pb"))
    assert plane.deployment.acting_role_in("us-east-1") is not None
    metrics = tg.Grid(plane).submission(trained.submission).metrics(0)
    of_training = [point for point in metrics if not point.metric.startswith("host_")]
    assert {(point.region, point.epoch) for point in of_training} == {("us-east-1", 1)}


def test_doctor_checks_both_accounts_and_reports_missing_access(trained: SubmissionStatus, cloud: LocalCloud) -> None:
    arguments = ["--grid", str(cloud.data_dir / "grid.yaml"), "doctor"]
    seen = CliRunner().invoke(cli, arguments, env={"COLUMNS": "250"})
    assert "0 wrong, 1 could not be checked" in seen.output, seen.output
    assert re.search("Pod Identity Agent of research +not checked", seen.output), "localcloud has no add-ons"
    assert f"traingrid-output-{OTHER}-us-east-1" in seen.output
    with pytest.MonkeyPatch.context() as patch:
        for name, value in user_environment(cloud.endpoint_url, account_id=OTHER).items():
            patch.setenv(name, value)
        renew()
        theirs = CliRunner().invoke(cli, arguments, env={"COLUMNS": "250"})
    renew()
    assert "0 wrong, 4 could not be checked" in theirs.output, (theirs.output, trained)
    profile = f"AWS_PROFILE=<a profile of account {HOME}>"
    assert re.search(rf"eu-west-1 account {HOME}: {profile} traingrid --grid \S+/grid.yaml doctor\n", theirs.output)


def test_the_reconciler_reaches_both_accounts_and_the_audit_finds_no_violations(
    trained: SubmissionStatus, plane: ControlPlane, cloud: LocalCloud
) -> None:
    done = reconcile(plane)
    assert (done["unreachable"], done["stopped"]) == ({}, []), done
    assert sessions("sweep")
    world = read_world(
        plane.deployment, submission=trained.submission, details=True, at_rest=True, calls=cloud.record.entries()
    )
    assert [str(violation) for violation in audit(world)] == []
