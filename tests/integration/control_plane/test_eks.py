"""Children and the reconciler with a cluster of EKS whose pods run: one training job and its end, also after deaths."""

import json
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml

from localcloud.checkout.images import ORCHESTRATOR
from localcloud.credentials.environments import user_environment
from localcloud.ecr import process_images
from localcloud.ecr.process_images import ProcessImage
from localcloud.faults.plan import CallFault, Capacity, Plan
from localcloud.kubernetes.controllers.provisioner import node_of
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from tests.integration.control_plane.account import HOME, OTHER, Account
from tests.integration.control_plane.child_process import Line, ended
from tests.integration.localcloud.compute import ACCOUNT, image, role, wait_until
from tests.integration.localcloud.eks.clusters import CLUSTER_TRUST, POD_TRUST
from tests.integration.localcloud.eks.clusters import role as trusted
from tests.support.packages import OPEN_MPI, needs
from tests.support.sample_job import sample_job
from traingrid.api.control_plane import ControlPlane
from traingrid.api.logs import LogReader
from traingrid.audit.audit import audit
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri
from traingrid.backends import inventory_of
from traingrid.backends.eks.jobs import ClusterJobs
from traingrid.backends.eks.pods import Pod
from traingrid.deploy.cluster_access import access_objects
from traingrid.errors import TraingridError
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import Grid
from traingrid.job.job import Job
from traingrid.kubernetes.client import JOB, MERGE_PATCH, MPI_JOB, POD, Client, Kind
from traingrid.ledger.ledger import CANCEL_ALL
from traingrid.submission.cancel import Canceller, Wanted

TRAIN = """
import json, os, pathlib, signal, sys, time
base = pathlib.Path(os.environ['SAGEMAKER_BASE_DIR'])
options = json.loads((base / 'input/config/hyperparameters.json').read_text())
signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(options.get('on_sigterm', 143))))
hosts = json.loads((base / 'input/config/resourceconfig.json').read_text())
print('trains', sorted(path.name for path in (base / 'input/data/train').iterdir()), hosts['current_host'], flush=True)
time.sleep(float(options['seconds']))
if options.get('fails'):
    (base / 'output').mkdir(exist_ok=True)
    (base / 'output/failure').write_text('ValueError: the loss is NaN')
    sys.exit(3)
(base / 'model/weights').write_text('1.0')
print('ends', flush=True)
"""
WITHOUT_HANDLER = "\n".join(line for line in TRAIN.splitlines() if "SIGTERM" not in line)
MPIRUN = """
import json, os, pathlib, subprocess, sys, time
base = pathlib.Path(os.environ['SAGEMAKER_BASE_DIR'])
hosts = json.loads((base / 'input/config/resourceconfig.json').read_text())
main, other = hosts['hosts']
end = 'touch $SAGEMAKER_BASE_DIR/ended'
if hosts['current_host'] == other:
    subprocess.Popen(['sshd', '-D'])
    while not (base / 'ended').exists(): time.sleep(0.1)
    sys.exit()
while subprocess.run(['ssh', other, 'true'], stderr=subprocess.DEVNULL).returncode: time.sleep(0.1)
options = ['--allow-run-as-root', '-mca', 'rtc_hwloc_vmhole', 'none', '--host', f'localhost:1,{other}:1', '-np', '2']
code = subprocess.run(['mpirun', *options, 'sh', '-c', 'echo rank $OMPI_COMM_WORLD_RANK runs']).returncode
subprocess.run(['ssh', other, end])
sys.exit(code)
"""
CONNECT = """
import json, os, pathlib, socket, time
hosts = json.loads(pathlib.Path(os.environ['SAGEMAKER_BASE_DIR'], 'input/config/resourceconfig.json').read_text())
main, port = hosts['hosts'][0], int(os.environ['MASTER_PORT'])
if hosts['current_host'] == main:
    with socket.create_server(('', port)) as server:
        print('connected:', server.accept()[0].recv(100).decode(), flush=True)
while hosts['current_host'] != main:
    try:
        socket.create_connection((main, port)).sendall(hosts['current_host'].encode())
        break
    except OSError:  # the first host does not listen yet
        time.sleep(0.1)
"""
_NAMESPACE = Kind(version="v1", kind="Namespace", plural="namespaces")


class ClusterAccount(Account):
    """A grid whose second Region has a cluster."""

    def __init__(self) -> None:
        super().__init__()
        iam, eks, ec2 = client("iam"), client("eks", OTHER), client("ec2", OTHER)
        trusted(client, "cluster", CLUSTER_TRUST)
        pods = trusted(client, "pods", POD_TRUST)
        role(iam, "pods", "pods.eks.amazonaws.com")
        subnets = [subnet["SubnetId"] for subnet in ec2.describe_subnets()["Subnets"]]
        eks.create_cluster(
            name="research",
            roleArn=f"arn:aws:iam::{ACCOUNT}:role/cluster",
            resourcesVpcConfig={"subnetIds": subnets},
            accessConfig={"authenticationMode": "API"},
        )
        eks.create_pod_identity_association(
            clusterName="research", namespace="training", serviceAccount="training", roleArn=pods
        )
        ecr = client("ecr", HOME)
        ecr.create_repository(repositoryName="traingrid/orchestrator")
        process_images.push(ecr, "traingrid/orchestrator", "1", ORCHESTRATOR)
        self.deployment = replace(
            self.deployment, pod_image=f"{ACCOUNT}.dkr.ecr.{HOME}.amazonaws.com/traingrid/orchestrator:1"
        )
        self.image = image(client("ecr", OTHER), "train-in-pods", TRAIN)
        self.storage.write(S3Uri(self.data(OTHER), "x/shard"), b"x", "application/x")
        settings = self.deployment.grid.regions[OTHER].eks
        assert settings
        for made in access_objects("traingrid", settings):
            self._apply(made)

    def job(self, **fields: Any) -> Job:
        job = sample_job(OTHER).model_copy(update={"image": fields.pop("image", self.image), "backends": ("eks",)})
        options = {name: str(value) for name, value in fields.pop("hyperparameters", {"seconds": 1}).items()}
        return job.model_copy(update={"hyperparameters": options, **fields})

    @property
    def cluster(self) -> Client:
        return ClusterJobs(self.deployment, OTHER, client).client

    def _apply(self, made: dict[str, Any]) -> None:
        group = made["apiVersion"]
        kind = Kind(version=group, kind=made["kind"], plural=f"{made['kind'].lower()}s")
        path = kind.path("training") if "namespace" in made["metadata"] else "/api/v1/namespaces"
        self.cluster._json("POST", path, None, json.dumps(made).encode())

    def _deployment(self) -> Deployment:
        found = super()._deployment()
        settings = yaml.safe_load(found.grid.to_environment())
        eks = {"cluster": "research", "namespace": "training", "service_account": "training"}
        settings["regions"] = {HOME: None, OTHER: {"eks": eks}}
        return replace(found, grid=Grid.model_validate(settings))


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    settings = Settings(data_dir=tmp_path_factory.mktemp("localcloud"), batch_stop_grace_seconds=1)
    with LocalCloud(settings) as running:
        yield running


@pytest.fixture(scope="module")
def account(cloud: LocalCloud) -> Iterator[ClusterAccount]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in user_environment(cloud.endpoint_url).items():
            patch.setenv(name, value)
        yield ClusterAccount()


def submitted(account: ClusterAccount, request: pytest.FixtureRequest, **fields: Any) -> Line:
    number = zlib.crc32(request.node.name.encode())
    return Line(account, f"{number:08x}", account.job(**fields))


def objects(account: ClusterAccount, line: Line) -> list[dict[str, Any]]:
    return list(account.cluster.all(JOB, labels=f"traingrid/submission={line.submission}"))


def violations(account: ClusterAccount, line: Line) -> list[str]:
    """Return the violations of the audit, apart from that of a submission without an array."""
    found = audit(account.world(line.submission, at_rest=True))
    return [violation.what for violation in found if violation.invariant != "I1"]


def released(account: ClusterAccount, line: Line) -> bool:
    """Sweep, and return True if no finalizer is left."""
    account.reconciler().sweep()
    return not any("finalizers" in one["metadata"] for one in objects(account, line))


def test_a_child_trains_in_pods_and_the_reconciler_releases_the_end(
    account: ClusterAccount, request: pytest.FixtureRequest
) -> None:
    line = submitted(account, request, instance_count=2)
    code, output = ended(line.child(), within=120)
    assert code == 0, output
    item = line.item()
    assert (item.state, item.backend, item.reason) == ("Completed", "eks", "")
    assert account.storage.read(S3Uri.parse(item.artifact), limit=10_000)
    for host in (1, 2):
        assert f"[algo-{host}] trains ['shard'] {line.name}-1-{host - 1}.{line.name}-1" in output
        assert f"[algo-{host}] ends" in output
    assert item.training_job_arn.endswith(objects(account, line)[0]["metadata"]["uid"])
    assert item.training_started_at > 0
    assert objects(account, line)[0]["metadata"]["finalizers"] == ["traingrid/recorded"]
    wait_until(lambda: released(account, line))
    assert violations(account, line) == []


def test_the_launcher_and_the_workers_of_an_mpijob_train(
    account: ClusterAccount, request: pytest.FixtureRequest
) -> None:
    line = submitted(account, request, instance_count=2, eks_kind="mpijob")
    code, output = ended(line.child(), within=120)
    assert (code, line.item().state) == (0, "Completed"), output
    assert f"[algo-1] trains ['shard'] {line.name}-1-launcher.{line.name}-1" in output
    (made,) = account.cluster.all(MPI_JOB, labels=f"traingrid/submission={line.submission}")
    assert made["status"]["replicaStatuses"]["Launcher"]["succeeded"] == 1
    # The operator deletes workers that still run when the launcher has ended, and the rest of their logs with them.
    assert "[algo-3]" not in output
    assert line.item().artifact.endswith(f"/{line.name}-1/output/model.tar.gz")


@pytest.fixture
def one_node(cloud: LocalCloud, account: ClusterAccount, instance_type: str) -> Iterator[None]:
    """A cluster with one node of a type, which gets no other ones until the fault plan is empty."""
    cloud.faults.set(Plan(capacity=(Capacity(region=OTHER),)))
    path, node = "/api/v1/nodes", node_of("only", OTHER, instance_type, labels={})
    account.cluster._json("POST", path, None, json.dumps(node).encode())
    account.cluster._json("PUT", f"{path}/only/status", None, json.dumps(node).encode())
    yield
    cloud.faults.set(Plan())
    account.cluster._json("DELETE", f"{path}/only", None, b"")


@pytest.mark.parametrize(("kind", "instance_type"), [("job", "m5.xlarge"), ("mpijob", "m5.2xlarge")])
@pytest.mark.usefixtures("one_node")
def test_no_host_trains_before_the_last_one_has_a_node(
    cloud: LocalCloud, account: ClusterAccount, request: pytest.FixtureRequest, kind: Any, instance_type: str
) -> None:
    line = submitted(account, request, instance_count=2, eks_kind=kind, instance_type=f"ml.{instance_type}")
    child = line.child()
    labels = f"traingrid/submission={line.submission}"

    def logs() -> list[str]:
        running = [pod for raw in account.cluster.all(POD, labels=labels) if (pod := Pod(raw)).is_preparing]
        return ["".join(account.cluster.log(pod.name, "prepare")) for pod in running]

    wait_until(lambda: any("Waiting for the start of" in log for log in logs()), 60)
    time.sleep(1)
    assert not any(Pod(raw).is_prepared for raw in account.cluster.all(POD, labels=labels))
    wait_until(lambda: "The pod has no node" in line.item().reason, 60)
    item = line.item()
    assert (item.phase, item.training_started_at) == ("Pending", 0)
    cloud.faults.set(Plan())
    code, output = ended(child, within=120)
    assert (code, line.item().state) == (0, "Completed"), output
    assert "InProgress (Pending): The pod has no node: " in output
    assert "[algo-1] trains ['shard']" in output


@pytest.mark.parametrize("instance_type", ["m5.4xlarge"])
@pytest.mark.parametrize("watched", [True, False], ids=["child", "reconciler"])
@pytest.mark.usefixtures("one_node")
def test_an_mpijob_whose_worker_fails_before_the_launcher_has_a_node_ends_with_its_reason(
    cloud: LocalCloud, account: ClusterAccount, request: pytest.FixtureRequest, watched: bool
) -> None:
    killed = CallFault(effect="kill_before", service="s3", caller="pods/*-worker-*/prepare")
    cloud.faults.set(Plan(calls=(killed,), capacity=(Capacity(region=OTHER),)))
    line = submitted(account, request, instance_count=2, eks_kind="mpijob", instance_type="ml.m5.4xlarge", retries=0)
    child = line.child()
    try:
        if not watched:
            wait_until(lambda: list(account.cluster.all(MPI_JOB, labels=f"traingrid/submission={line.submission}")), 60)
            child.kill()
            child.communicate()
            wait_until(lambda: account.reconciler().sweep() and line.item().state == "Failed", 90)
        else:
            ended(child, within=90)
    finally:
        child.kill()
    item = line.item()
    assert (item.state, item.failure) == ("Failed", "internal_error"), item.reason
    assert item.reason.startswith("InternalServerError: The preparation of host 2 failed")
    assert list(account.cluster.all(POD, labels=f"traingrid/name={line.name}-1")) == []


@needs(OPEN_MPI)
@pytest.mark.parametrize("kind", ["job", "mpijob"])
def test_an_image_with_its_own_mpirun_reaches_the_other_host(
    account: ClusterAccount, request: pytest.FixtureRequest, kind: Any
) -> None:
    uri = image(client("ecr", OTHER), f"own-mpirun-{kind}", MPIRUN)
    line = submitted(account, request, instance_count=2, eks_kind=kind, image=uri)
    code, output = ended(line.child(), within=120)
    assert (code, line.item().state) == (0, "Completed"), output
    for rank in (0, 1):
        assert f"rank {rank} runs" in output


@pytest.mark.parametrize(("kind", "second"), [("job", "1"), ("mpijob", "worker-0")])
def test_a_program_with_torchrun_connects_to_the_first_host(
    account: ClusterAccount, request: pytest.FixtureRequest, kind: Any, second: str
) -> None:
    uri = image(client("ecr", OTHER), f"connects-{kind}", CONNECT)
    line = submitted(account, request, instance_count=2, eks_kind=kind, image=uri, launcher="torchrun")
    code, output = ended(line.child(), within=120)
    assert (code, line.item().state) == (0, "Completed"), output
    assert f"connected: {line.name}-1-{second}.{line.name}-1" in output


@pytest.mark.parametrize("kind", ["job", "mpijob"])
def test_a_line_whose_pods_are_refused_shows_the_reason_and_trains_when_they_are_admitted(
    account: ClusterAccount, request: pytest.FixtureRequest, kind: Any
) -> None:
    def enforce(level: str) -> None:
        labels = {"pod-security.kubernetes.io/enforce": level}
        content = json.dumps({"metadata": {"labels": labels}}).encode()
        account.cluster._json("PATCH", "/api/v1/namespaces/training", None, content, MERGE_PATCH)

    line = submitted(account, request, eks_kind=kind, hyperparameters={"seconds": 0})
    enforce("restricted")
    child = line.child()
    try:
        wait_until(lambda: line.state() and "violates PodSecurity" in line.item().reason, 60)
        assert line.item().phase == "Starting"
        enforce("baseline")
        code, output = ended(child, within=120)
    finally:
        enforce("baseline")
        child.kill()
    assert (code, line.item().state, line.item().reason) == (0, "Completed", ""), output


def test_commands_read_the_logs_of_pods(account: ClusterAccount, request: pytest.FixtureRequest) -> None:
    line = submitted(account, request, hyperparameters={"seconds": 0})
    assert ended(line.child(), within=120)[0] == 0
    nothing: Any = None
    plane = ControlPlane(deployment=account.deployment, ledger=account.ledger, batch=nothing, storage=account.storage)
    reader = LogReader(plane=plane, submission=line.submission, index=0)
    assert [(found.host, found.text) for found in reader.lines()][-1] == ("algo-1", "ends")
    assert [found.text for found in reader.lines(tail=1)] == ["ends"]
    wait_until(lambda: released(account, line))
    account.cluster.delete(JOB, f"{line.name}-1")
    wait_until(lambda: not list(account.cluster.all(POD, labels=f"traingrid/name={line.name}-1")))
    with pytest.raises(TraingridError, match="no longer exist in the namespace training"):
        list(LogReader(plane=plane, submission=line.submission, index=0).lines())


def test_a_failure_is_recorded_with_its_text(account: ClusterAccount, request: pytest.FixtureRequest) -> None:
    line = submitted(account, request, hyperparameters={"seconds": 0, "fails": 1})
    code, output = ended(line.child(), within=120)
    assert (code, line.item().failure) == (1, "algorithm"), output
    assert line.item().reason == "AlgorithmError: ValueError: the loss is NaN, exit code: 3"


def test_a_program_that_ends_at_once_is_recorded_with_its_exit_code(
    account: ClusterAccount, request: pytest.FixtureRequest
) -> None:
    """The training starts when the sidecar handles SIGTERM, so the sidecar reports the end also of the fastest one."""
    ecr = client("ecr", OTHER)
    ecr.create_repository(repositoryName="ends-at-once")
    process_images.push(ecr, "ends-at-once", "v1", ProcessImage(command=("/bin/false",), working_directory="/"))
    line = submitted(account, request, image=account.image.replace("train-in-pods", "ends-at-once"), retries=0)
    code, output = ended(line.child(), within=120)
    assert (code, line.item().failure, line.item().reason) == (1, "algorithm", "AlgorithmError: exit code: 1"), output


@pytest.mark.parametrize("kind", ["job", "mpijob"])
def test_a_training_that_ends_in_time_has_completed_if_its_upload_ends_after_max_runtime(
    cloud: LocalCloud, account: ClusterAccount, request: pytest.FixtureRequest, kind: Any
) -> None:
    slow = CallFault(effect="delay", service="s3", caller="pods/*/results", seconds=30, times=1)
    cloud.faults.set(Plan(calls=(slow,)))
    try:
        line = submitted(account, request, max_runtime_seconds=25, eks_kind=kind)
        code, output = ended(line.child(), within=120)
    finally:
        cloud.faults.set(Plan())
    (pod,) = account.cluster.all(POD, labels=f"traingrid/name={line.name}-1")
    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "DeadlineExceeded")
    assert (code, line.item().state, line.item().failure) == (0, "Completed", ""), output
    assert account.storage.read(S3Uri.parse(line.item().artifact), limit=10_000)


@pytest.mark.parametrize("program", [TRAIN, WITHOUT_HANDLER], ids=["handles SIGTERM", "without a handler"])
def test_a_cancelled_training_job_has_no_pods_when_its_end_is_recorded(
    account: ClusterAccount, request: pytest.FixtureRequest, program: str
) -> None:
    uri = account.image if program == TRAIN else image(client("ecr", OTHER), "without-a-handler", program)
    line = submitted(account, request, image=uri, hyperparameters={"seconds": 600})
    child = line.child()
    try:
        wait_until(lambda: line.state() and line.item().phase == "Training", 60)
        report = Canceller(
            deployment=account.deployment, ledger=account.ledger, children=account.children, storage=account.storage
        )
        account.ledger.request_cancel(line.submission, CANCEL_ALL, {"by": "Ada", "reason": "wrong data"})
        assert report  # children and the reconciler act on the recorded intent
        code, output = ended(child, within=60)
    finally:
        child.kill()
    assert (code, line.item().state, line.item().failure) == (143, "Stopped", "stopped_by_user"), output
    assert list(account.cluster.all(POD, labels=f"traingrid/name={line.name}-1")) == []
    assert line.item().billable_seconds > 0
    wait_until(lambda: released(account, line))
    assert objects(account, line) == []


def test_the_cancel_command_stops_a_training_job_of_a_cluster(
    account: ClusterAccount, request: pytest.FixtureRequest
) -> None:
    line = submitted(account, request, hyperparameters={"seconds": 600})
    child = line.child()
    try:
        wait_until(lambda: line.training() and objects(account, line), 60)
    finally:
        child.kill()
        child.communicate()
    inventory = inventory_of(account.deployment, OTHER)
    (job,) = inventory.listed("InProgress", line.submission)
    assert (job.backend, inventory.is_ours(job, line.item()), inventory.stop(job)) == ("eks", True, True)
    wait_until(lambda: [one.state for one in inventory.listed(submission=line.submission)] == ["Stopped"], 60)
    assert Wanted(submission=line.submission).scope == CANCEL_ALL


@pytest.mark.parametrize("at", ["Creating", "Starting", "Downloading", "Training"])
def test_a_child_killed_at_any_point_leaves_one_training_job(
    account: ClusterAccount, request: pytest.FixtureRequest, at: str
) -> None:
    line = submitted(account, request, hyperparameters={"seconds": 3})
    first = line.child()
    order = ["Creating", "Starting", "Pending", "Downloading", "Training"]
    try:
        wait_until(lambda: line.state() and line.item().phase in order[order.index(at) :], 60)
    finally:
        first.kill()
        first.communicate()
    code, output = ended(line.child(), within=120)
    assert (code, line.item().state) == (0, "Completed"), output
    assert len(objects(account, line)) == 1
    assert len(line.item().tried) == 0
    assert violations(account, line) == []


def test_the_reconciler_records_the_end_without_a_child(
    account: ClusterAccount, request: pytest.FixtureRequest
) -> None:
    line = submitted(account, request, hyperparameters={"seconds": 1})
    child = line.child()
    try:
        wait_until(lambda: line.training() and objects(account, line), 60)
    finally:
        child.kill()
        child.communicate()
    wait_until(lambda: objects(account, line)[0].get("status", {}).get("completionTime"), 60)
    account.reconciler().sweep()
    assert line.item().state == "Completed"
    wait_until(lambda: released(account, line))


def test_a_training_job_deleted_by_a_person_is_recorded_as_stopped(
    account: ClusterAccount, request: pytest.FixtureRequest
) -> None:
    line = submitted(account, request, hyperparameters={"seconds": 600})
    child = line.child()
    try:
        wait_until(lambda: line.state() and line.item().phase == "Training", 60)
        account.cluster.delete(JOB, f"{line.name}-1")
        code, output = ended(child, within=60)
    finally:
        child.kill()
    assert (code, line.item().state) == (143, "Stopped"), output
    assert "was deleted in the cluster, but not by traingrid" in line.item().reason
    assert list(account.cluster.all(POD, labels=f"traingrid/name={line.name}-1")) == []


def evict(account: ClusterAccount, line: Line) -> None:
    """Evict the pod of the first attempt, as `kubectl drain` does."""
    (one,) = account.cluster.all(POD, labels=f"traingrid/name={line.name}-1")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": one["metadata"]["name"]}}
    path = f"{POD.path('training', one['metadata']['name'])}/eviction"
    account.cluster._json("POST", path, None, json.dumps(eviction).encode())


@pytest.mark.parametrize("on_sigterm", [143, 0], ids=["fails", "ends without an error"])
def test_an_evicted_pod_is_a_lost_node_and_the_line_is_retried(
    account: ClusterAccount, request: pytest.FixtureRequest, on_sigterm: int
) -> None:
    line = submitted(account, request, hyperparameters={"seconds": 4, "on_sigterm": on_sigterm}, retries=1)
    child = line.child()
    try:
        wait_until(lambda: line.state() and line.item().phase == "Training", 60)
        evict(account, line)
        code, output = ended(child, within=120)
    finally:
        child.kill()
    assert (code, line.item().state, line.item().attempt) == (0, "Completed", 2), output
    assert [previous.failure for previous in line.item().tried] == ["lost_node"]


@pytest.mark.parametrize("on_sigterm", [143, 0], ids=["fails", "ends without an error"])
def test_a_lost_node_is_recorded_after_its_pod_is_gone(
    account: ClusterAccount, request: pytest.FixtureRequest, on_sigterm: int
) -> None:
    line = submitted(account, request, hyperparameters={"seconds": 600, "on_sigterm": on_sigterm})
    child = line.child()
    try:
        wait_until(lambda: line.state() and line.item().phase == "Training", 60)
    finally:
        child.kill()
        child.communicate()
    evict(account, line)
    wait_until(lambda: not list(account.cluster.all(POD, labels=f"traingrid/name={line.name}-1")), 60)
    kinds = [one["type"] for one in objects(account, line)[0]["status"]["conditions"]]
    assert kinds[-1] == ("Failed" if on_sigterm else "Complete")
    account.reconciler().sweep()
    assert (line.item().state, line.item().failure) == ("Failed", "lost_node"), line.item().reason
    wait_until(lambda: released(account, line))
    assert violations(account, line) == []
