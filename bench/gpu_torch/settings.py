"""The settings of a measurement of PyTorch, and the names of its figures. Does not import PyTorch."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Self

PREFETCHED = 2
"""Batches that each worker of a DataLoader prepares in advance, which is PyTorch's default."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a measurement, which the script receives as a hyperparameter in JSON.

    Attributes:
        batch: Images per step.
        image_size: Height and width of an image, in pixels.
        model: The network, by its name in torchvision.
        workers: Workers of the DataLoader, and processes of the row "decoder".
        rounds: Rounds, in each of which every loop runs a block of steps.
        steps: Steps of a block.
        on_cpu: Whether CPUs are accepted, to check the program.
    """

    batch: int
    image_size: int
    model: str
    workers: int
    rounds: int
    steps: int
    on_cpu: bool

    @property
    def prefetched(self) -> int:
        """The batches that may be ready before a block begins: all queues, and one at hand in each worker."""
        return self.workers * (PREFETCHED + 1)

    def text(self) -> str:
        """Return the settings as JSON."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def parsed(cls, text: str) -> Self:
        """Return settings from JSON."""
        return cls(**json.loads(text))


BARE, COMPILED, DDP = "bare", "compiled", "ddp"
SYNTHETIC, RECORDS, GPU_DECODED = "synthetic", "records", "gpu_decoded"
LOOPS = {
    BARE: "PyTorch alone, one batch in the GPU's memory",
    COMPILED: "the same with torch.compile",
    DDP: "the same with DistributedDataParallel and NCCL, one rank",
    SYNTHETIC: "the same with traingrid's ranks and metrics",
    RECORDS: "the same, JPEGs of a channel, decoded by workers",
    GPU_DECODED: "the same, JPEGs of a channel, decoded by the GPU",
}
AIMS = {SYNTHETIC: 0.95, RECORDS: 0.9}
"""The smallest share of the bare loop's images per second."""
PARTS = {
    "input": "host waits for a batch",
    "copy": "copy a batch to the GPU",
    "compute": "network, loss, gradients",
    "update": "update the weights",
}
LIMITS = {
    "decoder": "decode and crop, one process per worker",
    "loader_memory": "DataLoader with decoding, records in memory",
    "loader": "DataLoader with decoding, traingrid's records",
    "loader_bytes": "DataLoader without decoding, traingrid's records",
    "reader": "traingrid's records in one process",
    "gpu_decoder": "decode and crop on the GPU (nvJPEG)",
}
