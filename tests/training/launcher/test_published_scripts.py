"""Published scripts run unchanged. Nothing is downloaded: the tests are skipped unless these variables name the files.

    git clone https://github.com/horovod/horovod
    # elastic_ddp.py: copied from https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html
    HOROVOD_EXAMPLES=$PWD/horovod/examples ELASTIC_DDP=$PWD/elastic_ddp.py TORCH_ENVIRONMENT=$PWD/.venv-torch \
        .venv-training/bin/python -m pytest tests/training/launcher/test_published_scripts.py

TORCH_ENVIRONMENT is a virtual environment with PyTorch and the requirements of the training image.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support.packages import needs
from tests.training.launcher.test_own_ranks import TWO
from tests.training.launcher.test_scripts import archive

Started = Callable[..., "tuple[Path, subprocess.Popen[str]]"]

HOROVOD = os.environ.get("HOROVOD_EXAMPLES", "")
ELASTIC, TORCH = os.environ.get("ELASTIC_DDP", ""), os.environ.get("TORCH_ENVIRONMENT", "")
needs_horovod = needs("HOROVOD_EXAMPLES")
needs_torch = needs("ELASTIC_DDP and TORCH_ENVIRONMENT")
# 28 x 28 pixels, as in MNIST, from scikit-learn's 8 x 8.
CACHE = """
import sys
import numpy as np
from sklearn.datasets import load_digits
digits = load_digits()
images = np.pad(np.kron(digits.images * 15, np.ones((1, 3, 3))), ((0, 0), (2, 2), (2, 2))).astype("uint8")
for path in sys.argv[1:]:
    np.savez(path, x_train=images, y_train=digits.target, x_test=images, y_test=digits.target)
"""
# Keras compares the cache with the checksum of the real data, which these are not.
ANY_CHECKSUM = """
import importlib.util
import sys

class Finder:
    def find_spec(self, name, path, target=None):
        if name != "keras.src.utils.data_utils":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module
        def exec_module(module):
            execute(module)
            module.validate_file = lambda *arguments, **options: True
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder())
"""


@pytest.fixture
def started(host_folder: Callable[..., Path], start: Callable[..., "subprocess.Popen[str]"], tmp_path: Path) -> Started:
    """A function that starts `train` with a script on two ranks of one host."""

    def run(
        program: str, text: str, hyperparameters: Mapping[str, str], **environment: str
    ) -> "tuple[Path, subprocess.Popen[str]]":
        packed = archive(tmp_path / "sourcedir.tar.gz", {program: text})
        named = {"sagemaker_program": program, "sagemaker_submit_directory": packed}
        base = host_folder(tmp_path / "ml", named | dict(hyperparameters))
        (base / "model").mkdir()
        return base, start(base, **environment)

    return run


@needs_horovod
def test_horovods_synthetic_benchmark(started: Started) -> None:
    program = "tensorflow2_synthetic_benchmark.py"
    options = {"model": "MobileNet", "batch-size": "1", "num-warmup-batches": "1", "num-batches-per-iter": "1"}
    text = (Path(HOROVOD) / "tensorflow2" / program).read_text()
    _, train = started(program, text, options | {"num-iters": "2", "no-cuda": ""})
    output, _ = train.communicate(timeout=500)
    assert train.returncode == 0, output
    assert "Total img/sec on 2 CPU(s): " in output


@needs_horovod
def test_horovods_keras_mnist_with_a_prepared_cache(started: Started, tmp_path: Path) -> None:
    program, cache = "tensorflow2_keras_mnist.py", tmp_path / ".keras" / "datasets"
    cache.mkdir(parents=True)
    files = [str(cache / f"mnist-{rank}.npz") for rank in range(2)]
    subprocess.run([sys.executable, "-c", CACHE, *files], check=True)
    (tmp_path / "sitecustomize.py").write_text(ANY_CHECKSUM)
    text = (Path(HOROVOD) / "tensorflow2" / program).read_text()
    base, train = started(program, text, {}, HOME=str(tmp_path), PYTHONPATH=str(tmp_path))
    deadline = time.monotonic() + 600
    while not (base / "code" / "checkpoint-1.h5").exists():  # the first of 24 epochs
        assert train.poll() is None, train.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.5)
    os.killpg(train.pid, signal.SIGKILL)


@needs_torch
def test_pytorchs_elastic_tutorial(started: Started) -> None:
    """With another backend, and on processors: the tutorial names the device in two places."""
    text = Path(ELASTIC).read_text()
    device = "rank % torch.cuda.device_count()" if "torch.cuda" in text else "rank % torch.accelerator.device_count()"
    for part, replacement in (
        ('"nccl"', '"gloo"'),
        (device, 'torch.device("cpu")'),
        ("device_ids=[device_id]", "device_ids=None"),
    ):
        assert part in text
        text = text.replace(part, replacement)
    programs = f"{TORCH}/bin"
    environment = {"PYTHON": f"{programs}/python", "PATH": f"{programs}:{os.environ['PATH']}"}
    launch = {"sagemaker_mpi_enabled": "false"} | TWO
    _, train = started("elastic_ddp.py", text, launch, **environment)
    output, _ = train.communicate(timeout=200)
    assert train.returncode == 0, output
    assert "Start running basic DDP example on rank 0." in output.splitlines()
    assert "[1,1]<stdout>:Start running basic DDP example on rank 1." in output.splitlines()
