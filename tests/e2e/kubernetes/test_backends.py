"""A mixed grid end to end: TensorFlow and Horovod train as an MPIJob, programs as an Indexed Job and on SageMaker."""

import json
from pathlib import Path

import pytest

import traingrid as tg
from tests.e2e.kubernetes.world import JOBS, MPI, OPTIONS, REGIONS, World, until
from tests.e2e.submissions import DIGITS
from tests.e2e.test_queued import violations
from traingrid.api.data import upload_folder
from traingrid.aws.clients import client
from traingrid.grid.file import load_grid
from traingrid.metrics.history import MetricHistory


@pytest.fixture(scope="module")
def ended(world: World) -> tg.Submission:
    """Train a line on each backend, and wait for their ends."""
    digits = {region: str(upload_folder(world.plane.deployment, DIGITS / "campaign-1", region)) for region in REGIONS}
    hosts = {"instance_count": 2, "processes_per_host": 1}
    mpi = {"region": MPI, "name": "mpi", "backend": "eks", "s3_uri": digits[MPI], **hosts}
    sharded = {"train": {"uri": f"{digits[JOBS]}/train", "distribution": "ShardedByS3Key"}}
    counts = {"source": "code", "entry_point": "count_records.py", "metrics": ["files", "records"]}
    submission = world.submit(
        {**mpi, "hyperparameters": OPTIONS},
        {"region": JOBS, "name": "hosts", "launcher": "none", "inputs": sharded, **counts, **hosts},
        world.line(JOBS, "sagemaker", backend="sagemaker"),
    )
    until(lambda: submission.status().ended)
    return submission


def test_the_reconciler_runs_in_the_existing_subnets(world: World) -> None:
    listed = client("lambda", MPI).list_functions()["Functions"]
    (placed,) = (function for function in listed if function.get("VpcConfig", {}).get("SubnetIds"))
    assert "Reconciler" in placed["FunctionName"]
    assert placed["VpcConfig"]["SubnetIds"] == list(load_grid(world.grid_file).network.subnets)
    assert world.reconcile()["unreachable"] == {}


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


def test_the_reconciler_releases_trained_objects_and_the_audit_finds_no_violation(
    world: World, ended: tg.Submission
) -> None:
    until(lambda: world.has_released(ended))
    assert violations(world.plane, world.cloud, ended.id) == []
    assert world.traingrid("audit", ended.id).endswith("duplicates 0, orphans 0, lost 0\n")
