"""Training jobs of several hosts in a cluster of EKS: they start together and reach the first host."""

import time
from typing import Any

import pytest

from localcloud.faults.plan import CallFault, Capacity, FaultPlan
from localcloud.server.local_cloud import LocalCloud
from tests.integration.control_plane.account import OTHER
from tests.integration.control_plane.child_process import ended
from tests.integration.control_plane.eks.account import ClusterAccount, pods, submitted
from tests.integration.localcloud.compute import image, wait_until
from tests.support.packages import OPEN_MPI, needs
from traingrid.aws.clients import client
from traingrid.backends.eks.pods import Pod
from traingrid.kubernetes.client import MPI_JOB, POD

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

    wait_until(lambda: any("Waiting for the start of" in log for log in logs()))
    time.sleep(1)
    assert not any(Pod(raw).is_prepared for raw in account.cluster.all(POD, labels=labels))
    wait_until(lambda: "The pod has no node" in line.item().reason)
    item = line.item()
    assert (item.phase, item.training_started_at) == ("Pending", 0)
    cloud.faults.set(FaultPlan())
    code, output = ended(child)
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
    cloud.faults.set(FaultPlan(calls=(killed,), capacity=(Capacity(region=OTHER),)))
    line = submitted(account, request, instance_count=2, eks_kind="mpijob", instance_type="ml.m5.4xlarge", retries=0)
    child = line.child()
    try:
        if not watched:
            wait_until(lambda: list(account.cluster.all(MPI_JOB, labels=f"traingrid/submission={line.submission}")))
            child.kill()
            child.communicate()
            wait_until(lambda: account.reconciler().run_pass() and line.item().state == "Failed")
        else:
            ended(child)
    finally:
        child.kill()
    item = line.item()
    assert (item.state, item.failure) == ("Failed", "internal_error"), item.reason
    assert item.reason.startswith("InternalServerError: The preparation of host 2 failed")
    assert pods(account, line) == []


@needs(OPEN_MPI)
@pytest.mark.parametrize("kind", ["job", "mpijob"])
def test_an_image_with_its_own_mpirun_reaches_the_other_host(
    account: ClusterAccount, request: pytest.FixtureRequest, kind: Any
) -> None:
    uri = image(client("ecr", OTHER), f"own-mpirun-{kind}", MPIRUN)
    line = submitted(account, request, instance_count=2, eks_kind=kind, image=uri)
    code, output = ended(line.child())
    assert (code, line.item().state) == (0, "Completed"), output
    for rank in (0, 1):
        assert f"rank {rank} runs" in output


@pytest.mark.parametrize(("kind", "second"), [("job", "1"), ("mpijob", "worker-0")])
def test_a_program_with_torchrun_connects_to_the_first_host(
    account: ClusterAccount, request: pytest.FixtureRequest, kind: Any, second: str
) -> None:
    uri = image(client("ecr", OTHER), f"connects-{kind}", CONNECT)
    line = submitted(account, request, instance_count=2, eks_kind=kind, image=uri, launcher="torchrun")
    code, output = ended(line.child())
    assert (code, line.item().state) == (0, "Completed"), output
    assert f"connected: {line.name}-1-{second}.{line.name}-1" in output
