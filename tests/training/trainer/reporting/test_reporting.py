"""Observation of a training: metrics in the log, TensorBoard's events in S3, and the times of a step."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pynvml
import pytest

from tests.training.conftest import TINY
from tests.training.fake_s3 import CREDENTIALS, Store
from training_container.recipe import metric_lines
from training_container.recipe.gpu import Gpu
from training_container.recipe.progress import Progress
from training_container.recipe.progress_lines import ProgressLines
from training_container.recipe.timing import StepTimes
from training_container.trainer.reporting.tensorboard import ENVIRONMENT, TensorBoard

Start = Callable[..., "subprocess.Popen[str]"]
Write = Callable[..., Path]


@pytest.fixture
def reached(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store, configured as boto3's endpoint in this process."""
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": store.url}.items():
        monkeypatch.setenv(name, value)
    return store


def test_events_are_copied_only_when_they_have_grown(reached: Store, tmp_path: Path) -> None:
    board = TensorBoard(tmp_path, "s3://bucket/a prefix/")
    board.log(1, {"train_loss": 0.5})
    board.sync()
    board.sync()
    (events,) = tmp_path.iterdir()
    assert [path.split("?")[0] for path, _ in reached.puts] == [f"/bucket/a%20prefix/{events.name}"]
    board.log(2, {"train_loss": 0.25})
    board.sync()
    assert len(reached.puts) == 2
    assert events.read_bytes() in reached.puts[1][1]


def test_markers_of_sagemakers_own_copy_are_not_copied(reached: Store, tmp_path: Path) -> None:
    board = TensorBoard(tmp_path, "s3://bucket/a")
    board.log(1, {"train_loss": 0.5})
    (events,) = tmp_path.iterdir()
    for end in ("uploading", "uploaded", "ignore"):
        events.with_name(f"{events.name}.sagemaker-{end}").touch()
    board.sync()
    assert [path.split("?")[0] for path, _ in reached.puts] == [f"/bucket/a/{events.name}"]


def test_the_hyperparameter_overrides_the_environments_destination(
    reached: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT, "s3://of-the-grid")
    for uri in ("", "s3://my-own/x"):
        board = TensorBoard(tmp_path / (uri[5:] or "grid"), uri)
        board.log(1, {"train_loss": 0.5})
        board.sync()
    assert [path.split("/")[1] for path, _ in reached.puts] == ["of-the-grid", "my-own"]


def test_without_an_address_events_stay_on_the_host(reached: Store, tmp_path: Path) -> None:
    board = TensorBoard(tmp_path)
    board.log(1, {"train_loss": 0.5})
    board.sync()
    assert not reached.puts


@pytest.mark.parametrize("uri", ["s3://bucket/x", "bucket/x"])
def test_a_failed_copy_is_reported_once_and_is_not_fatal(
    reached: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], uri: str
) -> None:
    reached.status = 403
    board = TensorBoard(tmp_path, uri)
    for epoch in (1, 2):
        board.log(epoch, {"train_loss": 0.5})
        board.sync()
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    assert printed.startswith(f"TensorBoard's events cannot be copied to {uri}: ")
    assert ("403" if uri.startswith("s3") else "form s3://bucket/prefix/") in printed


def test_a_failed_write_is_reported_once_and_is_not_fatal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    board = TensorBoard(tmp_path / "file" / "tensorboard")
    for epoch in (1, 2):
        board.log(epoch, {"train_loss": 0.5})
        board.sync()
    assert capsys.readouterr().out.count("cannot be written") == 1


def test_times_of_a_step_are_measured_separately() -> None:
    now = [100.0]
    times = StepTimes(clock=lambda: now[0])

    def passing(seconds: float) -> None:
        now[0] += seconds

    assert times.of_line() == {}
    for step in range(4):
        with times.input():
            passing(0.5)
        if step == 2:
            with times.compute():
                passing(1.0)
            with times.allreduce():
                passing(0.25)
            with times.compute():
                passing(0.75)
        else:
            passing(1.5)
    expected = {"step_seconds": 2.125, "input_seconds": 0.5, "compute_seconds": 1.75, "allreduce_seconds": 0.25}
    assert times.of_line() == expected
    assert times.of_line() == {}
    with times.input():
        passing(0.125)
    assert times.of_line() == {"step_seconds": 0.125, "input_seconds": 0.125}
    assert times.of_epoch() == {**expected, "step_seconds": 8.625 / 5, "input_seconds": 2.125 / 5}
    passing(60.0)  # validation is not part of a step
    with times.input():
        passing(1.0)
    assert times.of_epoch() == {"step_seconds": 1.0, "input_seconds": 1.0}


def test_the_end_of_an_epoch_is_not_counted_as_a_step() -> None:
    times = StepTimes(clock=iter(range(100)).__next__)
    with pytest.raises(StopIteration), times.input():
        next(iter(()))
    assert times.of_epoch() == {}


def test_progress_is_printed_at_an_interval() -> None:
    now = [0.0]
    lines = ProgressLines(30.0, 90, clock=lambda: now[0])
    now[0] = 29.0
    assert not lines.is_due()
    now[0] = 30.0
    assert lines.is_due()
    first = Progress(
        epoch=2, step_in_epoch=10, step=70, ranks=4, batch_size=32, loss_sum=20.0, loss_steps=10, images=7000
    )
    assert lines.line(first, 30, {"step_seconds": 0.25}) == (
        "Epoch 3 of 90, 10 of 30 steps: step=70 recent_loss=2 recent_images_per_second=512 step_seconds=0.25"
    )
    assert not lines.is_due()
    now[0] = 70.0
    second = Progress(epoch=2, step_in_epoch=30, step=90, loss_sum=40.0, loss_steps=30, images=9000)
    assert lines.line(second, None, {}) == ("Epoch 3 of 90, 30 of an unknown number of steps: step=90 recent_loss=1")
    third = Progress(epoch=3, step_in_epoch=2, step=92, loss_sum=3.0, loss_steps=2, images=9200)
    assert "recent_loss=1.5" in lines.line(third, 30, {})
    fourth = Progress(epoch=4, step_in_epoch=2, step=122, loss_sum=2.0, loss_steps=2, images=12000)
    assert "recent_loss=1 " in f"{lines.line(fourth, 30, {})} "  # an epoch later, after as many steps of it


def test_no_progress_is_printed_if_disabled() -> None:
    assert not ProgressLines(0.0, 90, clock=iter([0.0, 1e9]).__next__).is_due()


def test_a_host_without_gpus_reports_no_gpu_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", no_driver)
    assert Gpu(local_rank=0).use() == {}


@pytest.mark.parametrize(
    ("visible", "asked"), [(None, 1), ("4,6", 6), ("GPU-a,GPU-b", "GPU-b"), ("4", None), ("none", None)]
)
def test_the_gpu_of_a_rank_follows_cuda_visible_devices(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, asked: int | str | None
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    handles: list[int | str] = []
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    for name in ("nvmlDeviceGetHandleByIndex", "nvmlDeviceGetHandleByUUID"):
        monkeypatch.setattr(pynvml, name, lambda which: handles.append(which) or which)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetUtilizationRates", lambda _: SimpleNamespace(gpu=87))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", lambda _: SimpleNamespace(used=13_200_000_000))
    use = Gpu(local_rank=1).use()
    assert handles == ([] if asked is None else [asked])
    assert use == ({} if asked is None else {"gpu_percent": 87.0, "gpu_memory_mb": 13200.0})


def test_two_ranks_print_declared_metrics_and_store_them_with_their_events(
    host_folder: Write, start: Start, store: Store, tmp_path: Path
) -> None:
    hyperparameters = TINY | {"epochs": "2", "steps_per_epoch": "40", "progress_seconds": "0.000001"}
    base = host_folder(tmp_path / "ml", hyperparameters)
    address = {"AWS_ENDPOINT_URL": store.url, ENVIRONMENT: "s3://output/tensorboard/"}
    history = {"TRAINGRID_METRICS_S3": "s3://output/metrics/x-1/", "TRAINGRID_METRICS_0": '{"loss": "loss=([0-9.]+)"}'}
    train = start(base, **CREDENTIALS, **address, **history)
    output, _ = train.communicate(timeout=120)
    assert train.returncode == 0, output
    lines = {int(line[6]): line for line in output.splitlines() if line.startswith("epoch=")}
    assert list(lines) == [1, 2]
    expected = (set(metric_lines.EPOCH_METRICS) - {"corrupt_records"}) | {"step_seconds", "input_seconds"}
    assert set(re.findall(r"(\w+)=", lines[1])) == expected
    # Steps are sampled from the 26th on, every 50th. The first one builds its graph, and is not counted.
    assert set(re.findall(r"(\w+)=", lines[2])) == expected | {"compute_seconds", "allreduce_seconds"}
    assert "Epoch 2 of 2, 40 of 40 steps: step=80 recent_loss=" in output
    events = [path for path, _ in store.puts if path.startswith("/output/tensorboard/events.")]
    parts = [content for path, content in store.puts if re.fullmatch(r"/output/metrics/x-1/\w+Z-00000\d\.jsonl", path)]
    assert (len(events), len(parts)) == (2, 2)
    assert len(store.puts) == 4
    losses = [line for line in output.splitlines() if "loss=" in line]
    stored = [line for line in b"".join(parts).splitlines() if b"loss" in line]
    assert len(stored) == len(losses)
