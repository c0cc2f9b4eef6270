"""Use and memory of this rank's GPU, from NVIDIA's management library. Imports no TensorFlow."""

import os

import pynvml


class Gpu:
    """One GPU; on a host without any, `use` returns nothing.

    Args:
        local_rank: of this rank on its host. TensorFlow numbers the GPUs that CUDA_VISIBLE_DEVICES leaves, and the
            management library numbers all, so the variable is followed here.
    """

    def __init__(self, local_rank: int) -> None:
        try:
            pynvml.nvmlInit()
            self._handle = _handle(local_rank)
        except (pynvml.NVMLError, ValueError, IndexError):
            self._handle = None  # no driver, no GPU, or none that we can name: then nothing is said about it

    def use(self) -> dict[str, float]:
        """Return gpu_percent and gpu_memory_mb.

        The first is the time in which it computed, over the driver's last sample of at most 1 s (nvmlUtilization_t in
        NVIDIA's NVML reference).
        """
        if self._handle is None:
            return {}
        try:
            busy = pynvml.nvmlDeviceGetUtilizationRates(self._handle).gpu
            memory = pynvml.nvmlDeviceGetMemoryInfo(self._handle).used
        except pynvml.NVMLError:  # not supported in a MIG slice
            return {}
        return {"gpu_percent": float(busy), "gpu_memory_mb": round(memory / 1e6, 1)}


def _handle(local_rank: int) -> object:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return pynvml.nvmlDeviceGetHandleByIndex(local_rank)
    name = visible.split(",")[local_rank].strip()
    if name.startswith(("GPU-", "MIG-")):
        return pynvml.nvmlDeviceGetHandleByUUID(name)
    return pynvml.nvmlDeviceGetHandleByIndex(int(name))
