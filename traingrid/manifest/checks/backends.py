"""Backend check: the backends of a line, and whether a Kubernetes cluster can run its job.

A line must be able to run on each of its backends, so a field that EKS does not have is refused, too, for a line that
lists SageMaker beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.aws.s3_uri import S3Uri
from traingrid.job.accelerators import is_known
from traingrid.job.job import job_in_region
from traingrid.job.processors import is_arm
from traingrid.manifest.fields import SETTINGS
from traingrid.manifest.line import NO_SUBMISSION, backends_of, job_of_line
from traingrid.manifest.problem import Problem, drop_repeats

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traingrid.grid.deployment import Deployment
    from traingrid.grid.eks import EksCluster
    from traingrid.grid.model import GridSettings
    from traingrid.job.backend_traits import BackendName
    from traingrid.job.job import Channel, Inputs, Job
    from traingrid.manifest.allowed import Rules
    from traingrid.manifest.line import Line

    Backends = tuple[BackendName, ...]

_DOWNLOAD = "Write input_mode File, or backend sagemaker."


def check(line: Line, rules: Rules) -> Iterator[Problem]:
    """Yield the errors of a line's backends in all of its Regions; its other fields are valid."""
    grid = rules.grid
    backends = {region: backends_of(line, region, grid) for region in line.places}
    missing = [
        problem for region in backends for problem in _check_backends_exist(region, backends[region], line, grid)
    ]
    if missing:
        yield from missing
        return
    yield from _check_effects(line, [name for names in backends.values() for name in names])
    jobs = _jobs_on_eks(line, backends, rules.deployment)
    problems: list[Problem] = []
    for region, place in line.places.items():
        problems += _check_data_and_launch(region, place, backends[region], line, grid)
        if region in jobs:
            problems += _check_eks_job(jobs[region], line, grid)
    yield from drop_repeats(problems)


def _jobs_on_eks(line: Line, backends: Mapping[str, Backends], deployment: Deployment) -> dict[str, Job]:
    """Return the job of a line in each Region in which a cluster may run it.

    Most manifests have no line on EKS, and a job takes more time than all other checks of a line.
    """
    regions = [region for region, names in backends.items() if "eks" in names]
    if not regions:
        return {}
    job = job_of_line(line, 0, deployment, NO_SUBMISSION)
    return {region: job_in_region(job, region) for region in regions}


def _check_backends_exist(region: str, backends: Backends, line: Line, grid: GridSettings) -> Iterator[Problem]:
    """Yield a problem if a Region of the line lacks a backend that the line needs there.

    Args:
        backends: In the line's own Region all backends of the line, which the Region must have. In a Region of
            `replicas` only those that the Region has, of which there must be one.
    """
    has_all = all(name in grid.regions[region].backends for name in backends)
    if not backends or not has_all:
        reason = f"{region} has no cluster of EKS in grid.yaml"
        step = f"Write sagemaker, or `eks: {{cluster: NAME}}` for {region} in grid.yaml and deploy."
        yield Problem("backend", " ".join(line.settings.backend or backends), reason, step)


def _check_effects(line: Line, names: list[BackendName]) -> Iterator[Problem]:
    """Check that no setting of the line is without effect; `names` are its backends in all of its Regions."""
    for field in ("eks_kind", "eks_queue"):
        if field in line.fields and "eks" not in names:
            step = f"Write backend eks, or remove {field}."
            yield Problem(field, None, "only valid for a job that may run on EKS", step)
    if line.settings.max_wait is not None and "sagemaker" not in names:
        reason = "only SageMaker limits waiting and running together; a pod waits until nodes have room"
        yield Problem("max_wait", "", reason, "Remove max_wait.")
    if line.settings.capacity_wait is not None and len(names) == 1:
        reason = "the line has only one backend in one Region, which waits for capacity without limit"
        yield Problem("capacity_wait", "", reason, "Add a backend or a replica, or remove capacity_wait.")


def _check_data_and_launch(
    region: str, place: S3Uri | Inputs, backends: Backends, line: Line, grid: GridSettings
) -> Iterator[Problem]:
    """Check a line's data and launch in one of its Regions against the backends there."""
    if isinstance(place, dict) and "sagemaker" in backends and not grid.regions[region].subnets:
        for name, channel in place.items():
            if channel.file_system:
                reason = f"the channel {name} is on a file system, which SageMaker mounts only through a VPC"
                step = f"Write backend eks, or set subnets and security_groups of {region} in grid.yaml and deploy."
                yield Problem("inputs", channel.location, reason, step)
    if line.settings.capacity_wait is not None and line.settings.applied_to(grid.job).launch == "queued":
        reason = "a service queue keeps its jobs until it has room"
        yield Problem("capacity_wait", "", reason, "Write launch direct, or remove capacity_wait.")


def _check_eks_job(job: Job, line: Line, grid: GridSettings) -> Iterator[Problem]:
    """Check the job of a Region against the cluster there."""
    yield from _check_sagemaker_settings(job, line, grid)
    yield from _check_hosts(job, grid)
    if cluster := grid.regions[job.region].eks:
        yield from _check_mpi_hosts(job, cluster)
        for name, channel in job.inputs.items():
            yield from _check_channel(name, channel, job, cluster)


def _check_sagemaker_settings(job: Job, line: Line, grid: GridSettings) -> Iterator[Problem]:
    """Yield the settings of a job that only SageMaker has."""
    step = "Write backend sagemaker, or use a custom training image."
    if job.algorithm:
        yield Problem("algorithm", job.algorithm, "SageMaker's algorithm resources do not run on EKS", step)
    elif job.is_algorithm:
        image = line.settings.image or grid.job.image
        yield Problem("image", image, "SageMaker's built-in algorithms do not run on EKS", step)
    if job.launch == "queued":
        reason = "a service queue of AWS Batch does not launch jobs on EKS"
        yield Problem("launch", "queued", reason, "Write launch direct; `eks_queue` names a queue of Kueue.")
    for name in line.fields & SETTINGS.keys():
        if reason := SETTINGS[name].not_on_eks:
            yield Problem(name, None, reason, "Remove it, or write backend sagemaker.")


def _check_hosts(job: Job, grid: GridSettings) -> Iterator[Problem]:
    """Yield the errors of a job's hosts.

    The names of hosts need no check: `<training job>-worker-<host>` has less than the 63 characters of a DNS label,
    because the name of a grid has at most 24 (`traingrid.grid.model.NAME_LIMIT`).
    """
    if not is_known(job.instance_type):
        reason = "traingrid does not know how many accelerators this type has, and pods must request them"
        yield Problem("instance_type", job.instance_type, reason, "Use another type, or write backend sagemaker.")
    elif is_arm(job.instance_type):  # the image of prepare and results (batch_job/Dockerfile) is built for x86 only
        reason = "its CPUs are Arm, and two containers of each pod on EKS, prepare and results, run on x86 only"
        yield Problem("instance_type", job.instance_type, reason, "Use an x86 type, or write backend sagemaker.")
    if job.instance_count > 1 and grid.training.encrypt_traffic:
        reason = "encrypt_traffic in grid.yaml is on, which is the default, and Kubernetes does not encrypt traffic"
        step = "Train on one host, write backend sagemaker, or set `training: {encrypt_traffic: false}` and deploy."
        yield Problem("instance_count", str(job.instance_count), reason, step)


def _check_mpi_hosts(job: Job, cluster: EksCluster) -> Iterator[Problem]:
    """Yield an error if an MPIJob would end hosts that still train, or complete although one has failed.

    An MPIJob has the end of its launcher, which is the first host: the operator does not look at the exit codes of the
    workers, and deletes those that still run
    (https://github.com/kubeflow/mpi-operator/blob/v0.8.2/pkg/controller/mpi_job_controller.go, updateMPIJobStatus and
    deleteWorkerPods). With mpi, the launcher ends after all ranks. So it does with torchrun, whose agents wait for each
    other (`exit_barrier_timeout` of torch.distributed.elastic.agent.server.api, 300 s). With none, each host ends when
    its own program does.
    """
    if job.launcher == "none" and job.instance_count > 1 and cluster.kind_of(job) == "mpijob":
        reason = "an MPIJob ends with its first host, and the programs of the other hosts with it"
        yield Problem("launcher", "none", reason, "Write eks_kind job, or launcher mpi or torchrun.")


def _check_channel(name: str, channel: Channel, job: Job, cluster: EksCluster) -> Iterator[Problem]:
    """Yield the first reason why pods of a cluster cannot read a channel."""
    if channel.file_system:
        if channel.file_system not in cluster.file_system_volumes:
            place = f"the cluster in {job.region} has no volume of {channel.file_system}"
            step = "Add its PersistentVolumeClaim to file_system_volumes in grid.yaml and deploy."
            yield Problem("inputs", channel.location, f"{place}, on which the channel {name} is", step)
        return
    bucket = S3Uri.parse(channel.uri).bucket
    fast = channel.input_mode == "FastFile"
    sharded = channel.distribution != "FullyReplicated" and job.instance_count > 1
    rules = (
        (channel.attributes, "is an augmented manifest, which only SageMaker streams", "Write backend sagemaker."),
        (channel.input_mode == "Pipe", "is in Pipe mode, which EKS does not have", _DOWNLOAD),
        (
            fast and bucket not in cluster.s3_volumes,
            f"is in FastFile mode, but the cluster in {job.region} has no volume of {bucket}",
            f"Write input_mode File, or add {bucket} to s3_volumes in grid.yaml and deploy.",
        ),
        (fast and channel.manifest, "is a ManifestFile, but a volume of its bucket contains all objects", _DOWNLOAD),
        (fast and sharded, "is sharded, but a volume of its bucket shows every host all objects", _DOWNLOAD),
    )
    for is_wrong, reason, step in rules:
        if is_wrong:
            yield Problem("inputs", channel.location, f"the channel {name} {reason}", step)
            return
