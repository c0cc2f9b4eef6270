"""The settings of a measurement on GPUs, and its figures. Does not import TensorFlow."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a measurement, which every rank receives as JSON.

    Attributes:
        batch: Images per rank and step.
        image_size: Height and width of an image, in pixels.
        model: The trainer's network. Horovod's benchmark always trains Keras' ResNet-50.
        precision: The trainer's precision; Horovod's benchmark computes in float32.
        xla: Whether the trainer and the bare loop compile their step with XLA.
        rounds: Rounds, in each of which every loop runs a block of steps.
        steps: Steps of a block.
        on_cpu: Whether CPUs are accepted, to check the program.
    """

    batch: int
    image_size: int
    model: str
    precision: str
    xla: bool
    rounds: int
    steps: int
    on_cpu: bool

    def text(self) -> str:
        """Return the settings as JSON."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def parsed(cls, text: str) -> Self:
        """Return settings from JSON."""
        return cls(**json.loads(text))


TRAINER, SYNTHETIC, BARE, HOROVOD = "trainer", "trainer_synthetic", "bare", "horovod_benchmark"
LOOPS = {
    TRAINER: "the trainer, JPEGs from files",
    SYNTHETIC: "the trainer's step, one batch in the device's memory",
    BARE: "Keras' SGD without Horovod, one batch in the device's memory",
    HOROVOD: "Horovod's synthetic benchmark, float32",
}
PARTS = {
    "input": "prepare a batch on the host",
    "copy": "copy a batch to the device",
    "compute": "network, loss, gradients",
    "allreduce": "average over the ranks",
    "update": "update the weights",
}
"""Parts of the trainer's step, each measured alone. In training they overlap."""
