"""Ranks that print nothing for a long time are ended, with every launcher."""

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.training.launcher.test_own_ranks import NONE, TWO, Run, failure, finished, launcher, run
from training_container.launcher.silence import SilenceWatch

__all__ = ["launcher", "run"]  # the fixtures
LIMIT_SECONDS = 10
"""On a busy machine a rank imports for several seconds before it can print its first line."""
LIMIT = {"sagemaker_stall_seconds": str(LIMIT_SECONDS)}
HANGS = """
import os, pathlib, time
from trainer import ranks
here, folder = ranks.current(), pathlib.Path(os.environ["SM_MODEL_DIR"])
def read():
    time.sleep(200)
def wait():
    time.sleep(200)
(folder / f"rank-{here.rank}").touch()
while len(list(folder.glob("rank-*"))) < here.local_size:
    print("not all ranks of this host have started", flush=True)
    time.sleep(0.1)
wait() if here.is_main else read()
"""


def test_silent_ranks_end_and_the_reason_has_their_places(
    run: Run, tmp_path: Path, launcher: Mapping[str, str]
) -> None:
    (train,) = run(HANGS, LIMIT | launcher)
    status, output = finished(train)
    assert status == 1, output
    reason = failure(tmp_path)
    assert reason.startswith(
        f"No rank has printed a line for {LIMIT_SECONDS} s (sagemaker_stall_seconds). Rank 0 on 127.0.0.1 was at "
    )
    assert "mine.py:8 in wait." in reason
    assert ("Rank 1 on 127.0.0.1 was at mine.py:6 in read." in reason) == (launcher != NONE)


def test_output_of_any_host_postpones_the_end_with_torchrun(run: Run) -> None:
    text = f"""
import os, time
for step in range({2 * LIMIT_SECONDS + 4}):
    time.sleep(0.5)
    if os.environ["RANK"] == "3":
        print(step)
"""
    trains = run(text, LIMIT | TWO, hosts=2)
    for train in trains:
        status, output = finished(train)
        assert status == 0, output


def test_all_hosts_end_when_all_are_silent(run: Run, tmp_path: Path) -> None:
    for host, train in enumerate(run(HANGS, LIMIT | TWO, hosts=2), start=1):
        status, output = finished(train)
        assert status == 1, output
        assert failure(tmp_path, host).startswith(f"No rank has printed a line for {LIMIT_SECONDS} s")


def test_there_is_no_limit_by_default(run: Run) -> None:
    (train,) = run("import time; time.sleep(6)", NONE)
    assert finished(train)[0] == 0


class Ranks:
    """A launcher that runs until it is ended."""

    pid = 2**22 + 1  # no process has it

    def __init__(self) -> None:
        self.ended = 0.0

    def poll(self) -> int | None:
        """Return None while it runs."""
        return 0 if self.ended else None

    def end(self) -> None:
        """End it."""
        self.ended = time.monotonic()


@pytest.mark.parametrize(("start", "least"), [(0.0, 0.1), (1.0, 1.0)])
def test_silent_ranks_may_compile_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: float, least: float
) -> None:
    monkeypatch.setattr("training_container.launcher.silence._PRINTING_SECONDS", 0.0)
    begin, ranks = time.monotonic(), Ranks()
    SilenceWatch(0.1, tmp_path, start).watch(ranks, ranks.end)  # type: ignore[arg-type]  # only poll and pid are used
    while not ranks.ended and time.monotonic() - begin < 20:
        time.sleep(0.01)
    assert least <= ranks.ended - begin < least + 5
