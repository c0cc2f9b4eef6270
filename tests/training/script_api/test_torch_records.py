"""Records as a dataset of PyTorch, and a stop request, on ranks of torchrun. Skipped without PyTorch:

    TORCH_ENVIRONMENT=$PWD/.venv-torch .venv-training/bin/python -m pytest tests/training/script_api

The environment also has the requirements of the training image.
"""

import os
import signal
from pathlib import Path

import pytest

from tests.support.packages import needs
from tests.training.launcher.test_own_ranks import TWO, Run, finished, line_with, run

__all__ = ["run"]  # the fixture
TORCH = os.environ.get("TORCH_ENVIRONMENT", "")
pytestmark = needs("make test-torch")
READS = """
import time
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from trainer import metrics, ranks, records, torch_records

here = ranks.current()
dist.init_process_group("gloo")
train = records.open("train")
data = torch_records.TorchRecords(train, len)
for epoch in range(2):
    data.set_epoch(epoch)
    found = torch.tensor([sum(len(batch) for batch in DataLoader(data, batch_size=8, num_workers=2)), train.count])
    dist.all_reduce(found)
    if here.is_main:
        metrics.report(epoch=epoch, read=found[0], counted=found[1])
steps = 0
while not here.stop_requested():
    time.sleep(0.1)
    steps += 1
print("steps", steps)
"""


def test_ranks_and_workers_read_all_records_once_and_stop_at_the_same_step(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin" / "torchrun").unlink()
    monkeypatch.setenv("PATH", f"{TORCH}/bin:{os.environ['PATH']}")
    (train,) = run(READS, TWO, PYTHON=f"{TORCH}/bin/python")
    read = line_with("epoch=1 ", train).partition("read=")[2].split(" counted=")
    assert float(read[0]) == float(read[1]) > 100
    train.send_signal(signal.SIGTERM)
    status, output = finished(train)
    assert status == 143, output
    steps = [line.split()[-1] for line in output.splitlines() if "steps" in line]
    assert len(steps) == 2
    assert steps[0] == steps[1]
