"""The loops that the measurement runs, in one process, so that all of them share a GPU and its clock."""

import itertools
import math
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torchvision.models import get_model

from bench.gpu_torch.settings import BARE, COMPILED, DDP, GPU_DECODED, PARTS, RECORDS, SYNTHETIC, Settings
from bench.gpu_torch.sources import CLASSES, Batch, DecodedOnDevice, FromRecords, Synthetic
from training_container.script_api import metrics
from training_container.script_api.ranks import Ranks

REPORTED_STEPS = 10
"""Steps between two reports of the loss, and between two checks for a stop request, as in examples/torch_ddp."""


class Step:
    """One step of training."""

    def __init__(self, model: torch.nn.Module, device: torch.device) -> None:
        self.model, self._device = model, device
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-5)

    def __call__(self, batch: Batch, mark: Callable[[], None] = lambda: None) -> torch.Tensor:
        """Train on a batch, and call `mark` after the gradients and after the update."""
        images, labels = batch
        self.optimizer.zero_grad()
        with torch.autocast(self._device.type, torch.bfloat16):
            loss = cross_entropy(self.model(normalized(images)), labels)
        loss.backward()
        mark()
        self.optimizer.step()
        mark()
        return loss.detach()


class TraingridStep(Step):
    """The same, with the calls that docs/scripts.md describes for a script with PyTorch."""

    def __init__(self, model: torch.nn.Module, device: torch.device, here: Ranks) -> None:
        super().__init__(model, device)
        self._here, self._steps = here, 0

    def __call__(self, batch: Batch, mark: Callable[[], None] = lambda: None) -> torch.Tensor:
        """Train on a batch. The report of a loss waits for the GPU."""
        loss = super().__call__(batch, mark)
        self._steps += 1
        if self._steps % REPORTED_STEPS == 0:
            metrics.report(step=self._steps, loss=loss)
            if self._here.stop_requested():
                raise KeyboardInterrupt
        return loss


@dataclass(frozen=True, kw_only=True)
class Loop:
    """A step and the source of its batches."""

    step: Step
    source: Synthetic | FromRecords

    def seconds(self, steps: int, epoch: int = 0) -> float:
        """Return the seconds of a block of steps, without the steps whose batches may have been prepared before."""
        with closing(self.source.batches(epoch)) as batches:
            ready = map(self.source.on_device, batches)
            for batch in itertools.islice(ready, self.source.prefetched):
                self.step(batch)
            synchronize()
            began = time.perf_counter()
            for batch in itertools.islice(ready, steps):
                loss = self.step(batch)
            synchronize()
            seconds = time.perf_counter() - began
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"The loss is {float(loss)} after this block, so its time is not valid: a GPU is faster with some "
                "values than with others. Look for memory that two streams use, or lower the learning rate."
            )
        return seconds

    def parts(self, steps: int) -> dict[str, float]:
        """Return the mean milliseconds of each part of a step, and of the step.

        "input" is the time in which the host waits, while the GPU may still compute; the other parts are the GPU's.
        """
        marks: list[Mark] = []
        waits, first = [], self.source.prefetched
        with closing(self.source.batches(0)) as batches:
            for _ in range(first + steps + 1):
                began = time.perf_counter()
                batch = next(batches)
                waits.append(1000 * (time.perf_counter() - began))
                marks.append(Mark())
                ready = self.source.on_device(batch)
                marks.append(Mark())
                self.step(ready, lambda: marks.append(Mark()))
        synchronize()
        rows = [marks[index : index + 5] for index in range(4 * first, 4 * (first + steps), 4)]
        gpu = [statistics.mean(row[n].until(row[n + 1]) for row in rows) for n in range(3)]
        waits = waits[first : first + steps]
        whole = rows[0][0].until(rows[-1][4]) / steps
        return {**dict(zip(PARTS, [statistics.mean(waits), *gpu], strict=True)), "step": whole}


class Mark:
    """A point in the GPU's queue of work; without a GPU, a time."""

    def __init__(self) -> None:
        self._time, self._event = time.perf_counter(), None
        if torch.cuda.is_available():
            self._event = torch.cuda.Event(enable_timing=True)
            self._event.record()

    def until(self, other: "Mark") -> float:
        """Return the milliseconds until another mark."""
        if self._event is not None:
            return float(self._event.elapsed_time(other._event))
        return 1000 * (other._time - self._time)


def loops(settings: Settings, device: torch.device, traingrid: TraingridStep) -> dict[str, Loop]:
    """Return the loops of settings.LOOPS; without a GPU, those without its decoder."""
    fixed, plain = Synthetic(settings, device), network(settings, device)
    # Without a GPU, the compiler for processors would take a minute, and need a C++ compiler.
    compiled = torch.compile(network(settings, device), backend="inductor" if device.type == "cuda" else "eager")
    steps = {BARE: plain, COMPILED: compiled, DDP: DistributedDataParallel(network(settings, device))}
    loops = {name: Loop(step=Step(model, device), source=fixed) for name, model in steps.items()}
    loops[SYNTHETIC] = Loop(step=traingrid, source=fixed)
    loops[RECORDS] = Loop(step=traingrid, source=FromRecords(settings, device))
    if device.type == "cuda":
        loops[GPU_DECODED] = Loop(step=traingrid, source=DecodedOnDevice(settings, device))
    return loops


def network(settings: Settings, device: torch.device) -> torch.nn.Module:
    """Return a new network, with the memory format that tensor cores need."""
    return get_model(settings.model, num_classes=CLASSES).to(device, memory_format=torch.channels_last)


def normalized(images: torch.Tensor) -> torch.Tensor:
    """Return images [batch, 3, height, width] of about zero mean and unit deviation, in the format channels_last."""
    return images.permute(0, 3, 1, 2).to(torch.bfloat16).sub_(114).div_(57)


def synchronize() -> None:
    """Wait until the GPU has finished its work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
