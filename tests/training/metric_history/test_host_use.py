"""Host use: the share of processors, memory and GPUs, of a container's limits or of the whole host."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from training_container.metric_history import host_use as module
from training_container.metric_history.host_use import HostUse

MEMORY = "MemTotal: 16000 kB\nMemFree: 1000 kB\nMemAvailable: 12000 kB\nHugePages_Total: 0\n"


def files(folder: Path, **contents: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in contents.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock, on a host with two processors and 100 ticks a second."""
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(module.os, "sysconf", lambda _: 100)
    return [0.0]


def test_without_limits_it_is_the_share_of_the_host(tmp_path: Path, seconds: list[float]) -> None:
    proc = files(tmp_path / "proc", stat="cpu 100 0 100 5000 50 0 0 0 40 0\ncpu0 1 1 1 1 1\n", meminfo=MEMORY)
    use = HostUse(proc, tmp_path / "none", lambda: seconds[0])
    seconds[0] = 10.0
    files(proc, stat="cpu 700 0 400 5500 90 10 20 30 640 0\n")
    # 600 + 300 + 10 + 20 + 30 ticks of 2,000; time of guests is a part of that of users.
    assert use.sample() == {"host_cpu_percent": 48.0, "host_memory_percent": 25.0}
    seconds[0] = 20.0
    assert use.sample() == {"host_cpu_percent": 0.0, "host_memory_percent": 25.0}


def test_a_container_with_limits_has_the_share_of_these(tmp_path: Path, seconds: list[float]) -> None:
    proc = files(tmp_path / "proc", stat="cpu 100 0 100 5000 50 0 0 0 0 0\n", meminfo=MEMORY)
    cgroup = files(tmp_path / "cgroup", cpu_max="150000 100000\n", cpu_stat="usage_usec 1000000\nuser_usec 1\n")
    files(cgroup, memory_max="1000000\n", memory_current="700000\n", memory_stat="anon 500000\ninactive_file 200000\n")
    use = HostUse(proc, cgroup, lambda: seconds[0])
    seconds[0] = 2.0
    files(cgroup, cpu_stat="usage_usec 2500000\n")
    assert use.sample() == {"host_cpu_percent": 50.0, "host_memory_percent": 50.0}


def test_a_container_without_limits_has_the_share_of_the_host(tmp_path: Path, seconds: list[float]) -> None:
    proc = files(tmp_path / "proc", meminfo=MEMORY)
    cgroup = files(tmp_path / "cgroup", cpu_max="max 100000\n", memory_max="max\n", memory_current="700000\n")
    assert HostUse(proc, cgroup, lambda: seconds[0]).sample() == {"host_memory_percent": 25.0}


def test_what_cannot_be_read_has_no_value(tmp_path: Path) -> None:
    assert HostUse(tmp_path / "none", tmp_path / "none").sample() == {}


def test_gpus_are_averaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = SimpleNamespace(
        NVMLError=RuntimeError, nvmlInit=lambda: None, nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetUtilizationRates=lambda index: SimpleNamespace(gpu=90 + index),
        nvmlDeviceGetMemoryInfo=lambda index: SimpleNamespace(used=30 + 30 * index, total=100),
    )  # fmt: skip
    monkeypatch.setattr(module, "pynvml", library)
    use = HostUse(tmp_path / "none", tmp_path / "none")
    assert use.sample() == {"host_gpu_percent": 90.5, "host_gpu_memory_percent": 45.0}

    def fail(_: int) -> None:
        raise RuntimeError

    library.nvmlDeviceGetMemoryInfo = fail
    assert use.sample() == {}
    monkeypatch.setattr(module, "pynvml", None)
    assert HostUse(tmp_path / "none", tmp_path / "none").sample() == {}
