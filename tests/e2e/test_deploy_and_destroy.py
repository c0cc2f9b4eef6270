"""Life cycle of a grid with the real CDK CLI: deployed, changed, destroyed, and redeployed onto its retained resources.

The tests depend on each other, in this order.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localcloud.faults.plan import FaultPlan, Stub
from localcloud.sagemaker.initial_content import create_object
from localcloud.server.local_cloud import LocalCloud
from tests.e2e.deployed import ACCOUNT, empty_cloud
from tests.support import deployment
from tests.support.ledger_items import job_key
from tests.support.sample_job import sample_job
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.api.submit import submit_manifest
from traingrid.aws.clients import client
from traingrid.cli.main import cli
from traingrid.errors import TraingridError
from traingrid.grid.file import load_grid
from traingrid.job.state import FINAL_STATES, JobState
from traingrid.ledger.ledger import Ledger
from verification.checkout.deploy import deploy, run_cdk
from verification.checkout.image_pushes import push_images
from verification.deployed_grid import until

HOME, FAR = "us-east-1", "eu-west-1"
GRID = """\
name: traingrid
home: us-east-1
regions:
  us-east-1:
  eu-west-1:
orchestrator: {image_tag: "1"}
images:
  resnet: {repository: training, tag: "1"}
job: {image: resnet, instance_type: ml.m5.large}
"""
YES = ("--all", "--require-approval", "never")
OF_ONE_REQUEST = {"ChangeSetName", "ChangeSetType", "ClientToken", "Description"}
UNKNOWN_TO_BOTO3 = {"DeploymentConfig.Mode"}
TEXT = {"TemplateBody"}  # of the bootstrap stack, which the CLI formats anew


class Cdk:
    """The CDK CLI in a localcloud, for the grid of two Regions or a variant; each is synthesized once."""

    def __init__(self, cloud: LocalCloud) -> None:
        self.cloud, self.work = cloud, Path(cloud.data_dir)
        self.grid = self.work / "grid.yaml"
        self.smaller = self.work / "smaller.yaml"
        self.grid.write_text(GRID)
        self.smaller.write_text(GRID.replace(f"  {FAR}:\n", ""))

    def synthesise(self, grid: Path, *context: str) -> str:
        """Return the folder with the templates of a grid."""
        folder = str(self.work / f"out-{grid.stem}-{len(context)}")
        run_cdk(self.cloud.endpoint_url, self.work, "synth", "--quiet", "-c", f"grid={grid}", "-o", folder, *context)
        return folder

    def __call__(self, *arguments: str, app: str = "") -> str:
        """Run a command and return its output. Raises TraingridError if the command fails."""
        run_cdk(self.cloud.endpoint_url, self.work, *arguments, "--app", app or str(self.work / "cdk.out"))
        return (self.work / f"cdk-{arguments[0]}.log").read_text()


@pytest.fixture(scope="module")
def cdk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cdk]:
    with empty_cloud(tmp_path_factory.mktemp("life"), COLUMNS="250") as cloud:
        it = Cdk(cloud)
        deploy(cloud.endpoint_url, it.grid, it.work)
        yield it


@pytest.fixture(scope="module")
def smaller(cdk: Cdk) -> str:
    """Return the folder with the templates of the grid without its second Region."""
    return cdk.synthesise(cdk.smaller)


@pytest.fixture
def ledger(cdk: Cdk) -> Ledger:
    return Ledger(names.ledger("traingrid"), HOME)


def status(stack: str, region: str = HOME) -> str:
    found = client("cloudformation", region).describe_stacks(StackName=stack)["Stacks"][0]
    return str(found["StackStatus"])


def retained(cdk: Cdk, capsys: pytest.CaptureFixture[str]) -> str:
    cli.main(["--grid", str(cdk.grid), "retained"], standalone_mode=False)
    return capsys.readouterr().out


def trained(cdk: Cdk, grid: Path) -> str:
    """Submit a line with a stub training, as a user does; return the job's final state."""
    assert [*push_images(cdk.cloud.endpoint_url, load_grid(grid))]
    bucket = names.data_bucket("traingrid", ACCOUNT, HOME)
    for channel in ("train", "validation"):
        create_object(ACCOUNT, HOME, bucket, f"campaign/{channel}/part-0", b"x")
    cdk.cloud.faults.set(FaultPlan(stubs=(Stub(seconds=0.2),)))
    manifest = cdk.work / "line.csv"
    manifest.write_text(f"{HOME},s3://{bucket}/campaign/\n")
    deployment = ControlPlane.of(grid).deployment
    submission, ledger = submit_manifest(manifest, deployment)["submission"], Ledger(deployment.table, HOME)

    def ended() -> str:
        job = ledger.job(submission, 0)  # its child creates it
        return str(job.state) if job and job.state in FINAL_STATES else ""

    return until(ended, "the job has ended", seconds=60) or ""


def change_sets(entries: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the parameters of each CreateChangeSet that describe the stack, by Region and stack."""
    ignored = OF_ONE_REQUEST | UNKNOWN_TO_BOTO3 | TEXT
    return {
        (entry["region"], entry["parameters"]["StackName"]): {
            name: value for name, value in entry["parameters"].items() if name not in ignored
        }
        for entry in entries
    }


def test_a_deployment_without_the_cli_requests_the_same_stacks(cdk: Cdk, tmp_path: Path) -> None:
    """The address of a template has the hash of its content. Other tests deploy without the CLI."""
    before = len(cdk.cloud.record.entries())
    by_cli = change_sets(cdk.cloud.record.entries("cloudformation", "CreateChangeSet"))
    deployment.deploy(cdk.cloud.endpoint_url, cdk.grid, tmp_path)
    assert {stack for _, stack in by_cli} >= {"CDKToolkit", "traingrid-control", f"traingrid-{FAR}"}
    assert change_sets(cdk.cloud.record.entries("cloudformation", "CreateChangeSet", after=before)) == by_cli
    assert cdk.cloud.record.entries("cloudformation", "ExecuteChangeSet", after=before) == []


def test_an_unchanged_grid_has_no_differences(cdk: Cdk) -> None:
    assert "Number of stacks with differences: 0" in cdk("diff", "--fail")


def test_a_changed_property_is_a_difference(cdk: Cdk) -> None:
    briefly = cdk.work / "briefly.yaml"
    briefly.write_text(f"{GRID}log_retention_days: 1\n")
    app = cdk.synthesise(briefly)
    with pytest.raises(TraingridError):
        cdk("diff", "--fail", app=app)
    assert "RetentionInDays" in (cdk.work / "cdk-diff.log").read_text()


def test_removing_a_region_with_a_job_fails_and_rolls_back(cdk: Cdk, smaller: str, ledger: Ledger) -> None:
    ledger.claim_submission("0123abcd", "test", {"jobs": 1, "manifest": "s3://x/y", "version": "1"})
    ledger.open_job("0123abcd", sample_job(FAR))
    with pytest.raises(
        TraingridError, match=r"(?s)eu-west-1 cannot be removed from the grid: 1 job of\s+0123abcd \(1\)"
    ):
        cdk("deploy", *YES, app=smaller)
    assert status("traingrid-control") == "UPDATE_ROLLBACK_COMPLETE"
    assert "There were no differences" in cdk("diff", "--fail", "--exclusively", "traingrid-control")
    roles = ("OrchestratorRole", "IntakeAccept", "JobEvents", "Reconciler")
    policies = [
        entry["parameters"]["PolicyName"] for entry in cdk.cloud.record.entries() if entry["action"] == "PutRolePolicy"
    ]
    puts = Counter(name for name in policies if name.startswith(roles))
    assert len(puts) == len(roles)
    assert set(puts.values()) == {1}, "a role's policy was reduced before the guard refused the update"


def test_a_grid_with_a_job_is_not_destroyed_and_keeps_all_regions(cdk: Cdk) -> None:
    with pytest.raises(TraingridError, match="traingrid cannot be destroyed: 1 job of 0123abcd"):
        cdk("destroy", "--all", "--force")
    assert status("traingrid-guard") == "DELETE_FAILED"
    assert status(f"traingrid-{FAR}", FAR) == "CREATE_COMPLETE"
    assert status("traingrid-control") == "UPDATE_ROLLBACK_COMPLETE"


def test_a_refused_destruction_is_undone_by_force_deletion_and_redeployment(cdk: Cdk) -> None:
    client("cloudformation", HOME).delete_stack(StackName="traingrid-guard", DeletionMode="FORCE_DELETE_STACK")
    cdk("deploy", *YES)
    assert status("traingrid-guard") == "CREATE_COMPLETE"


def test_a_region_without_running_jobs_can_be_removed_and_its_stacks_are_listed(
    cdk: Cdk, smaller: str, ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger.record_job(job_key(), {"state": JobState.COMPLETED})
    cdk("deploy", *YES, app=smaller)
    assert status("traingrid-control") == "UPDATE_COMPLETE"
    cli.main(["--grid", str(cdk.smaller), "retained"], standalone_mode=False)
    output = capsys.readouterr().out
    for stack in (f"traingrid-{FAR}", f"traingrid-registry-{FAR}"):
        assert f"aws cloudformation delete-stack --region {FAR} --stack-name {stack}" in output


def test_a_line_trains_before_the_grid_is_destroyed(cdk: Cdk) -> None:
    assert trained(cdk, cdk.smaller) == "Completed"


def test_a_destroyed_grid_lists_its_retained_resources(cdk: Cdk, capsys: pytest.CaptureFixture[str]) -> None:
    cdk("destroy", "--all", "--force")
    output = retained(cdk, capsys)
    kept = [f"traingrid-{what}-{ACCOUNT}-{region}" for what in ("data", "output") for region in (HOME, FAR)]
    for name in (*kept, f"traingrid-manifests-{ACCOUNT}-{HOME}", "traingrid-ledger"):
        assert name in output
    assert output.splitlines()[-1].startswith("6 remain of traingrid, which is destroyed")
    for region in (HOME, FAR):
        there = client("cloudformation", region).describe_stacks()["Stacks"]
        assert {stack["StackName"] for stack in there} == {"CDKToolkit"}


def test_the_grid_is_redeployed_onto_its_retained_resources(cdk: Cdk, ledger: Ledger) -> None:
    with pytest.raises(TraingridError, match="already exists"):
        cdk("deploy", *YES)
    as_it_is = cdk.synthesise(cdk.grid, "-c", f"account={ACCOUNT}")
    cdk("deploy", *YES, "--import-existing-resources", app=as_it_is)
    item = ledger.job("0123abcd", 0)
    assert item is not None
    assert item.state == "Completed"
    cdk("deploy", *YES)
    assert "Number of stacks with differences: 0" in cdk("diff", "--fail")
    assert {
        entry["parameters"]["Bucket"] for entry in cdk.cloud.record.entries() if entry["action"] == "DeleteBucket"
    } == set()


def test_a_line_trains_in_the_redeployed_grid(cdk: Cdk) -> None:
    assert trained(cdk, cdk.grid) == "Completed"
