"""One rank of the measurement; `python -m bench.gpu` starts it.

    python -m bench.gpu.rank SETTINGS FOLDER

SETTINGS is JSON (settings.py). Rank 0 writes images to FOLDER before, and its figures afterwards (`figures.json`).
"""

import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import horovod.tensorflow as hvd
import tensorflow as tf

from bench.gpu.loops import BATCHES_PER_EPOCH, RATE, Block, configuration, endless, loops, random_batch, write_data
from bench.gpu.settings import Settings
from bench.size import size
from training_container.recipe.config import Config
from training_container.trainer.cluster import any_rank, use_own_device
from training_container.trainer.models import build_model
from training_container.trainer.precision import policy
from training_container.trainer.step import Batch, TrainStep

WARM_UP_STEPS = size(5, 1)
REPEATS = size(10, 1)


class PartsOfStep(TrainStep):
    """The trainer's step, whose parts can be run one by one."""

    def parts(self, batch: Batch) -> dict[str, float]:
        """Return the seconds of each part on the device. All ranks take part."""
        zero, one = tf.constant(0.0), tf.constant(1.0)
        loss, gradients = self._gradients(*batch)
        _, averaged = self._average(loss, gradients, one, zero)
        return {
            "compute": seconds(lambda: self._gradients(*batch)),
            "allreduce": seconds(lambda: self._average(loss, gradients, one, zero)),
            "update": seconds(lambda: self._update(averaged, tf.constant(RATE))),
        }


def main(settings: Settings, folder: Path) -> None:
    """Measure all loops and parts; rank 0 writes the figures."""
    hvd.init()
    use_own_device(may_use_cpu=settings.on_cpu)
    config = configuration(settings, folder / "data")
    if hvd.rank() == 0:
        write_data(folder / "data", settings, hvd.size())
    any_rank(False)
    tf.keras.mixed_precision.set_global_policy(policy(config))
    step = PartsOfStep(build_model(config), config)
    measured = images_per_second(loops(config, settings, step), settings)
    parts = step.parts(random_batch(settings)) | host_parts(config, settings)
    figures = {"images_per_second": measured, "parts": parts, **device(config)}
    if hvd.rank() == 0:
        (folder / "figures.json").write_text(json.dumps(figures))


def images_per_second(blocks: dict[str, Block], settings: Settings) -> dict[str, list[float]]:
    """Return the images per second of all ranks together, for each loop and round. The order of loops alternates."""
    for block in blocks.values():
        block(WARM_UP_STEPS)
    found: dict[str, list[float]] = {name: [] for name in blocks}
    images = settings.steps * settings.batch * hvd.size()
    for number in range(settings.rounds):
        for name in list(blocks)[:: 1 if number % 2 == 0 else -1]:
            any_rank(False)
            began = time.perf_counter()
            blocks[name](settings.steps)
            any_rank(False)
            found[name].append(images / (time.perf_counter() - began))
    return found


def host_parts(config: Config, settings: Settings) -> dict[str, float]:
    """Return the seconds to prepare a batch without training, and to copy one to the device."""
    batches = endless(config)
    for _ in range(2):
        next(batches)
    began, count = time.perf_counter(), BATCHES_PER_EPOCH
    for _ in itertools.islice(batches, count):
        pass
    prepared = (time.perf_counter() - began) / count
    shape = [settings.batch, settings.image_size, settings.image_size, 3]
    with tf.device("/CPU:0"):
        images = tf.zeros(shape, tf.uint8)
    target = "/GPU:0" if tf.config.list_logical_devices("GPU") else "/CPU:0"

    def copy() -> None:
        with tf.device(target):
            tf.identity(images)

    return {"input": prepared, "copy": seconds(copy)}


def seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the median of the seconds that the device takes, after one run that builds the graph."""
    times = []
    for _ in range(repeats + 1):
        tf.test.experimental.sync_devices()
        began = time.perf_counter()
        work()
        tf.test.experimental.sync_devices()
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])


def device(config: Config) -> dict[str, Any]:
    """Return the names and the memory of this rank's device, and the ranks."""
    gpus: Sequence[Any] = tf.config.get_visible_devices("GPU")
    details = tf.config.experimental.get_device_details(gpus[0]) if gpus else {}
    peak = tf.config.experimental.get_memory_info("GPU:0")["peak"] / 2**20 if gpus else None
    return {
        "ranks": hvd.size(),
        "device": details.get("device_name", "CPU"),
        "compute_capability": details.get("compute_capability"),
        "precision": policy(config),
        "peak_memory_mib": peak,
        "nccl": bool(hvd.nccl_built()),
    }


if __name__ == "__main__":
    main(Settings.parsed(sys.argv[1]), Path(sys.argv[2]))
