"""Image builds in an account with small CodeBuild quotas; doctor's command runs the real CDK CLI.

The tests depend on each other, in this order.
"""

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from localcloud.faults.plan import EventFault, FaultPlan
from localcloud.limits.quota import BUILDS
from localcloud.server.local_cloud import LocalCloud
from tests.e2e.deployed import ACCOUNT, empty_cloud
from tests.integration.stacks.templates import ROOT
from tests.support.deployment import Stacks
from traingrid.aws.clients import client
from traingrid.cli.main import cli
from traingrid.errors import TraingridError
from traingrid.grid.file import load_grid

HOME, FAR = "us-east-1", "eu-west-1"
GRID = """\
name: traingrid
home: us-east-1
regions:
  us-east-1:
  eu-west-1:
images:
  small: {build: training, target: cpu}
job: {image: small, instance_type: ml.m5.large}
"""


class Deployment:
    """The stack of builds and the stacks that it depends on, in a localcloud."""

    def __init__(self, cloud: LocalCloud) -> None:
        self.cloud, self.work = cloud, Path(cloud.data_dir)
        (self.work / "grid.yaml").write_text(GRID)
        self._stacks = Stacks(cloud.endpoint_url, load_grid(self.work / "grid.yaml"), self.work / "cdk.out")
        self.folder = self._stacks.folder
        self._stacks.bootstrap()

    def __call__(self) -> None:
        self._stacks.deploy(last="traingrid-builds")

    def allow(self, **builds: int) -> None:
        """Set the account's quotas of concurrent builds, by size."""
        for size, limit in builds.items():
            self.cloud.limits.set(ACCOUNT, BUILDS[f"BUILD_GENERAL1_{size.upper()}"], limit)

    def calls(self, action: str) -> list[dict[str, object]]:
        """Return the parameters of every accepted call of an action."""
        return [entry["parameters"] for entry in self.cloud.record.entries() if entry["action"] == action]

    def pushed(self) -> Counter[str]:
        """Return the number of pushed images, by the first part of their tags."""
        return Counter(str(call["imageTag"]).rpartition("-")[0] for call in self.calls("PutImage"))


@pytest.fixture(scope="module")
def deploy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with empty_cloud(tmp_path_factory.mktemp("builds"), COLUMNS="250") as cloud:
        yield Deployment(cloud)


def test_a_quota_of_zero_builds_fails_with_the_command_to_raise_it(deploy: Deployment) -> None:
    deploy.allow(small=1, medium=0)
    with pytest.raises(TraingridError) as caught:
        deploy()
    message = " ".join(str(caught.value).split())
    assert (
        'CodeBuild quota "Concurrently running builds for Linux/Medium environment" in us-east-1 is used up' in message
    )
    assert "Raise it, then deploy again, which builds only the images that are missing: aws service-quotas" in message
    assert "--region us-east-1 --service-code codebuild --quota-code L-2DC20C30 --desired-value 1" in message
    assert deploy.pushed() == {"built": 1}, "only the orchestrator's image, which is built first"


def test_repositories_images_and_logs_survive_a_failed_first_build(deploy: Deployment) -> None:
    stacks = {it["StackName"]: it["StackStatus"] for it in client("cloudformation", HOME).describe_stacks()["Stacks"]}
    assert (stacks["traingrid-images"], stacks["traingrid-builds"]) == ("CREATE_COMPLETE", "ROLLBACK_COMPLETE")
    found = client("ecr", HOME).describe_images(repositoryName="traingrid/orchestrator")["imageDetails"]
    assert len(found) == 1
    streams = client("logs", HOME).describe_log_streams(logGroupName="/traingrid/builds")["logStreams"]
    assert [stream["logStreamName"].partition("/")[0] for stream in streams] == ["OrchestratorBuild"]


def test_a_second_deployment_resumes_with_one_build_at_a_time_despite_lost_events(
    deploy: Deployment,
) -> None:
    deploy.allow(small=1, medium=1)
    deploy.cloud.faults.set(FaultPlan(events=(EventFault(source="aws.codebuild", drop=1.0),)))
    deploy()
    assert deploy.pushed() == {"built": 1, "built-cpu": 1}, "the orchestrator's image is not pushed again"
    assert deploy.cloud.faults.struck()["events/0/drop"] == 3, "the event of each of the three builds is lost"
    there = client("ecr", FAR).describe_images(repositoryName="traingrid/training")["imageDetails"]
    assert [image["imageTags"] for image in there], "a complete stack implies an image in every Region"


def doctor(deploy: Deployment, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Return the commands that `traingrid doctor` prints, by the Region and name of the image that they rebuild."""
    with suppress(TraingridError):  # raised if doctor finds a problem
        cli.main(["--grid", str(deploy.work / "grid.yaml"), "doctor"], standalone_mode=False)
    found = re.findall(r"^(\S+ .+) \(sha256:\w+\): (.+)$", capsys.readouterr().out, re.MULTILINE)
    return dict(found)


def run_literally(deploy: Deployment, command: str) -> None:
    """Run a command in the checkout, as in a shell without a terminal (docs/deploy.md)."""
    environment = {**os.environ, "CDK_HOME": str(deploy.work / "cdk-home"), "TMPDIR": str(deploy.work)}
    whole = f"{command} --require-approval never"
    done = subprocess.run(whole, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_doctors_command_rebuilds_deleted_images(deploy: Deployment, capsys: pytest.CaptureFixture[str]) -> None:
    run_literally(deploy, f"npx cdk deploy --all --app {deploy.folder}")
    assert doctor(deploy, capsys) == {}
    for region, repository in ((HOME, "orchestrator"), (HOME, "training"), (FAR, "training")):
        ecr = client("ecr", region)
        ids = ecr.list_images(repositoryName=f"traingrid/{repository}")["imageIds"]
        ecr.batch_delete_image(repositoryName=f"traingrid/{repository}", imageIds=ids)
    commands = doctor(deploy, capsys)
    assert set(commands) == {f"{HOME} orchestrator's image", f"{HOME} image small", f"{FAR} image small"}
    (command,) = set(commands.values())
    run_literally(deploy, command)
    assert doctor(deploy, capsys) == {}
    assert deploy.pushed() == {"built": 2, "built-cpu": 2}
