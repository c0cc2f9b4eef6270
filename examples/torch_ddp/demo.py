"""`make demo-torch`: PyTorch's DDP on two hosts of two ranks, of which one is killed, and the same numbers afterwards.

AWS is localcloud, and ranks communicate through Gloo on the CPUs of this machine. Two jobs of one manifest train the
same model. A host of the second job is killed in the middle of the training, as if its machine had failed. The retried
job resumes from its checkpoint in S3. Every weight and result must then equal those of the first job within 1e-6.

With --engine eks, the hosts are pods of a Kubernetes cluster of Amazon EKS: the first job is an MPIJob, and the second
one an Indexed Job, of which `kubectl` deletes a pod.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from examples.digits import demo as digits
from examples.digits.clusters import create_clusters, grid_file_of, kubectl
from localcloud.credentials.environments import user_environment
from localcloud.processes.process_group import groups
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from traingrid.api.control_plane import ControlPlane
from traingrid.api.data import upload_folder
from traingrid.api.grid import Grid
from traingrid.api.submission import Submission
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.live_status import watch_submission
from traingrid.errors import TraingridError
from traingrid.submission.status import JobStatus
from verification.checkout.deploy import deploy

HERE = Path(__file__).parent
DATA, WORK = digits.ROOT / "build/torch-digits", digits.ROOT / "build/demo-torch"
PYTHON = digits.ROOT / ".venv-torch/bin/python"
ENGINES = {"sagemaker": HERE / "grid.yaml", "eks": HERE / "eks.yaml"}
REGION = "us-east-1"
EPOCHS, EPOCHS_ON_EKS = 10, 30  # a pod copies its checkpoints every 15 s, which is longer than 10 epochs take
KILL_AFTER = 3  # checkpoints, one at the end of each epoch
UNINTERRUPTED, INTERRUPTED = 0, 1  # lines of the manifest
ENOUGH = 0.85  # held-out top-1
WAIT_SECONDS = 1200.0


def main(arguments: Sequence[str] = ()) -> int:
    """Run the demo; return 0 if the resumed job has the numbers of the uninterrupted one, and 1 otherwise."""
    grid_file = grid_file_of(arguments, ENGINES, __doc__ or "")
    started = time.monotonic()
    work = digits.own_folder(WORK)
    with LocalCloud(Settings(data_dir=work, lambda_retry_delays_seconds=(1, 2))) as cloud:
        os.environ.update(user_environment(cloud.endpoint_url))
        digits.print_text(f"AWS for this run is localcloud at {cloud.endpoint_url}, which works with any AWS client")
        clusters = create_clusters(cloud, grid_file)
        digits.timed("bootstrap and deploy with the CDK CLI", lambda: deploy(cloud.endpoint_url, grid_file, work))
        plane = ControlPlane.of(grid_file)
        submission = Grid(plane).submit(write_manifest(plane, work, on_eks=bool(clusters)))
        digits.print_text(f"submission {submission.id}: two jobs, each with two hosts of two ranks")
        lose = next((partial(delete_pod, cloud, *cluster) for cluster in clusters.items()), lose_host)
        name = kill_a_host(submission, lose)
        watch_submission(plane, submission.id, digits.out)
        digits.print_text(
            f"{name} has failed: {submission.jobs[INTERRUPTED].reason}\n$ traingrid retry {submission.id}"
        )
        submission.retry()
        watch_submission(plane, submission.id, digits.out)
        good = all(trained(job) for job in submission.jobs) and resumed(submission) and equal(submission, work)
    digits.print_text(f"{time.monotonic() - started:.0f} s in all")
    return 0 if good else 1


def write_manifest(plane: ControlPlane, work: Path, *, on_eks: bool) -> Path:
    """Upload the scans, and return a manifest with two equal lines; on EKS, with different kinds of objects."""
    data = digits.timed("upload the scans", lambda: upload_folder(plane.deployment, DATA, REGION))
    line = {
        "region": REGION,
        "s3_uri": str(data),
        "source": str(HERE / "source"),
        "entry_point": "train.py",
        "checkpoints": True,
        "retries": 0,  # `traingrid retry` starts the second attempt
        "hyperparameters": {"epochs": EPOCHS_ON_EKS if on_eks else EPOCHS},
    }
    manifest = work / "torch.jsonl"
    names = {UNINTERRUPTED: "uninterrupted", INTERRUPTED: "interrupted"}
    kinds = [{"eks_kind": "mpijob"}, {"eks_kind": "job"}] if on_eks else [{}, {}]
    rows = [{"name": names[index], **line, **kinds[index]} for index in sorted(names)]
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return manifest


def lose_host(name: str) -> bool:
    """Kill all processes of a training job's second host on SageMaker; return False if it has not started."""
    hosts = groups(f"training/{name}/algo-2")
    for host in hosts:
        host.lose(host_lost=True)
    return bool(hosts)


def delete_pod(cloud: LocalCloud, cluster: str, namespace: str, name: str) -> bool:
    """Delete the pod of a training job's second host on EKS, and return False if there is none."""
    pod = f"batch.kubernetes.io/job-name={name},batch.kubernetes.io/job-completion-index=1"
    arguments = ("delete", "pod", "--namespace", namespace, "--selector", pod, "--now")
    digits.print_text(f"$ kubectl {' '.join(arguments)}")
    deleted = kubectl(cloud, cluster, *arguments)
    digits.print_text(deleted.rstrip())
    return bool(deleted)


def kill_a_host(submission: Submission, lose: Callable[[str], bool]) -> str:
    """Kill the second host of the interrupted job after some checkpoints, and return the job's name.

    Args:
        lose: Ends the second host of the training job of this name; returns False if there is none.

    Raises:
        TraingridError: The job ended before, or has no such checkpoints in time.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        job = submission.jobs[INTERRUPTED]
        if job.training_job and checkpoints(submission) >= KILL_AFTER and lose(job.training_job):
            digits.print_text(
                f"killed the second host of {job.training_job} after {checkpoints(submission)} checkpoints"
            )
            return job.training_job
        if job.ended:
            raise TraingridError(f"{job.training_job} has ended before a host was killed: {job.reason or job.state}.")
        time.sleep(0.5)
    raise TraingridError(f"The interrupted job wrote no {KILL_AFTER} checkpoints within {WAIT_SECONDS:.0f} s.")


def checkpoints(submission: Submission) -> int:
    """Return the number of the interrupted job's newest complete checkpoint in S3, or 0."""
    place = S3Uri.parse(submission.describe(INTERRUPTED).fields["checkpoints"])
    listed = client("s3", submission.jobs[INTERRUPTED].region).list_objects_v2(Bucket=place.bucket, Prefix=place.key)
    folders = [
        Path(item["Key"]).parent.name for item in listed.get("Contents", ()) if item["Key"].endswith("state.json")
    ]
    return max((int(folder.split("-")[1]) for folder in folders), default=0)


def trained(job: JobStatus) -> bool:
    """Return True if a job has completed with the required accuracy; print why not."""
    top1 = job.metrics.get("validation_top1") or 0.0
    if job.state == "Completed" and top1 >= ENOUGH:
        return True
    digits.print_text(f"{job.training_job}: {job.state}, held-out top-1 {top1} (required: {ENOUGH}). {job.reason}")
    return False


def resumed(submission: Submission, words: str = "Resuming from ") -> bool:
    """Return True if the retried job has started from a checkpoint; print the lines of its log with these words."""
    lines = [line.text for line in submission.logs(INTERRUPTED, grep=words)]
    digits.print_text("\n".join(lines) or "The retried job did not start from a checkpoint.")
    return bool(lines)


def equal(submission: Submission, work: Path) -> bool:
    """Return True if both models and their results are equal within 1e-6; print the largest differences."""
    folders = submission.download(work / "models")
    program = [str(PYTHON), str(HERE / "compare_models.py"), *map(str, folders)]
    compared = subprocess.run(program, capture_output=True, text=True, check=False)
    digits.print_text(compared.stdout + compared.stderr)
    return compared.returncode == 0
