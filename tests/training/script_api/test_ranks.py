"""The position of a process with each launcher, and requests to stop."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from training_container.contract.rank_variables import position
from training_container.contract.stopping import STOP_FILE
from training_container.script_api import ranks

OF_OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "5",
    "OMPI_COMM_WORLD_SIZE": "8",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
}
OF_TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
OF_HOSTS = {"SM_HOSTS": '["algo-2", "algo-1"]', "SM_CURRENT_HOST": "algo-2"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (OF_OPEN_MPI | OF_HOSTS, (5, 8, 1, 4)),
        (OF_TORCHRUN | OF_HOSTS, (5, 8, 1, 4)),
        (OF_HOSTS, (1, 2, 0, 1)),
        ({"SM_HOSTS": "no JSON"}, (0, 1, 0, 1)),
        ({}, (0, 1, 0, 1)),
    ],
)
def test_the_position_comes_from_the_launcher_otherwise_from_the_hosts(
    environment: dict[str, str], expected: tuple[int, ...]
) -> None:
    assert position(environment) == expected


def test_a_stop_request_is_the_file_of_the_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STOP_FILE, str(tmp_path / "stop"))
    assert not ranks.current().stop_requested()
    (tmp_path / "stop").touch()
    assert ranks.current().stop_requested()


def test_ranks_of_torch_distributed_agree_on_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reduced = []

    def all_reduce(flag: Any, op: str) -> None:
        reduced.append((flag.value, flag.device, op))
        flag.value = 1  # another rank has a request

    def tensor(value: int, device: str) -> Any:
        made = SimpleNamespace(value=value, device=device)
        made.item = lambda: made.value
        return made

    distributed = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        get_backend=lambda: "gloo",
        all_reduce=all_reduce,
        ReduceOp=SimpleNamespace(MAX="max"),
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(tensor=tensor))
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
    assert ranks.current().stop_requested()
    assert reduced == [(0, "cpu", "max")]
