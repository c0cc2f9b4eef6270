"""Kernels that a GPU's driver compiles: kept with the checkpoints, restored once, and never the end of a job."""

import importlib.util
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.training.launcher.test_own_ranks import NONE, Run, finished, run
from training_container.contract import launch_options
from training_container.contract.launch_options import LaunchOptions
from training_container.contract.training_job import Folders, TrainingJob
from training_container.launcher import kernel_cache
from training_container.launcher.rank_environment import rank_environment
from training_container.recipe.config import Config
from training_container.trainer.checkpoints import files

__all__ = ["run"]  # the fixture
KERNELS = {"index": b"two", "a/4/0123456789abcdef": b"cubin" * 100, "d/e/fedcba9876543210": b"cubin" * 50}


@pytest.fixture(autouse=True)
def gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight GPUs and an image with TensorFlow."""
    for module in ("kernel_cache", "rank_environment"):
        monkeypatch.setattr(f"training_container.launcher.{module}.gpu_count", lambda: 8)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)


@pytest.fixture
def job(tmp_path: Path) -> TrainingJob:
    """The first of two hosts, with a folder of checkpoints."""
    (tmp_path / "checkpoints").mkdir()
    return TrainingJob(
        folders=Folders(base=tmp_path), hosts=("algo-1", "algo-2"), current_host="algo-1", network_interface="eth0",
        channels={}, hyperparameters={}, launch=LaunchOptions(processes_per_host=8),
        resources={"current_instance_type": "ml.p5.48xlarge"},
    )  # fmt: skip


def compile_kernels(job: TrainingJob, more: dict[str, bytes] | None = None) -> None:
    """Write files as the driver does."""
    for name, content in (KERNELS | (more or {})).items():
        path = Path(kernel_cache.variables(job)["CUDA_CACHE_PATH"]) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def compiled(job: TrainingJob) -> dict[str, bytes]:
    folder = Path(kernel_cache.variables(job)["CUDA_CACHE_PATH"])
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def archives(job: TrainingJob) -> list[Path]:
    return list(job.folders.checkpoints.glob("*"))


def train(job: TrainingJob, work: Callable[[], None]) -> None:
    """Run the ranks of a host once: restore, work, keep."""
    kernel_cache.restore(job, {})
    with kernel_cache.kept(job, rank_environment(job, {}, Path("/opt"))):
        work()


def next_start(job: TrainingJob) -> None:
    """Leave only the checkpoints, as for a new container."""
    shutil.rmtree(kernel_cache.variables(job)["CUDA_CACHE_PATH"])


def test_a_second_start_has_the_kernels_of_the_first(job: TrainingJob, capsys: pytest.CaptureFixture[str]) -> None:
    train(job, lambda: compile_kernels(job))
    (kept,) = archives(job)
    next_start(job)
    train(job, lambda: None)
    assert compiled(job) == KERNELS
    assert archives(job) == [kept], "nothing is written again for the same kernels"
    assert f"Restored {kept.stat().st_size:,} bytes of compiled GPU kernels" in capsys.readouterr().out


def test_new_kernels_replace_the_kept_ones(job: TrainingJob) -> None:
    train(job, lambda: compile_kernels(job))
    before = archives(job)
    next_start(job)
    train(job, lambda: compile_kernels(job, {"b/b/1": b"more"}))
    assert len(archives(job)) == 1
    assert archives(job) != before
    next_start(job)
    kernel_cache.restore(job, {})
    assert compiled(job) == KERNELS | {"b/b/1": b"more"}


@pytest.mark.parametrize("damage", [lambda text: text[:-600], lambda text: text.replace(b"cubin", b"cubix", 1)])
def test_damaged_kernels_are_not_used_and_are_replaced(
    job: TrainingJob, capsys: pytest.CaptureFixture[str], damage: Callable[[bytes], bytes]
) -> None:
    train(job, lambda: compile_kernels(job))
    (kept,) = archives(job)
    kept.write_bytes(damage(kept.read_bytes()))
    next_start(job)
    kernel_cache.restore(job, {})
    assert compiled(job) == {}
    assert f"{kept.name} is incomplete or corrupt; kernels are compiled again." in capsys.readouterr().out
    train(job, lambda: compile_kernels(job))
    next_start(job)
    kernel_cache.restore(job, {})
    assert compiled(job) == KERNELS


def test_markers_of_sagemakers_copies_are_no_kernels(job: TrainingJob) -> None:
    train(job, lambda: compile_kernels(job))
    (kept,) = archives(job)
    markers = [kept.with_name(f"{kept.name}.sagemaker-{end}") for end in ("uploading", "uploaded", "ignore")]
    for marker in markers:
        marker.touch()
    next_start(job)
    kernel_cache.restore(job, {})
    assert compiled(job) == KERNELS
    train(job, lambda: compile_kernels(job, {"new": b"cubin"}))
    assert kept not in archives(job)
    assert set(markers) < set(archives(job)), "SageMaker removes its own files"


def test_an_archive_that_leads_out_of_its_folder_is_not_unpacked(job: TrainingJob, tmp_path: Path) -> None:
    import tarfile  # noqa: PLC0415  # the test writes an archive that the product would refuse

    content = tmp_path / "outside"
    content.write_text("x")
    with tarfile.open(tmp_path / "x.tar", "w") as packed:
        packed.add(content, arcname="../outside-2")
    (tmp_path / "x.tar").rename(job.folders.checkpoints / kernel_cache._name(tmp_path / "x.tar"))
    kernel_cache.restore(job, {})
    assert not (tmp_path / "outside-2").exists()
    assert compiled(job) == {}


def test_kernels_are_kept_while_the_job_runs_because_it_may_be_killed(job: TrainingJob) -> None:
    kernel_cache.restore(job, {})
    with kernel_cache.kept(job, kernel_cache.variables(job), seconds=0.05):
        compile_kernels(job)
        deadline = time.monotonic() + 20
        while not list(job.folders.checkpoints.glob("*.tar")) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert list(job.folders.checkpoints.glob("*.tar"))


def test_a_full_disk_is_left_to_checkpoints_and_does_not_end_the_job(
    job: TrainingJob, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    size = sum(map(len, KERNELS.values()))
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: SimpleNamespace(free=3 * size))
    train(job, lambda: compile_kernels(job))
    assert archives(job) == []
    assert "Compiled GPU kernels could not be kept: [Errno 28] No space left on device." in capsys.readouterr().out


def test_an_error_while_kernels_are_kept_does_not_end_the_job(
    job: TrainingJob, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_arguments: object, **_options: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("training_container.launcher.kernel_cache.tarfile.open", fails)
    train(job, lambda: compile_kernels(job))
    assert archives(job) == []
    assert "Compiled GPU kernels could not be kept: [Errno 5]" in capsys.readouterr().out


def test_hosts_other_than_the_first_restore_but_do_not_keep(job: TrainingJob) -> None:
    train(job, lambda: compile_kernels(job))
    next_start(job)
    second = replace(job, current_host="algo-2")
    train(second, lambda: compile_kernels(job, {"b/b/1": b"more"}))
    assert len(archives(job)) == 1
    next_start(job)
    kernel_cache.restore(second, {})
    assert compiled(second) == KERNELS


def test_an_image_with_kernels_for_its_gpus_leaves_nothing(job: TrainingJob) -> None:
    train(job, lambda: None)
    assert archives(job) == []


def test_checkpoints_are_found_and_written_beside_kernels(job: TrainingJob) -> None:
    train(job, lambda: compile_kernels(job))
    (job.folders.checkpoints / ".cuda-kernels").write_text("unfinished, of a process that was killed")
    saved = files.finish(files.begin(job.folders.checkpoints, 1), {"step": 1})
    assert files.folders(job.folders.checkpoints) == [saved]


def test_a_job_without_checkpoints_or_gpus_has_no_cache(job: TrainingJob, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rank_environment(job, {}, Path("/opt"))["CUDA_CACHE_MAXSIZE"] == "4294967296"
    job.folders.checkpoints.rmdir()
    assert "CUDA_CACHE_PATH" not in rank_environment(job, {}, Path("/opt"))
    job.folders.checkpoints.mkdir()
    monkeypatch.setattr("training_container.launcher.kernel_cache.gpu_count", lambda: 0)
    assert "CUDA_CACHE_PATH" not in rank_environment(job, {}, Path("/opt"))


def test_the_folder_of_a_scripts_checkpoints_is_not_used_unless_the_job_asks_for_it(job: TrainingJob) -> None:
    script = {"sagemaker_program": "train.py", "sagemaker_submit_directory": "s3://bucket/code.tar.gz"}
    kept = job.folders.checkpoints / "cuda-kernels.txt"
    kept.write_text("the script's own")
    without = replace(job, launch=launch_options.parse(script))
    assert kernel_cache.variables(without) == {}
    assert "CUDA_CACHE_PATH" not in rank_environment(without, {}, Path("/opt"))
    train(without, lambda: compile_kernels(job))
    assert archives(job) == [kept]
    asking = replace(job, launch=launch_options.parse(script | {"sagemaker_keep_kernels": "true"}))
    next_start(job)
    train(asking, lambda: compile_kernels(job))
    assert len(archives(job)) == 2


def test_the_trainer_keeps_kernels_unless_the_job_declines() -> None:
    assert launch_options.parse({}).keep_kernels
    assert not launch_options.parse({"sagemaker_keep_kernels": "false"}).keep_kernels
    with pytest.raises(ValueError, match="sagemaker_keep_kernels is 'yes'; it must be true or false"):
        launch_options.parse({"sagemaker_keep_kernels": "yes"})


def test_a_users_own_cache_is_not_touched(job: TrainingJob, tmp_path: Path) -> None:
    own = {"CUDA_CACHE_PATH": str(tmp_path / "own")}
    kernel_cache.restore(job, own)
    with kernel_cache.kept(job, rank_environment(job, own, Path("/opt"))):
        (tmp_path / "own").mkdir()
        (tmp_path / "own/index").write_text("x")
    assert archives(job) == []


@pytest.mark.parametrize(
    ("instance_type", "given", "seconds"),
    [
        ("ml.p5.48xlarge", {}, "3600"),
        ("ml.p5.48xlarge", {"stall_seconds": "200"}, "200"),
        ("ml.p6-b200.48xlarge", {}, "3600"),
        ("ml.p4d.24xlarge", {}, "300"),
        ("ml.g6e.48xlarge", {}, "300"),
    ],
)
def test_ranks_wait_for_one_that_compiles_kernels(
    job: TrainingJob, instance_type: str, given: dict[str, str], seconds: str
) -> None:
    here = replace(job, hyperparameters=given, resources={"current_instance_type": instance_type})
    environment = rank_environment(here, {}, Path("/opt"), Config.from_hyperparameters(given))
    assert environment["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"] == seconds


def test_scripts_wait_for_the_compilation_too_but_not_without_tensorflow(
    job: TrainingJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"
    assert rank_environment(job, {}, Path("/opt"))[limit] == "3600"
    assert rank_environment(job, {limit: "60"}, Path("/opt"))[limit] == "60"
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert rank_environment(job, {}, Path("/opt"))[limit] == "300"


def test_tensorflows_warning_about_kernels_is_shown_on_gpus(job: TrainingJob, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rank_environment(job, {}, Path("/opt"))["TF_CPP_MIN_LOG_LEVEL"] == "1"
    monkeypatch.setattr("training_container.launcher.rank_environment.gpu_count", lambda: 0)
    assert rank_environment(job, {}, Path("/opt"))["TF_CPP_MIN_LOG_LEVEL"] == "2"


# Runs first in `train` and its ranks, and replaces the driver's devices; the script replaces the driver.
GPU = "from training_container.contract import launch_options\nlaunch_options.gpu_count = lambda *_: 1\n"
USES_KERNELS = """
import os, pathlib
folder = pathlib.Path(os.environ.get("CUDA_CACHE_PATH", "."))
print("found", sorted(path.name for path in folder.glob("kernel*")))
(folder / "kernel").write_text("cubin")
"""


def test_train_restores_and_keeps_kernels_and_explains_its_limits(run: Run, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(GPU)
    host = tmp_path / "127.0.0.1"

    def output(*, asking: bool = True) -> str:
        launcher = NONE | ({"sagemaker_keep_kernels": "true"} if asking else {})
        (train,) = run(USES_KERNELS, launcher, PYTHONPATH=str(tmp_path))
        status, printed = finished(train)
        assert status == 0, printed
        return printed

    assert "kernels" not in output(), "without a folder of checkpoints"
    (host / "checkpoints").mkdir()
    resources = host / "input/config/resourceconfig.json"
    resources.write_text(json.dumps(json.loads(resources.read_text()) | {"current_instance_type": "ml.p5.48xlarge"}))
    assert "of compiled GPU kernels" not in output(asking=False)
    assert list((host / "checkpoints").iterdir()) == []
    first = output()
    assert "found []\n" in first
    assert "TensorFlow has no kernels for the GPUs of ml.p5.48xlarge, and compiles them at the first use." in first
    assert "the limit of stalled ranks is 3600 s, unless the job sets stall_seconds" in first
    assert "of compiled GPU kernels with the checkpoints." in first
    shutil.rmtree(host / "cuda-cache")
    second = output()
    assert "bytes of compiled GPU kernels in " in second
    assert "found ['kernel']\n" in second
