"""Kubernetes end to end: lines train on two clusters of EKS, as Indexed Jobs and MPIJobs, and on SageMaker.

A person's kubectl is the real one. The cluster of the second Region has no MPI operator.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import traingrid as tg
from examples.digits import clusters
from localcloud.checkout.deploy import run_cdk
from localcloud.credentials.environments import user_environment
from localcloud.faults.plan import Capacity, Plan
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from tests.e2e.deployed import ACCOUNT, clusters_in, control_plane
from tests.e2e.test_queued import violations
from tests.support.deployment import deploy
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.api.data import upload_folder
from traingrid.aws.clients import client
from traingrid.cli.main import cli
from traingrid.grid.file import load_grid
from traingrid.job.state import JobState
from traingrid.submission.metric_history import MetricHistory
from verification import deployed_grid

ROOT = Path(__file__).resolve().parents[2]
DIGITS, EXAMPLES = ROOT / "build/digits", ROOT / "examples/launchers/source"
MPI, JOBS = REGIONS = ("us-east-1", "eu-west-1")
NAMESPACES = {MPI: "traingrid", JOBS: "training"}
NOWHERE = "ml.p6-b200.48xlarge"
"""An instance type that the second Region does not offer."""
GRID = f"""\
name: traingrid
home: us-east-1
regions:
  {MPI}:
    eks: {{cluster: research, kind: mpijob}}
  {JOBS}:
    backend: eks
    eks: {{cluster: research, namespace: training, service_account: trainer}}
training: {{encrypt_traffic: false}}
instance_types: [ml.m5.large, ml.m5.xlarge, {NOWHERE}]
images:
  resnet: {{repository: training, tag: "1"}}
job:
  image: resnet
  instance_type: ml.m5.large
  volume_gb: 10
  max_runtime: 10m
"""
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
ENDLESS = 600
PATIENCE_SECONDS = 240


@dataclass
class World:
    """A deployed grid with two clusters.

    Attributes:
        cloud: The localcloud.
        grid_file: The grid.
        clusters: The ARNs of the clusters, by Region.
        plane: The control plane, as a user sees it.
        overlaps: The pods that existed after the next training job of their line was created.
    """

    cloud: LocalCloud
    grid_file: Path
    clusters: dict[str, str]
    plane: ControlPlane = field(init=False)
    overlaps: list[str] = field(default_factory=list)

    def line(self, region: str, name: str, seconds: float = 0, **fields: Any) -> dict[str, Any]:
        """Return a line that trains a script on a few bytes."""
        script = {"source": "code", "entry_point": "train.py", "metrics": ["epoch", "loss"]}
        options = {"seconds": seconds, **fields.pop("hyperparameters", {})}
        return {"region": region, "name": name, "s3_uri": data(region), **script, "hyperparameters": options, **fields}

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

    def apply(self, region: str, made: dict[str, Any]) -> None:
        """Create an object in the namespace of a Region."""
        self.kubectl(region, "apply", "-f", "-", standard_input=json.dumps(made))

    def give_access(self, region: str) -> None:
        """Apply the output of the command that grants the grid access to a cluster."""
        self.kubectl(region, "apply", "-f", "-", standard_input=self.traingrid("eks", "access", region))

    def objects(self, region: str, submission: tg.Submission, what: str = "jobs") -> list[dict[str, Any]]:
        """Return the objects of a submission in a cluster."""
        selector = f"traingrid/submission={submission.id}"
        found = json.loads(self.kubectl(region, "get", what, "--selector", selector, "--output", "json"))
        return list(found["items"])

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

    def reasons(self, submission: tg.Submission) -> dict[str, str]:
        """Return the reasons of the jobs of a submission, by name."""
        return {job.name: job.reason for job in submission.jobs}

    def states(self, submission: tg.Submission) -> dict[str, JobState]:
        """Return the states of the jobs of a submission, by name."""
        return {job.name: job.state for job in submission.jobs}


def data(region: str) -> str:
    return f"s3://{names.data_bucket('traingrid', ACCOUNT, region)}/x"


def network() -> str:
    """Return the section of a grid whose children and reconciler run in existing subnets."""
    subnets = client("ec2", MPI).describe_subnets()["Subnets"][:2]
    ids = ", ".join(subnet["SubnetId"] for subnet in subnets)
    return f"network: {{kind: existing, vpc: {subnets[0]['VpcId']}, subnets: [{ids}], reconciler: true}}\n"


def attempts_of(submission: tg.Submission, index: int) -> list[str]:
    """Return the names of the training jobs of a line's first two attempts."""
    return [names.training_job("traingrid", submission.id, index, attempt) for attempt in (1, 2)]


def until(reached: Callable[[], object]) -> None:
    deployed_grid.until(reached, "the test continues", PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    work = tmp_path_factory.mktemp("kubernetes")
    settings = Settings(
        data_dir=work,
        lambda_retry_delays_seconds=(0.5, 0.5),
        batch_stop_grace_seconds=10,
        training_stop_grace_seconds=10,
    )
    grid_file = work / "grid.yaml"
    (work / "code").mkdir()
    (work / "code/train.py").write_text(SCRIPT)
    shutil.copy(EXAMPLES / "count_records.py", work / "code")
    with LocalCloud(settings) as cloud, pytest.MonkeyPatch.context() as patch:
        for name, value in user_environment(cloud.endpoint_url).items():
            patch.setenv(name, value)
        patch.chdir(work)  # sources of lines must be below the current folder
        grid_file.write_text(GRID + network())
        found = World(cloud, grid_file, clusters_in(cloud, operators=(MPI,)))
        deploy(cloud.endpoint_url, grid_file, work)
        with control_plane(cloud) as found.plane:
            for region in REGIONS:
                for channel in ("train", "validation"):
                    bucket = names.data_bucket("traingrid", ACCOUNT, region)
                    client("s3", region).put_object(Bucket=bucket, Key=f"x/{channel}/a", Body=b"a")
            yield found


@pytest.fixture(scope="module")
def submission(world: World) -> tg.Submission:
    """One submission with a line for each way in which a training job of a cluster ends, or waits."""
    world.cloud.faults.set(Plan(capacity=(Capacity(region=JOBS, instance_type="m5.xlarge"),)))
    digits = {region: str(upload_folder(world.plane.deployment, DIGITS / "campaign-1", region)) for region in REGIONS}
    options: dict[str, Any] = {
        "model": "resnet8",
        "image_size": 16,
        "classes": 10,
        "first_label": 0,
        "augmentation": "none",
    }
    options |= {"epochs": 1, "warmup_epochs": 0}
    hosts = {"instance_count": 2, "processes_per_host": 1}
    mpi = {"region": MPI, "name": "mpi", "backend": "eks", "s3_uri": digits[MPI], **hosts}
    sharded = {"train": {"uri": f"{digits[JOBS]}/train", "distribution": "ShardedByS3Key"}}
    counts = {"source": "code", "entry_point": "count_records.py", "metrics": ["files", "records"]}
    scarce: dict[str, Any] = {"instance_type": "ml.m5.xlarge", "capacity_wait": "2s"}
    return world.submit(
        {**mpi, "hyperparameters": options},
        {"region": JOBS, "name": "hosts", "launcher": "none", "inputs": sharded, **counts, **hosts},
        world.line(JOBS, "sagemaker", backend="sagemaker"),
        world.line(JOBS, "deleted", ENDLESS),
        world.line(JOBS, "cancelled", ENDLESS),
        world.line(JOBS, "moved", backend=["eks", "sagemaker"], **scarce),
        {"region": JOBS, "name": "far", "s3_uri": digits[JOBS], "replicas": {MPI: digits[MPI]}, "backend": "eks"}
        | {"hyperparameters": options, **scarce},
        world.line(JOBS, "nowhere", instance_type=NOWHERE),
        world.line(
            MPI, "absent", backend="eks", image=f"{ACCOUNT}.dkr.ecr.{MPI}.amazonaws.com/traingrid/training:none"
        ),
        world.line(JOBS, "operator", eks_kind="mpijob"),
    )


@pytest.fixture(scope="module")
def running(world: World, submission: tg.Submission) -> dict[str, str]:
    """Wait until the endless lines train, and return the output of kubectl: get and describe."""

    def trains() -> bool:
        phases = {job.name: job.phase for job in submission.jobs}
        return [phases.get(name) for name in ("deleted", "cancelled")] == ["Training"] * 2

    until(trains)
    return {
        "get": world.kubectl(JOBS, "get", "jobs,pods,services"),
        "describe": world.kubectl(JOBS, "describe", "job", names.training_job("traingrid", submission.id, 3, 1)),
    }


@pytest.fixture(scope="module")
def ended(world: World, submission: tg.Submission, running: dict[str, str]) -> tg.Submission:
    """Delete one Job with kubectl, cancel a line, and wait until all lines have ended that do not wait for a person."""
    world.kubectl(JOBS, "delete", "job", names.training_job("traingrid", submission.id, 3, 1), "--wait=false")
    world.traingrid("cancel", submission.id, "--index", "4", "--reason", "wrong data")

    def settled() -> bool:
        first, second = attempts_of(submission, 5)
        if second in json.dumps(world.cloud.record.entries("sagemaker", "CreateTrainingJob")):
            pods = world.objects(JOBS, submission, "pods")
            world.overlaps += [name for pod in pods if (name := pod["metadata"]["name"]).startswith(first)]
        return all(job.ended or job.name in ("cancelled", "nowhere", "absent") for job in submission.jobs)

    until(settled)
    until(lambda: submission.jobs[4].ended)  # its child records it, before the reconciler's next sweep
    world.cloud.faults.set(Plan())
    return submission


def test_the_reconciler_runs_in_the_existing_subnets(world: World) -> None:
    listed = client("lambda", MPI).list_functions()["Functions"]
    (placed,) = (function for function in listed if function.get("VpcConfig", {}).get("SubnetIds"))
    assert "Reconciler" in placed["FunctionName"]
    assert placed["VpcConfig"]["SubnetIds"] == list(load_grid(world.grid_file).network.subnets)
    assert world.reconcile()["unreachable"] == {}


def test_kubectl_lists_and_describes_training_jobs(running: dict[str, str], submission: tg.Submission) -> None:
    name = names.training_job("traingrid", submission.id, 3, 1)
    for kind in ("job.batch", "pod", "service"):
        assert f"{kind}/{name}" in running["get"]
    assert re.search(rf"traingrid/submission=\s*{submission.id}", running["describe"])
    assert "SuccessfulCreate" in running["describe"]


def test_each_backend_trains_and_stores_a_model(world: World, ended: tg.Submission, tmp_path: Path) -> None:
    jobs = {job.name: job for job in ended.jobs}
    done = [jobs[name] for name in ("mpi", "hosts", "sagemaker")]
    assert [(job.state, job.backend, job.reason) for job in done] == [
        ("Completed", "eks", ""),
        ("Completed", "eks", ""),
        ("Completed", "sagemaker", ""),
    ]
    assert (done[0].metrics["ranks"], done[0].metrics["epoch"]) == (2, 1)
    (folder,) = ended.download(tmp_path, done[0].index)
    assert list(folder.rglob("saved_model.pb"))
    (folder,) = ended.download(tmp_path, done[1].index)
    counted = [json.loads(path.read_text()) for path in sorted(folder.rglob("records-*.json"))]
    assert len(counted) == 2
    assert not set(counted[0]) & set(counted[1])


def test_a_job_deleted_with_kubectl_is_recorded_as_stopped_by_a_person(world: World, ended: tg.Submission) -> None:
    (job,) = (job for job in ended.jobs if job.name == "deleted")
    assert (job.state, job.reason) == (
        "Stopped",
        f"The Job {job.training_job} was deleted in the cluster, but not by traingrid.",
    )
    pods = json.loads(world.kubectl(JOBS, "get", "pods", "-l", f"traingrid/name={job.training_job}", "-o", "json"))
    assert pods["items"] == []


def test_a_cancelled_line_is_stopped(world: World, ended: tg.Submission) -> None:
    (job,) = (job for job in ended.jobs if job.name == "cancelled")
    item = world.plane.ledger.job(ended.id, job.index)
    assert item
    assert (job.state, item.failure) == ("Stopped", "stopped_by_user")


def test_a_line_without_capacity_moves_to_the_next_backend_and_then_to_another_region(
    world: World, ended: tg.Submission
) -> None:
    jobs = {job.name: job for job in ended.jobs}
    items = {name: world.plane.ledger.job(ended.id, jobs[name].index) for name in ("moved", "far")}
    for name, (region, backend) in {"moved": (JOBS, "sagemaker"), "far": (MPI, "eks")}.items():
        item = items[name]
        assert item
        assert (item.state, item.region, item.backend, item.attempt) == ("Completed", region, backend, 2)
        (previous,) = item.tried
        assert (previous.region, previous.backend, previous.failure) == (JOBS, "eks", "capacity")
        shown = world.traingrid("describe", ended.id, str(jobs[name].index))
        assert f"{JOBS} eks  Stopped (capacity)" in shown
        assert "Stopped (capacity): The pod has no node: " in shown


def test_the_pods_of_a_moved_line_are_gone_before_its_next_training_job_exists(
    world: World, ended: tg.Submission
) -> None:
    item = world.plane.ledger.job(ended.id, 5)
    assert item
    assert (item.tried[0].training_job, item.training_job) == tuple(attempts_of(ended, 5))
    assert world.overlaps == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nowhere", r"The pod has no node: .* `kubectl describe pod \S+ -n training` shows more\."),
        ("absent", r"The image cannot be pulled: .*/training:none: .* `kubectl get pods -n traingrid -l \S+` shows"),
    ],
)
def test_a_line_that_waits_shows_the_reason_and_a_command(
    world: World, ended: tg.Submission, name: str, reason: str
) -> None:
    until(lambda: re.match(reason, world.reasons(ended)[name]))
    assert re.search(reason, world.traingrid("status", ended.id))


def test_a_cluster_without_an_operator_fails_the_line_with_the_command_that_installs_it(
    world: World, ended: tg.Submission
) -> None:
    assert world.states(ended)["operator"] == "Failed"
    assert (
        "`kubectl apply --server-side -f https://raw.githubusercontent.com/kubeflow" in world.reasons(ended)["operator"]
    )


def test_commands_show_lines_of_both_backends(world: World, ended: tg.Submission, tmp_path: Path) -> None:
    assert "validation_top1=" in world.traingrid("logs", ended.id, "0")
    assert "loss=" in world.traingrid("logs", ended.id, "2", "--tail", "1")
    assert "mpi" in world.traingrid("compare", ended.id)
    world.traingrid("report", ended.id, "--to", str(tmp_path / "report.html"))
    assert "hosts" in (tmp_path / "report.html").read_text()


def test_tensorboard_and_the_metric_history_have_the_epochs_of_pods(
    world: World, ended: tg.Submission, tmp_path: Path
) -> None:
    world.traingrid("tensorboard", ended.id, "--once", "--logdir", str(tmp_path))
    assert list(tmp_path.rglob("events.out.tfevents.*"))
    history = MetricHistory(world.plane.deployment, world.plane.ledger, world.plane.storage, ended.id)
    points = history.read(0)
    assert [point.value for point in points if point.metric == "epoch"] == [1]


def test_the_reconciler_releases_ended_objects_and_the_audit_finds_no_violation(
    world: World, ended: tg.Submission
) -> None:
    for name in ("nowhere", "absent"):
        (index,) = (job.index for job in ended.jobs if job.name == name)
        world.traingrid("cancel", ended.id, "--index", str(index))
    until(lambda: world.reconcile() and ended.status().ended)

    def released() -> bool:
        world.reconcile()
        made = [*world.objects(JOBS, ended), *world.objects(MPI, ended, "mpijobs")]
        return not any("traingrid/recorded" in one["metadata"].get("finalizers", []) for one in made)

    until(released)
    assert violations(world.plane, world.cloud, ended.id) == []
    assert world.traingrid("audit", ended.id).endswith("duplicates 0, orphans 0, lost 0\n")


def test_a_missing_permission_fails_the_line_and_a_retry_trains_it(world: World, ended: tg.Submission) -> None:
    world.kubectl(JOBS, "delete", "rolebinding", "traingrid-traingrid-launch")
    submission = world.submit(world.line(JOBS, "refused"), world.line(JOBS, "sagemaker", backend="sagemaker"))
    until(lambda: submission.status().ended)
    assert world.states(submission) == {"refused": "Failed", "sagemaker": "Completed"}
    reason = world.reasons(submission)["refused"]
    assert re.search(rf"then `traingrid eks access {JOBS} \| kubectl --context \S+ apply -f -`\.$", reason)
    world.give_access(JOBS)
    world.traingrid("retry", submission.id)
    until(lambda: submission.status().ended)
    assert world.states(submission)["refused"] == "Completed"


def test_a_line_waits_for_the_quota_of_the_namespace(world: World, ended: tg.Submission) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}}
    world.apply(JOBS, {**quota, "spec": {"hard": {"pods": "0"}}})
    try:
        submission = world.submit(world.line(JOBS, "waits"), world.line(JOBS, "other", backend="sagemaker"))
        until(lambda: world.states(submission).get("other") == "Completed")
        until(lambda: "used up" in world.reasons(submission)["waits"])
        assert "`kubectl describe resourcequota -n training` shows it." in world.reasons(submission)["waits"]
    finally:
        world.kubectl(JOBS, "delete", "resourcequota", "small")
    until(lambda: submission.status().ended)
    assert world.states(submission)["waits"] == "Completed"


def test_an_object_of_another_program_fails_the_line_and_is_left_alone(world: World, ended: tg.Submission) -> None:
    world.traingrid("pause", "--reason", "an experiment")
    submission = world.submit(world.line(JOBS, "taken"), world.line(JOBS, "free"))
    name = names.training_job("traingrid", submission.id, 0, 1)
    until(lambda: list(world.states(submission).values()) == ["Waiting", "Waiting"])
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}
    foreign = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}}
    world.apply(JOBS, {**foreign, "spec": {"suspend": True, "template": {"spec": pod}}})
    world.traingrid("resume")
    until(lambda: submission.status().ended)
    assert world.states(submission) == {"taken": "Failed", "free": "Completed"}
    assert "has this name, but this grid did not create it." in world.reasons(submission)["taken"]
    world.reconcile()
    assert "finalizers" not in json.loads(world.kubectl(JOBS, "get", "job", name, "-o", "json"))["metadata"]


def test_a_lost_node_is_retried_from_its_checkpoint_and_the_model_trains_another_line(
    world: World, ended: tg.Submission, tmp_path: Path
) -> None:
    submission = world.submit(world.line(JOBS, "resumed", 36, checkpoints=True, retries=1))
    name = names.training_job("traingrid", submission.id, 0, 1)
    until(lambda: submission.jobs and submission.jobs[0].phase == "Training")
    until(lambda: "epoch=2" in world.kubectl(JOBS, "logs", f"job/{name}", "--container", "train"))
    (pod,) = world.objects(JOBS, submission, "pods")
    world.kubectl(JOBS, "drain", pod["spec"]["nodeName"], "--force", "--ignore-daemonsets", "--delete-emptydir-data")
    until(lambda: submission.status().ended)
    (job,) = submission.jobs
    item = world.plane.ledger.job(submission.id, 0)
    assert item
    assert (job.state, item.attempt, [previous.failure for previous in item.tried]) == ("Completed", 2, ["lost_node"])
    assert re.search("the first epoch is [34]", world.traingrid("logs", submission.id, "0"))
    following = world.submit(world.line(JOBS, "next", init_from=f"{submission.id}/0"))
    until(lambda: following.status().ended)
    assert world.states(following) == {"next": "Completed"}


def test_a_sweep_tries_hyperparameters_on_a_cluster(world: World, ended: tg.Submission) -> None:
    script = {"source": "code", "entry_point": "train.py", "metrics": ["epoch", "loss"]}
    spec = {
        "lines": [{"region": JOBS, "s3_uri": data(JOBS), **script}],
        "search": {"hp.rate": {"choices": [0.5, 0.0]}},
        "strategy": "grid",
        "objective": {"metric": "loss", "direction": "minimize"},
        "parallel": 2,
    }
    (world.grid_file.parent / "rates.yaml").write_text(json.dumps(spec))
    rows = json.loads(world.traingrid("sweep", "rates.yaml", "--output", "json"))
    assert [(row["state"], row["best"], row["hyperparameters"]["rate"]) for row in rows] == [
        ("Completed", False, 0.5),
        ("Completed", True, 0.0),
    ]


def test_a_deleted_cluster_fails_its_lines_and_a_destroyed_grid_holds_no_objects(
    world: World, ended: tg.Submission
) -> None:
    client("eks", MPI).delete_cluster(name="research")
    submission = world.submit(world.line(MPI, "gone", backend="eks"), world.line(JOBS, "other"))
    until(lambda: submission.status().ended)
    assert world.states(submission) == {"gone": "Failed", "other": "Completed"}
    assert "There is no EKS cluster research in us-east-1." in world.reasons(submission)["gone"]
    assert [one for one in world.objects(JOBS, submission) if one["metadata"].get("finalizers")]
    work = world.grid_file.parent
    run_cdk(world.cloud.endpoint_url, work, "destroy", "--all", "--force", "--app", str(work / "cdk.out"))
    left = json.loads(world.kubectl(JOBS, "get", "jobs", "-o", "json"))["items"]
    assert [one["metadata"]["name"] for one in left if one["metadata"].get("finalizers")] == []
