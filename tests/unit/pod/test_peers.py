"""Peers: a host waits until every other host has had an address, and no longer than its launcher requires."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.recorded_log import RecordedLog
from tests.unit.pod.conftest import NAME, request
from traingrid.job.launchers import MPI_ENABLED, TORCHRUN_ENABLED
from traingrid.pod import main, peers
from traingrid.pod.host import Host
from traingrid.pod.peers import Peers, resolves_now, wait_limit

Make = Callable[..., Host]
ROOT = Path(__file__).resolve().parents[3]


class Names:
    """Names of a cluster, which appear and disappear."""

    def __init__(self) -> None:
        self.known, self.asked = set[str](), list[str]()

    def resolves(self, name: str) -> bool:
        self.asked.append(name)
        return name in self.known


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "INTERVAL_SECONDS", 0.01)


def name(number: int) -> str:
    return f"{NAME}-{number}.{NAME}"


def mpi(**more: str) -> dict[str, Any]:
    return request(HyperParameters={"sagemaker_mpi_enabled": "true", **more})


def ends(waiting: Peers) -> threading.Event:
    """Wait in a thread; return the event of its end."""
    ended = threading.Event()

    def wait() -> None:
        waiting.wait()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    return ended


def test_a_single_host_waits_for_no_other(host: Make) -> None:
    names = Names()
    Peers(host(mpi(), hosts=1), names.resolves).wait()
    assert names.asked == []


def test_a_host_waits_for_the_last_one(host: Make, log: RecordedLog) -> None:
    names = Names()
    names.known.add(name(0))
    ended = ends(Peers(host(mpi(), number=1, hosts=3), names.resolves))
    reported = f"The data is complete. Waiting for the start of {name(2)}"
    assert any(reported in log.messages or ended.wait(0.01) for _ in range(1000))
    assert not ended.wait(0.1)
    names.known.add(name(2))
    assert ended.wait(120)
    assert name(1) not in names.asked


def test_a_host_that_was_seen_may_be_gone_when_the_last_one_appears(host: Make) -> None:
    names = Names()
    names.known.add(name(1))
    waiting = Peers(host(mpi(), hosts=3), names.resolves)
    while names.asked.count(name(2)) < 2:
        time.sleep(0.01)
    names.known = {name(2)}
    assert ends(waiting).wait(120)


def test_a_look_ends_after_some_missing_names(host: Make) -> None:
    names = Names()
    names.known.add(name(90))
    waiting = Peers(host(mpi(), hosts=100), names.resolves)
    while len(names.asked) < 3 * peers.MISSING_PER_LOOK:
        time.sleep(0.01)
    assert set(names.asked) == {name(number) for number in range(1, 1 + peers.MISSING_PER_LOOK)}
    names.known = {name(number) for number in range(100)}
    assert ends(waiting).wait(120)


@pytest.mark.parametrize(
    ("hyperparameters", "limit"),
    [
        ({"sagemaker_mpi_enabled": "true"}, None),
        ({"sagemaker_torch_distributed_enabled": "true"}, None),
        ({"sagemaker_launcher": "none"}, 600.0),
        ({}, 600.0),
    ],
)
def test_only_hosts_that_join_each_other_wait_without_a_limit(
    host: Make, hyperparameters: dict[str, str], limit: float | None
) -> None:
    assert wait_limit(host(request(HyperParameters=hyperparameters))) == limit
    assert peers.JOINING_LAUNCHERS == (MPI_ENABLED, TORCHRUN_ENABLED)


def test_independent_hosts_start_after_the_limit(host: Make, monkeypatch: pytest.MonkeyPatch, log: RecordedLog) -> None:
    monkeypatch.setattr(peers, "WAIT_SECONDS_WITHOUT_JOIN", 0.2)
    Peers(host(), Names().resolves).wait()
    assert any(f"Start without {name(1)}" in message for message in log.messages)


def test_names_are_those_of_the_machine() -> None:
    assert resolves_now("localhost")
    assert not resolves_now("a-host.that-does-not-exist.invalid")


def test_prepare_ends_when_the_other_hosts_have_started(
    host: Make, s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logging_as_before: None
) -> None:
    names = Names()
    monkeypatch.setattr(peers, "resolves_now", names.resolves)
    host(mpi())
    environment = {
        "AWS_REGION": "us-east-1",
        "HOSTNAME": f"{NAME}-0",
        "SAGEMAKER_BASE_DIR": str(tmp_path / "ml"),
        "TRAINGRID_HOSTS": f"{name(0)},{name(1)}",
        "TRAINGRID_POD_FILES": str(tmp_path),
        "TRAINGRID_TERMINATION_LOG": str(tmp_path / "log"),
    }
    codes: list[int] = []
    runs = threading.Thread(target=lambda: codes.append(main.run(["prepare"], environment, threading.Event())))
    runs.start()
    runs.join(1.0)
    assert runs.is_alive()
    assert (tmp_path / "ml/input/config/resourceconfig.json").exists()
    names.known.add(name(1))
    runs.join(30)
    assert codes == [0]


def test_sigterm_ends_a_host_that_waits(host: Make, tmp_path: Path) -> None:
    host(mpi())
    environment = {
        **os.environ,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "HOSTNAME": f"{NAME}-0",
        "SAGEMAKER_BASE_DIR": str(tmp_path / "ml"),
        "TRAINGRID_HOSTS": f"{name(0)},{NAME}-1.does-not-exist.invalid",
        "TRAINGRID_POD_FILES": str(tmp_path),
        "TRAINGRID_TERMINATION_LOG": str(tmp_path / "log"),
    }
    command = [sys.executable, "-m", "traingrid.pod", "prepare"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        for line in process.stdout:
            if "Waiting for the start of" in line:
                break
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 143
