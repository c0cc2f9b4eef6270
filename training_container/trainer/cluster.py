"""The ranks of a training job, for the trainer and for any Horovod script:

from trainer import cluster

ranks = cluster.start()
...
if ranks.is_main:
    model.save(ranks.folders.model)
"""

import os
from dataclasses import dataclass
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf

from training_container.contract import Folders, TrainingJob, read_training_job
from training_container.launch_options import ALLOW_CPU
from training_container.missing_gpus import may_use_cpu
from training_container.stopping import STOP_FILE


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """This process among all ranks.

    Attributes:
        rank: this process's number, from 0.
        size: how many ranks there are.
        local_rank: this process's number among the ranks of its host, from 0.
        local_size: how many ranks its host has.
        folders: where this host reads and writes (/opt/ml).
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    folders: Folders

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0, the one that writes checkpoints, events and the model."""
        return self.rank == 0

    def stop_requested(self) -> bool:
        """Return whether any rank was told to stop, as by SageMaker before it takes a spot instance away.

        All ranks must ask together and get the same answer. A script that is told so writes its checkpoint and ends.
        """
        path = os.environ.get(STOP_FILE)
        return any_rank(path is not None and Path(path).exists())


def start(job: TrainingJob | None = None) -> Cluster:
    """Make this process a rank: hvd.init(), a device of its own, and a count of all ranks.

    Args:
        job: the contract's view of this host; read from /opt/ml (or SAGEMAKER_BASE_DIR) where not given. Where there is
            none either, as in a script run by hand, any number of ranks will do.

    Raises:
        RuntimeError: the ranks are not as many as the job says, the host has fewer GPUs than ranks, or it has GPUs and
            TensorFlow finds none.
        ContractError: what is in /opt/ml is malformed.
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
    """Return whether the flag is set on at least one rank: all ranks get the same answer, and must ask together."""
    return bool(hvd.allreduce(tf.constant(int(flag)), op=hvd.Max, name="any_rank"))


def least(number: int) -> int:
    """Return the least of all ranks' numbers, as of the batches that each has; all ranks must ask together."""
    return int(hvd.allreduce(tf.constant(number, tf.int64), op=hvd.Min, name="least"))


def count_ranks(job: TrainingJob) -> None:
    """Check that there is one rank for every process slot of the job, by asking every rank.

    Raises:
        RuntimeError: there are more or fewer.
    """
    counted = int(hvd.allreduce(tf.ones([], tf.int32), op=hvd.Sum, name="ranks"))
    if counted != job.world_size:
        raise RuntimeError(
            f"Counted {counted} rank(s) instead of {job.world_size}: {len(job.hosts)} host(s) x "
            f"{job.launch.processes_per_host} process(es) per host. Check that sagemaker_mpi_custom_mpi_options sets "
            "no number of processes and that all hosts started."
        )


def use_own_device(*, may_use_cpu: bool = True) -> None:
    """Give this rank its own GPU, or, where there is none, its share of the host's cores.

    Raises:
        RuntimeError: the host has GPUs, but fewer than ranks; or there is none, and ranks may not use the cores.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus and not may_use_cpu:
        raise RuntimeError(
            "The host has GPUs, and TensorFlow finds none: the image lacks CUDA's libraries, or NVIDIA's driver is too "
            f"old for them. Use the target gpu of training_container/Dockerfile, or set the hyperparameter {ALLOW_CPU} "
            "to true to train on the processors."
        )
    if gpus and hvd.local_rank() >= len(gpus):
        raise RuntimeError(
            f"Local rank {hvd.local_rank()} has no GPU: the host has {len(gpus)}. Start fewer processes."
        )
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")
        tf.config.experimental.set_memory_growth(gpus[hvd.local_rank()], True)
        return
    cores = max(1, (os.cpu_count() or 1) // hvd.local_size())
    tf.config.threading.set_intra_op_parallelism_threads(cores)
    tf.config.threading.set_inter_op_parallelism_threads(1 if cores == 1 else 2)
