"""World: a deployed grid with a cluster of EKS in each Region, and the calls with which tests observe it."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner

import traingrid as tg
from examples.digits import clusters
from localcloud.server.local_cloud import LocalCloud
from tests.e2e.deployed import ACCOUNT
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.aws.clients import client
from traingrid.cli.main import cli
from traingrid.job.state import JobState
from verification import deployed_grid

MPI, JOBS = REGIONS = ("us-east-1", "eu-west-1")
"""The Region whose lines train on SageMaker or as MPIJobs, and that whose lines train as Jobs by default."""
NAMESPACES = {MPI: "traingrid", JOBS: "training"}
NOWHERE = "ml.p6-b200.48xlarge"
"""An instance type that the second Region does not offer."""
OPTIONS: dict[str, Any] = {
    "model": "resnet8",
    "image_size": 16,
    "classes": 10,
    "first_label": 0,
    "augmentation": "none",
    "epochs": 1,
    "warmup_epochs": 0,
}
"""The hyperparameters of a line that trains the digits with TensorFlow."""
PROGRAM = {"source": "code", "entry_point": "train.py", "launcher": "none", "metrics": ["epoch", "loss"]}
"""The fields of a line that trains `SCRIPT`."""
SCRIPT = """\
import argparse, json, os, pathlib, sys, time
parser = argparse.ArgumentParser()
parser.add_argument("--seconds", type=float, default=0.0)
parser.add_argument("--rate", type=float, default=0.0)
given = parser.parse_args()
folder = pathlib.Path(os.environ["SM_MODEL_DIR"]).parent / "checkpoints"
done = folder / "epoch"
first = int(done.read_text()) + 1 if done.exists() else 1
print(f"the first epoch is {first}", flush=True)
for epoch in range(first, 4):
    print(f"epoch={epoch} loss={1 / epoch + given.rate}", flush=True)
    if folder.exists():
        done.write_text(str(epoch))
    end = time.monotonic() + given.seconds / 3
    while time.monotonic() < end:
        if os.path.exists(os.environ["TRAINGRID_STOP_FILE"]):
            sys.exit()
        time.sleep(0.1)
pathlib.Path(os.environ["SM_MODEL_DIR"], "model.json").write_text(json.dumps(vars(given)))
"""
PATIENCE_SECONDS = 240


@dataclass
class World:
    """A deployed grid with two clusters.

    Attributes:
        cloud: The localcloud.
        grid_file: The grid.
        clusters: The ARNs of the clusters, by Region.
        plane: The control plane, as a user sees it.
    """

    cloud: LocalCloud
    grid_file: Path
    clusters: dict[str, str]
    plane: ControlPlane = field(init=False)

    def line(self, region: str, name: str, seconds: float = 0, **fields: Any) -> dict[str, Any]:
        """Return a line that trains a script on a few bytes."""
        options = {"seconds": seconds, **fields.pop("hyperparameters", {})}
        return {"region": region, "name": name, "s3_uri": data(region), **PROGRAM, "hyperparameters": options, **fields}

    def submit(self, *lines: dict[str, Any]) -> tg.Submission:
        """Submit lines as a user does, from the folder of the grid file."""
        return tg.Grid(self.plane).submit(list(lines))

    def traingrid(self, *arguments: str) -> str:
        """Return the standard output of a command."""
        ended = CliRunner().invoke(cli, ["--grid", str(self.grid_file), *arguments])
        assert ended.exit_code == 0, (ended.output, ended.exception)
        return ended.stdout

    def kubectl(self, region: str, *arguments: str, standard_input: str = "") -> str:
        """Return the output of kubectl in the namespace of a Region."""
        namespaced = ("--namespace", NAMESPACES[region], *arguments)
        return clusters.kubectl(self.cloud, self.clusters[region], *namespaced, standard_input=standard_input)

    def apply(self, region: str, manifest: dict[str, Any]) -> None:
        """Create an object in the namespace of a Region."""
        self.kubectl(region, "apply", "-f", "-", standard_input=json.dumps(manifest))

    def give_access(self, region: str) -> None:
        """Apply the output of the command that grants the grid access to a cluster."""
        self.kubectl(region, "apply", "-f", "-", standard_input=self.traingrid("eks", "access", region))

    def objects(self, region: str, submission: tg.Submission, kind: str = "jobs") -> list[dict[str, Any]]:
        """Return the objects of a submission in a cluster."""
        selector = f"traingrid/submission={submission.id}"
        listed = json.loads(self.kubectl(region, "get", kind, "--selector", selector, "--output", "json"))
        return list(listed["items"])

    def reconcile(self) -> dict[str, Any]:
        """Run the reconciler without a grace period, and return its result."""
        home = self.plane.deployment.grid.home
        stack = client("cloudformation", home).describe_stacks(StackName="traingrid-control")["Stacks"][0]
        outputs = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
        payload = json.dumps({"grace_seconds": 0}).encode()
        reply = client("lambda", home).invoke(FunctionName=outputs["ReconcileFunction"], Payload=payload)
        done: dict[str, Any] = json.loads(reply["Payload"].read())
        assert "FunctionError" not in reply, done
        return done

    def has_released(self, submission: tg.Submission) -> bool:
        """Return True if a run of the reconciler leaves no finalizer at the objects of a submission."""
        self.reconcile()
        objects = [*self.objects(JOBS, submission), *self.objects(MPI, submission, "mpijobs")]
        return not any("traingrid/recorded" in item["metadata"].get("finalizers", []) for item in objects)

    def reasons(self, submission: tg.Submission) -> dict[str, str]:
        """Return the reasons of the jobs of a submission, by name."""
        return {job.name: job.reason for job in submission.jobs}

    def states(self, submission: tg.Submission) -> dict[str, JobState]:
        """Return the states of the jobs of a submission, by name."""
        return {job.name: job.state for job in submission.jobs}


def data(region: str) -> str:
    """Return the URI of a few bytes in a Region."""
    return f"s3://{names.data_bucket('traingrid', ACCOUNT, region)}/x"


def until(reached: Callable[[], object]) -> None:
    """Wait for a condition."""
    deployed_grid.until(reached, "the test continues", PATIENCE_SECONDS)
