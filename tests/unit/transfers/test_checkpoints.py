"""Checkpoints in S3: the newest complete one is found, with the best one, from names, sizes and state.json."""

import json
from collections.abc import Mapping

import pytest

from traingrid.transfers.checkpoints import newest_checkpoint


def folder(number: int, *, best: bool = False, **missing: int) -> dict[str, bytes]:
    """Return the objects of a checkpoint; `missing` are sizes in state.json of files that S3 does not have."""
    name = f"checkpoint-{number:06d}-step-{number * 100:09d}"
    files = {"variables.data": [3, "c"], **{file: [size, "c"] for file, size in missing.items()}}
    state = json.dumps({"files": files, "best": best}).encode()
    return {f"{name}/variables.data": b"abc", f"{name}/state.json": state}


def newest(objects: Mapping[str, bytes]) -> tuple[str, set[str]] | None:
    """Return the name of the newest checkpoint, and the folders that are copied."""
    sizes = {name: len(body) for name, body in objects.items()}
    checkpoint = newest_checkpoint(sizes, lambda name: objects[name])
    if checkpoint is None:
        return None
    return checkpoint.name, {name.partition("/")[0][:17] for name in checkpoint.sizes}


NAME = "checkpoint-000003-step-000000300"


def test_the_newest_complete_folder_is_chosen_and_its_state_is_last() -> None:
    objects = folder(2) | folder(3) | folder(4, variables_of_optimizer=7)
    checkpoint = newest_checkpoint({name: len(body) for name, body in objects.items()}, lambda name: objects[name])
    assert checkpoint is not None
    assert (checkpoint.name, checkpoint.age) == (NAME, (3, 300))
    assert checkpoint.sizes.keys() == folder(3).keys()
    assert checkpoint.last == {f"{NAME}/state.json"}


def test_the_best_one_is_copied_too_because_the_model_may_be_restored_from_it() -> None:
    objects = folder(1, best=True) | folder(2, best=True) | folder(3) | folder(4, lost=1)
    assert newest(objects) == (NAME, {"checkpoint-000003", "checkpoint-000002"})
    assert newest(folder(2) | folder(3, best=True)) == (NAME, {"checkpoint-000003"})


@pytest.mark.parametrize(
    "state", [b"{", b"[]", b"{}", b'{"files": 3}', b'{"files": {"a": 3}}', b'{"files": {"a": []}}']
)
def test_a_folder_with_a_broken_state_is_incomplete(state: bytes) -> None:
    broken = folder(4)
    name = next(name for name in broken if name.endswith("state.json"))
    assert newest(folder(3) | broken | {name: state}) == (NAME, {"checkpoint-000003"})


def test_a_folder_whose_file_is_truncated_is_incomplete() -> None:
    objects = folder(4)
    objects[next(name for name in objects if name.endswith("data"))] = b"ab"
    assert newest(objects) is None
    assert newest({}) is None


def test_files_of_sagemaker_and_unfinished_folders_do_not_count() -> None:
    writing = {f".writing-{name}": body for name, body in folder(4).items()}
    objects = folder(3) | writing | {f"{NAME}/state.json.sagemaker-uploading": b"", ".sagemaker-ignore": b""}
    assert newest(objects) == (NAME, {"checkpoint-000003"})


def test_compiled_kernels_go_along_and_other_files_of_the_image_do_not() -> None:
    kernels = f"cuda-kernels-{'0' * 64}.tar"
    objects = folder(3) | {kernels: b"k", "records-train.json": b"{}", f"{NAME}/state.json.new": b"{}"}
    checkpoint = newest_checkpoint({name: len(body) for name, body in objects.items()}, lambda name: objects[name])
    assert checkpoint is not None
    assert checkpoint.sizes.keys() == {*folder(3), kernels}
    assert checkpoint.last == {f"{NAME}/state.json"}
    assert newest({"records-train.json": b"{}"}) is None


def test_objects_of_an_unknown_format_are_one_checkpoint() -> None:
    """A sharded checkpoint of PyTorch, whose ranks write separate files, or folders of each rank."""
    shards = {"step_1/__0_0.distcp": b"a", "step_1/__1_0.distcp": b"b", "step_1/.metadata": b"c"}
    assert newest(shards) == ("", {"step_1"})
    ranks = {f"rank-{rank}/{name}": body for rank in (0, 1) for name, body in folder(3).items()}
    assert newest(ranks) == ("", {"rank-0", "rank-1"})
    assert newest(folder(3) | {"latest": b"3"}) == ("", {"checkpoint-000003", "latest"})
