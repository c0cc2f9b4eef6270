"""SIGTERM, checkpoints, metrics and the failure report of a script work in the same way with every launcher."""

import json
import re
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from tests.training.fake_s3 import CREDENTIALS, Store
from tests.training.launcher.test_own_ranks import Run, failure, finished, launcher, line_with, run
from training_container.script_api import checkpoint_folders

__all__ = ["launcher", "run"]  # the fixtures
TRAINS = """
import time
from trainer import checkpoint_folders, metrics, ranks
here = ranks.current()
folder = here.folders.checkpoints / str(here.rank)
found = checkpoint_folders.newest(folder)
for epoch in range(found.state["epoch"] if found else 0, 4):
    checkpoint_folders.save(folder, epoch, lambda path: (path / "model").write_text("x"), epoch=epoch + 1)
    metrics.report(epoch=epoch + 1, loss=1 / (epoch + 1))
    if epoch == 1:
        while not here.stop_requested():
            time.sleep(0.05)
        break
"""
HISTORY = CREDENTIALS | {
    "TRAINGRID_METRICS_S3": "s3://output/x/metrics/job-1/",
    "TRAINGRID_METRICS_0": json.dumps({"loss": "^epoch=.* loss=(.*)"}),
}


def test_a_stopped_script_continues_from_its_checkpoint(
    run: Run, store: Store, tmp_path: Path, launcher: Mapping[str, str]
) -> None:
    (train,) = run(TRAINS, launcher, **HISTORY, AWS_ENDPOINT_URL=store.url)
    line_with("epoch=2 ", train)
    train.send_signal(signal.SIGTERM)
    status, output = finished(train)
    assert status == 143, output
    (train,) = run(TRAINS, launcher, **HISTORY, AWS_ENDPOINT_URL=store.url)
    status, output = finished(train)
    assert status == 0, output
    found = checkpoint_folders.newest(tmp_path / "127.0.0.1" / "checkpoints" / "0")
    assert found is not None
    assert found.state == {"epoch": 4}
    records = [json.loads(line) for _, content in store.puts for line in content.splitlines()]
    values = [record for record in records if "epoch" in record]  # the others have the use of the host
    assert [(value["epoch"], value["metrics"]["loss"]) for value in values] == [
        *((1, 1.0), (2, 0.5)),
        *((3, 0.333333), (4, 0.25)),
    ]


def test_an_exception_before_a_stop_is_a_failure(run: Run, tmp_path: Path, launcher: Mapping[str, str]) -> None:
    text = "import atexit, time\natexit.register(time.sleep, 60)\nraise KeyError('no such pixel')\n"
    (train,) = run(text, launcher)
    line_with("KeyError: 'no such pixel'", train)
    time.sleep(1)  # the report of the failure comes after the traceback
    train.send_signal(signal.SIGTERM)
    status, output = finished(train)
    assert status == 1, output
    assert "failed: KeyError: 'no such pixel'" in failure(tmp_path)


def test_an_exception_after_a_stop_is_a_stop(run: Run, launcher: Mapping[str, str]) -> None:
    text = """
import signal, time
def stop(*_):
    raise KeyError('no such pixel')
signal.signal(signal.SIGTERM, stop)
print('ready')
time.sleep(60)
"""
    (train,) = run(text, launcher)
    line_with("ready", train)
    train.send_signal(signal.SIGTERM)
    status, output = finished(train)
    assert status == 143, output


def test_an_exception_is_the_reason_of_the_failure(run: Run, tmp_path: Path, launcher: Mapping[str, str]) -> None:
    (train,) = run("def train():\n    return {}['no such pixel']\ntrain()\n", launcher)
    status, output = finished(train)
    assert status == 1, output
    reason = failure(tmp_path)
    assert reason.startswith(("Rank 0 on 127.0.0.1 failed: KeyError", "Rank 1 on 127.0.0.1 failed: KeyError"))
    assert "line 2, in train" in reason
    before_error = re.findall("^(.*)KeyError: 'no such pixel'$", output, re.MULTILINE)
    assert len(before_error) == len(set(before_error)), output  # once by each rank that failed, once as the reason
