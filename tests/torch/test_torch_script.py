"""The example torch_script, which uses nothing of traingrid, on two hosts of two ranks."""

import re
import subprocess
import sys
from pathlib import Path

from tests.torch.torch_hosts import REPOSITORY, TorchHosts


def test_the_script_trains_on_all_ranks_and_writes_its_model(tmp_path: Path) -> None:
    data = tmp_path / "digits"
    subprocess.run([sys.executable, REPOSITORY / "examples/torch_ddp/write_digits.py", data], check=True)
    source = REPOSITORY / "examples/torch_script/source"
    settings = {"epochs": "3", "learning_rate": "0.01"}
    hosts = TorchHosts(folder=tmp_path / "hosts", data=data, hyperparameters=settings, source=source)
    hosts.start()
    try:
        assert hosts.wait() == [0, 0], hosts.log(1) + hosts.log(2)
    finally:
        hosts.kill()
    accuracies = [float(value) for value in re.findall(r"epoch=\d loss=\S+ accuracy=(\S+)", hosts.log(1))]
    assert len(accuracies) == 3
    assert accuracies[-1] > 0.8
    assert (hosts.model / "model.pt").is_file()
