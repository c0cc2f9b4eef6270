"""GPU: measures the utilization and memory of this rank's GPU with NVIDIA's NVML."""

import os

import pynvml


class Gpu:
    """One GPU. On a host without GPUs, `use` returns nothing.

    Args:
        local_rank: The rank's number on its host. A framework only numbers the GPUs in CUDA_VISIBLE_DEVICES, but NVML
            numbers all, so this class interprets the variable.
    """

    def __init__(self, local_rank: int) -> None:
        try:
            pynvml.nvmlInit()
            self._handle = _handle(local_rank)
        except (pynvml.NVMLError, ValueError, IndexError):
            self._handle = None  # no driver, no GPU, or one that cannot be identified: report nothing

    def use(self) -> dict[str, float]:
        """Return gpu_percent and gpu_memory_mb.

        gpu_percent is the share of time in which the GPU computed, during the driver's last sample of at most 1 s
        (nvmlUtilization_t in NVIDIA's NVML reference).
        """
        if self._handle is None:
            return {}
        try:
            busy = pynvml.nvmlDeviceGetUtilizationRates(self._handle).gpu
            memory = pynvml.nvmlDeviceGetMemoryInfo(self._handle).used
        except pynvml.NVMLError:  # not supported for MIG instances
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
