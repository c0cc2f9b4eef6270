"""The limits of the loops with records: decoding alone, reading alone, and both without training."""

import functools
import itertools
import multiprocessing
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any

import torch

from bench.gpu_torch.channel import CHANNEL, IMAGES, jpegs, record
from bench.gpu_torch.loops import synchronize
from bench.gpu_torch.settings import Settings
from bench.gpu_torch.sources import DecodedOnDevice, Decoder, FromMemory, FromRecords
from bench.size import size
from training_container.script_api import records

_SECONDS = size(2.0, 0.1)
_READ = size(8192, 16)


def limits(settings: Settings, device: torch.device) -> dict[str, float]:
    """Return the images or records per second of each row of settings.LIMITS, and the bytes of a mean record."""
    contents = [record(number, jpeg) for number, jpeg in enumerate(jpegs(IMAGES))]
    on_device = DecodedOnDevice(settings, device)
    limits = {
        "decoder": decoded_by_processes(settings, contents),
        "loader_memory": loaded(FromMemory(settings, device, contents), settings),
        "loader": loaded(FromRecords(settings, device), settings),
        "loader_bytes": loaded(on_device, settings),
        "reader": rate(records.open(CHANNEL).records(0), _READ),
    }
    if device.type == "cuda":
        limits["gpu_decoder"] = decoded_on_device(on_device, settings)
    return {**limits, "record_bytes": sum(map(len, contents)) / len(contents)}


def decoded_by_processes(settings: Settings, contents: Sequence[bytes]) -> float:
    """Return the sum of the rates of processes with one thread each, without a DataLoader."""
    work = functools.partial(decoded_by_one, contents, settings.image_size)
    with multiprocessing.get_context("fork").Pool(settings.workers, torch.set_num_threads, (1,)) as pool:
        return sum(pool.map(work, [_SECONDS] * settings.workers, chunksize=1))


def decoded_by_one(contents: Sequence[bytes], image_size: int, seconds: float) -> float:
    """Return the images per second of this process."""
    decoder = Decoder(image_size)
    decoder(contents[0])
    began = time.perf_counter()
    for count, content in enumerate(itertools.cycle(contents), start=1):
        decoder(content)
        if (passed := time.perf_counter() - began) > seconds:
            return count / passed
    raise ValueError("There are no records to decode.")


def loaded(source: FromRecords, settings: Settings) -> float:
    """Return the records per second of a DataLoader, after the batches that its workers prepare at the start."""
    with closing(source.batches(0)) as batches:
        for _ in itertools.islice(batches, source.prefetched):
            pass
        return rate(batches, settings.prefetched + settings.steps) * settings.batch


def decoded_on_device(source: DecodedOnDevice, settings: Settings) -> float:
    """Return the images per second of nvJPEG and the crops, for a batch in the host's memory."""
    with closing(source.batches(0)) as batches:
        batch = next(batches)
    source.on_device(batch)
    synchronize()
    began = time.perf_counter()
    for _ in range(settings.steps):
        source.on_device(batch)
    synchronize()
    return settings.steps * settings.batch / (time.perf_counter() - began)


def rate(items: Iterable[Any], count: int) -> float:
    """Return the items per second of an iterator."""
    began = time.perf_counter()
    taken = sum(1 for _ in itertools.islice(items, count))
    return taken / (time.perf_counter() - began)
