"""Cluster: the ranks of a training job, for the trainer and for any Horovod script.

Example:
    from trainer import cluster

    ranks = cluster.start()
    ...
    if ranks.is_main:
        model.save(ranks.folders.model)
"""

import os
from dataclasses import dataclass

import horovod.tensorflow as hvd
import tensorflow as tf

from training_container.contract.launch_options import ALLOW_CPU
from training_container.contract.missing_gpus import may_use_cpu
from training_container.contract.stopping import ask_for_stop
from training_container.contract.training_job import Folders, TrainingJob, read_training_job


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The position of this process among all ranks.

    Attributes:
        rank: This process's number, from 0.
        size: The number of ranks.
        local_rank: This process's number among the ranks of its host, from 0.
        local_size: The number of ranks on its host.
        folders: The folders of this host (/opt/ml).
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    folders: Folders

    @property
    def is_main(self) -> bool:
        """True for rank 0, which writes checkpoints, events and the model."""
        return self.rank == 0

    def stop_requested(self) -> bool:
        """Return True if any rank was asked to stop, for example before SageMaker reclaims a Spot Instance.

        All ranks must call this together, and get the same result. A script should then write its checkpoint and end. A
        host whose ranks call this sends them no SIGTERM.
        """
        return any_rank(ask_for_stop())


def start(job: TrainingJob | None = None) -> Cluster:
    """Initialize this process as a rank: hvd.init(), its own device, and a check of the number of ranks.

    Args:
        job: The job as seen by this host; read from /opt/ml (or SAGEMAKER_BASE_DIR) by default. If that does not exist
            either, as for a script that is run manually, any number of ranks is accepted.

    Raises:
        RuntimeError: The number of ranks is not that of the job, the host has fewer GPUs than ranks, or it has GPUs
            that TensorFlow cannot find.
        ContractError: A file in /opt/ml is malformed.
    """
    folders = job.folders if job else Folders.from_environment(os.environ)
    if job is None and (folders.config / "resourceconfig.json").exists():
        job = read_training_job(folders)
    hvd.init()
    use_own_device(may_use_cpu=job is None or may_use_cpu(job, os.environ))
    if job is not None:
        count_ranks(job)
    return Cluster(
        rank=hvd.rank(), size=hvd.size(), local_rank=hvd.local_rank(), local_size=hvd.local_size(), folders=folders
    )


def any_rank(flag: bool) -> bool:
    """Return True if the flag is set on at least one rank. All ranks must call this together."""
    return bool(hvd.allreduce(tf.constant(int(flag)), op=hvd.Max, name="any_rank"))


def least(number: int) -> int:
    """Return the minimum of all ranks' numbers, for example of batches. All ranks must call this together."""
    return int(hvd.allreduce(tf.constant(number, tf.int64), op=hvd.Min, name="least"))


def count_ranks(job: TrainingJob) -> None:
    """Check that the number of ranks is the job's number of process slots. All ranks must call this together.

    Raises:
        RuntimeError: The numbers differ.
    """
    rank_count = int(hvd.allreduce(tf.ones([], tf.int32), op=hvd.Sum, name="ranks"))
    if rank_count != job.world_size:
        raise RuntimeError(
            f"Counted {rank_count} rank(s) instead of {job.world_size}: {len(job.hosts)} host(s) x "
            f"{job.launch.processes_per_host} process(es) per host. Check that sagemaker_mpi_custom_mpi_options does "
            "not set a number of processes, and that all hosts started."
        )


def use_own_device(*, may_use_cpu: bool = True) -> None:
    """Assign this rank its own GPU or, without GPUs, its share of the host's cores.

    Raises:
        RuntimeError: The host has fewer GPUs than ranks, or it has none and ranks may not use the CPU.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus and not may_use_cpu:
        raise RuntimeError(
            "The host has GPUs, but TensorFlow finds none: the image lacks CUDA's libraries, or NVIDIA's driver is too "
            f"old for them. Use the target gpu of training_container/Dockerfile, or set the hyperparameter {ALLOW_CPU} "
            "to true to train on the CPUs."
        )
    if gpus and hvd.local_rank() >= len(gpus):
        raise RuntimeError(
            f"Local rank {hvd.local_rank()} has no GPU: the host only has {len(gpus)}. Start fewer processes."
        )
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
        tf.config.experimental.set_memory_growth(gpus[hvd.local_rank()], True)
    cores = max(1, (os.cpu_count() or 1) // hvd.local_size())
    tf.config.threading.set_intra_op_parallelism_threads(cores)
    if not gpus:
        tf.config.threading.set_inter_op_parallelism_threads(1 if cores == 1 else 2)
