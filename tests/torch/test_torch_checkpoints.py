"""Sharded checkpoints: complete or skipped, whichever rank is killed, and read by another number of ranks."""

import errno
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.torch.checkpoint_ranks import disk, restored_from_s3, run, succeeded
from training_container.script_api import torch_checkpoints
from training_container.trainer.checkpoints import files

# DCP warns that there is no process group, and PyTorch about its own use of TypedStorage.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
FIRST, SECOND = "checkpoint-000001-step-000000001", "checkpoint-000002-step-000000002"


def loaded(folder: Path) -> tuple[int, float] | None:
    """Load a checkpoint in this process, and return its step and value, which must be that of all tensors."""
    values = {"sharded": torch.zeros(8, 3), "same": torch.zeros(5), "empty": torch.empty(0)}
    tensors: dict[str, Any] = {"model": values, "rate": None}
    newest = torch_checkpoints.load(folder, tensors)
    if newest is None:
        return None
    value = float(values["same"][0])
    assert torch.equal(values["sharded"], torch.arange(24.0).reshape(8, 3) + value)
    assert (values["same"] == value).all()
    assert tensors["rate"] == value
    assert newest.state == {"epoch": newest.step}
    return newest.step, value


def test_a_checkpoint_of_four_ranks_is_read_by_one_two_and_three(tmp_path: Path) -> None:
    succeeded(run(tmp_path, "save(1); save(2)", hosts=2, on_each=2))
    folder = restored_from_s3(tmp_path)
    assert loaded(folder) == (2, 2.0)
    for hosts, on_each in ((1, 2), (1, 3)):
        program = """
own = tensors(0)
newest = torch_checkpoints.load(folder, own)
assert (newest.step, newest.state) == (2, {"epoch": 2}), newest
assert torch.equal(own["model"]["sharded"].full_tensor(), tensors(2)["model"]["sharded"].full_tensor())
assert own["rate"] == 2
"""
        succeeded(run(tmp_path / "restored", program, hosts=hosts, on_each=on_each))


FSDP = """
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

def training():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.ReLU(), torch.nn.Linear(10, 3))
    fully_shard(model, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)

def state_dicts(model, optimizer):
    return dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))

def step(model, optimizer):
    model(torch.ones(4, 6)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()

def whole(model):
    return torch.cat([parameter.full_tensor().flatten() for parameter in model.parameters()])

model, optimizer = training()
"""


def test_a_model_and_optimizer_of_fsdp_continue_with_another_number_of_ranks(tmp_path: Path) -> None:
    trained = """
for number in range(3):
    step(model, optimizer)
torch_checkpoints.save(folder, 3, state_dicts(model, optimizer))
step(model, optimizer)          # the checkpoint does not have this step
torch.save(whole(model), folder / "whole.pt")
"""
    succeeded(run(tmp_path, FSDP + trained, hosts=2))
    restored_from_s3(tmp_path)
    continued = """
values = state_dicts(model, optimizer)
assert torch_checkpoints.load(folder, values).step == 3
set_state_dict(model, optimizer, model_state_dict=values["model"], optim_state_dict=values["optimizer"])
step(model, optimizer)
torch.testing.assert_close(whole(model), torch.load(folder / "whole.pt"), rtol=0, atol=1e-6)
"""
    succeeded(run(tmp_path / "restored", FSDP + continued, hosts=1, on_each=3))


def test_a_checkpoint_has_the_values_of_its_save_and_older_ones_are_deleted_on_each_host(tmp_path: Path) -> None:
    program = """
for step in range(1, 6):
    values = tensors(step)
    torch_checkpoints.save(folder, step, values, keep=2, epoch=step)
    values["model"]["same"].fill_(-1)
    values["model"]["sharded"].to_local().fill_(-1)
"""
    succeeded(run(tmp_path, program))
    assert loaded(restored_from_s3(tmp_path)) == (5, 5.0)
    for host in (0, 1):
        assert sorted(path.name[-1] for path in disk(tmp_path, host).iterdir()) == ["3", "4", "5"]


def test_a_folder_that_hosts_share_has_each_checkpoint_once(tmp_path: Path) -> None:
    disk(tmp_path, 0).mkdir()
    disk(tmp_path, 1).symlink_to(disk(tmp_path, 0))
    succeeded(run(tmp_path, "[save(step, keep=1) for step in range(1, 5)]"))
    assert loaded(disk(tmp_path, 0)) == (4, 4.0)
    assert sorted(path.name[-1] for path in disk(tmp_path, 0).iterdir()) == ["3", "4"]


@pytest.mark.parametrize("lost", ["__1_0.distcp", "__0_0.distcp", ".metadata", "state.json"])
def test_a_checkpoint_without_a_file_of_a_rank_is_skipped(
    tmp_path: Path, lost: str, capsys: pytest.CaptureFixture[str]
) -> None:
    succeeded(run(tmp_path, "save(1); save(2)"))
    folder = restored_from_s3(tmp_path)
    (folder / SECOND / lost).unlink()
    assert loaded(folder) == (1, 1.0)
    assert f"Checkpoint {SECOND} is skipped (rank 0): {lost} is missing." in capsys.readouterr().out
    before = sorted(path.name for path in folder.iterdir())
    succeeded(run(tmp_path / "restored", "save(3)", hosts=1))  # its first save deletes nothing
    assert sorted(path.name for path in folder.iterdir()) == [*before, "checkpoint-000003-step-000000003"]


def test_a_folder_full_of_the_uploaders_markers_is_skipped_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    succeeded(run(tmp_path, "save(1); save(2)"))
    folder = restored_from_s3(tmp_path)
    for path in [*folder.glob("*"), *folder.glob("*/*")]:
        for marker in (".sagemaker-uploading", ".sagemaker-uploaded"):
            path.with_name(path.name + marker).touch()
    for path in (folder / SECOND).iterdir():
        if not path.name.endswith((".sagemaker-uploading", ".sagemaker-uploaded")):
            path.unlink()
    assert loaded(folder) == (1, 1.0)
    assert capsys.readouterr().out == f"Checkpoint {SECOND} is skipped (rank 0): state.json is missing.\n"


KILL = """
steps = {{"dcp": (dcp, "save"), "flush": (files, "flushed_files"), "state": (files, "write_state"),
          "publish": (files, "publish")}}
module, name = steps["{at}"]
original = getattr(module, name)

def killed(*arguments, **named):
    if "{when}" == "after":
        original(*arguments, **named)
    os.kill(os.getpid(), signal.SIGKILL)

save(1)
torch_checkpoints.finish()
dist.barrier()
if rank == {rank}:
    setattr(module, name, killed)
save(2)
"""


STEPS = [("dcp", "before"), ("dcp", "after"), ("flush", "after"), ("publish", "after")]


@pytest.mark.parametrize(
    ("at", "when", "rank"), [*((*step, rank) for step in STEPS for rank in (0, 1)), ("state", "after", 0)]
)
def test_a_rank_killed_at_any_step_of_a_write_leaves_the_previous_checkpoint(
    tmp_path: Path, at: str, when: str, rank: int
) -> None:
    ends = run(tmp_path, KILL.format(at=at, when=when, rank=rank))
    assert ends[rank].status == -signal.SIGKILL, ends[rank].output
    expected = [(1, 1.0), (2, 2.0)] if at == "publish" else [(1, 1.0)]
    assert loaded(restored_from_s3(tmp_path)) in expected
    succeeded(run(tmp_path / "restored", "save(3); save(4)", hosts=1, on_each=2))
    assert loaded(disk(tmp_path / "restored", 0)) == (4, 4.0)
    assert not list(disk(tmp_path / "restored", 0).glob(".writing-*"))


def test_ranks_that_disagree_get_one_sentence_and_nothing_is_lost(tmp_path: Path) -> None:
    ends = run(tmp_path, "save(1)\nsave(2 + rank, value=2)")
    for end in ends:
        assert end.status  # PyTorch sometimes aborts a process that ends without destroy_process_group
        assert (
            'ShardedCheckpointError: Ranks disagree about a checkpoint: rank 0 saves step 2 with {"epoch": 2}, but '
            'rank 1 saves step 3 with {"epoch": 3}. All ranks must save the same step and state together.\n'
        ) in end.output
    assert loaded(restored_from_s3(tmp_path)) == (1, 1.0)


def test_a_full_disk_of_one_host_is_the_error_of_all_ranks(tmp_path: Path) -> None:
    program = """
def fail(*_):
    raise OSError(28, "No space left on device")
save(1)
torch_checkpoints.finish()
if rank == 1:
    files._flushed = fail
save(2)
"""
    for end in run(tmp_path, program):
        assert end.status
        assert "ShardedCheckpointError: The checkpoint of step 2 could not be written to " in end.output
        assert (
            "(rank 1): No space left on device. Increase the job's volume_gb, or keep fewer checkpoints.\n"
            in end.output
        )
    assert loaded(restored_from_s3(tmp_path)) == (1, 1.0)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"another": torch.zeros(2)}, "Missing key in checkpoint state_dict: model.another"),
        ({"same": torch.zeros(6)}, "Size mismatch between saved torch.Size([5]) and current: torch.Size([6])"),
        ({"same": None}, "it also has model.same"),
    ],
)
def test_a_checkpoint_of_another_model_is_refused_in_one_sentence(
    tmp_path: Path, change: dict[str, torch.Tensor | None], cause: str
) -> None:
    succeeded(run(tmp_path, "save(1)"))
    folder = restored_from_s3(tmp_path)
    values = {"sharded": torch.zeros(8, 3), "same": torch.zeros(5), "empty": torch.empty(0)} | change
    tensors: dict[str, Any] = {"model": {name: value for name, value in values.items() if value is not None}, "rate": 0}
    with pytest.raises(torch_checkpoints.ShardedCheckpointError) as caught:
        torch_checkpoints.load(folder, tensors)
    assert str(caught.value).startswith(f"Checkpoint {folder / FIRST} does not match this job's model or optimizer (")
    assert cause in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not tensors["model"]["sharded"].any()
    assert loaded(folder) == (1, 1.0)


def test_a_rank_that_cannot_copy_its_tensors_fails_the_save_of_all_ranks_and_the_next_one_succeeds(
    tmp_path: Path,
) -> None:
    program = """
save(1)
stager = torch_checkpoints._stager()
stage = stager.stage
def fail(_):
    raise MemoryError("no host memory is left")
if rank == 1:
    stager.stage = fail
try:
    save(2)
except torch_checkpoints.ShardedCheckpointError as error:
    print(error)
stager.stage = stage
save(3)
"""
    ends = run(tmp_path, program)
    succeeded(ends)
    for end in ends:
        assert (
            "A checkpoint cannot begin (rank 1): no host memory is left. Correct the cause, and retry the job.\n"
        ) in end.output
    folder = restored_from_s3(tmp_path)
    assert loaded(folder) == (3, 3.0)
    assert [path.name for path in files.folders(folder)] == [FIRST, SECOND.replace("step-000000002", "step-000000003")]


def test_ranks_without_a_process_group_are_refused_and_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch_checkpoints.save(tmp_path, 1, {"model": {"weight": torch.ones(2)}})
    torch_checkpoints.finish()
    (tmp_path / ".writing-checkpoint-000002-step-000000002").mkdir()
    before = sorted(tmp_path.rglob("*"))
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    tensors = {"model": {"weight": torch.zeros(2)}}
    expected = r"a process group of all 2 ranks. Use it after torch\.distributed\.init_process_group"
    for function in (
        lambda: torch_checkpoints.load(tmp_path, tensors),
        lambda: torch_checkpoints.save(tmp_path, 2, tensors),
    ):
        with pytest.raises(torch_checkpoints.ShardedCheckpointError, match=expected):
            function()
    assert sorted(tmp_path.rglob("*")) == before
    assert not tensors["model"]["weight"].any()


def test_incomplete_checkpoints_do_not_count_as_kept_and_are_deleted(tmp_path: Path) -> None:
    def save(step: int) -> None:
        torch_checkpoints.save(str(tmp_path), step, {"model": {"weight": torch.full((2,), float(step))}}, keep=2)

    for step in range(1, 5):
        save(step)
    torch_checkpoints.finish()
    _, third, fourth = files.folders(tmp_path)
    (third / files.STATE).unlink()
    (tmp_path / "checkpoint-000005-step-000000005").mkdir()
    tensors = {"model": {"weight": torch.zeros(2)}}
    newest = torch_checkpoints.load(str(tmp_path), tensors)
    assert newest is not None
    assert newest.folder == fourth
    save(6)  # deletes none of 2 and 4, the complete ones, and no incomplete one that is newer
    torch_checkpoints.finish()
    assert [path.name[-1] for path in files.folders(tmp_path)] == ["2", "4", "5", "6"]
    save(7)
    torch_checkpoints.finish()
    assert [path.name[-1] for path in files.folders(tmp_path)] == ["4", "6", "7"]


@pytest.mark.parametrize(
    ("value", "number", "sentences"),
    [
        (1, errno.ENOSPC, "No space left on device. Increase the job's volume_gb, or keep fewer checkpoints."),
        (1, errno.EDQUOT, "Disk quota exceeded. Increase the job's volume_gb, or keep fewer checkpoints."),
        (1, errno.EIO, "Input/output error. Correct the cause, and retry the job."),
        (lambda: 1, 0, "test_torch_checkpoints failed. Correct the cause, and retry the job."),
    ],
)
def test_only_a_full_disk_needs_a_larger_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: Any, number: int, sentences: str
) -> None:
    def fail(_: Path) -> list[int | str]:
        raise OSError(number, os.strerror(number))

    if number:
        monkeypatch.setattr(files, "_flushed", fail)
    torch_checkpoints.save(tmp_path, 1, {"model": {"weight": torch.ones(2), "value": value}})
    with pytest.raises(torch_checkpoints.ShardedCheckpointError, match=re.escape(sentences)):
        torch_checkpoints.finish()
