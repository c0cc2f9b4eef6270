"""Precision: selects the number format in which a network computes."""

from pathlib import Path

import tensorflow as tf

from training_container.trainer.config import Config


def policy(config: Config, processor: Path = Path("/proc/cpuinfo")) -> str:
    """Return Keras' name of the precision: the user's choice or, for `auto`, the fastest one that is safe here.

    GPUs use float16, with loss scaling because of its small range. CPUs use bfloat16, which has the range of float32,
    if they have instructions for it; ResNet-50 is then 1.7 times as fast. Other CPUs would emulate it slowly.

    Args:
        config: The validated hyperparameters.
        processor: Linux's description of the CPU (proc(5)).
    """
    if config.precision != "auto":
        return config.precision
    if tf.config.get_visible_devices("GPU"):
        return "mixed_float16"
    flags = processor.read_text(encoding="utf-8").split() if processor.exists() else []
    return "mixed_bfloat16" if {"avx512_bf16", "amx_bf16"} & set(flags) else "float32"
