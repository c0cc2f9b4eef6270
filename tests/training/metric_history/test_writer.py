"""The writer's process and its feed: hostile output, a slow or dead writer, and a stop."""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from training_container.launcher import metric_feed as feed_module
from training_container.launcher.metric_feed import MetricFeed, metric_feed
from training_container.metric_history.line_reader import LineReader
from training_container.metric_history.parts import Parts
from training_container.metric_history.settings import Settings, without_settings
from training_container.metric_history.writer import follow

METRICS = {"loss": r"loss=(\S+)"}
SETTINGS = {"TRAINGRID_METRICS_S3": "s3://output/x/metrics/job-1/", "TRAINGRID_METRICS_0": json.dumps(METRICS)}


def started(program: str, warnings: list[str]) -> MetricFeed:
    return MetricFeed((sys.executable, "-c", program), os.environ, warnings.append)


def test_hostile_lines_reach_the_writer_cut_and_in_order(tmp_path: Path) -> None:
    target, warnings = tmp_path / "lines", list[str]()
    feed = started(f"import sys; open({str(target)!r}, 'wb').write(sys.stdin.buffer.read())", warnings)
    before = time.time()
    for text in ("loss=1\n", "é é" * 3_000_000, "é" * 3_000_000, "\ud800 loss=2", "", "loss=3"):
        feed.line(text)
    feed.close()
    lines = target.read_bytes().split(b"\n")
    assert [line.partition(b" ")[2][:6] for line in lines] == [
        b"loss=1",
        "é éé".encode()[:6],
        b"",  # a word of which the limit cuts the end
        b"? loss",
        b"",
        b"loss=3",
        b"",
    ]
    assert max(map(len, lines)) < 4096
    assert before - 0.001 <= float(lines[0].partition(b" ")[0]) <= time.time()
    assert warnings == []


@pytest.mark.parametrize(
    ("program", "reason"),
    [("import time; time.sleep(60)", "there are too many"), ("", "its writer has ended")],
)
def test_a_writer_that_does_not_read_never_delays_the_training(
    program: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "_CLOSING_SECONDS", 0.2)
    warnings: list[str] = []
    feed = started(program, warnings)
    if not program:
        feed._writer.wait()
    for _ in range(2000):
        feed.line("x" * 4000)
    feed.close()
    assert warnings == [f"Some lines are missing in the metric history: {reason}. The log has all of them."]


def test_a_job_without_settings_has_no_writer() -> None:
    with metric_feed({"PATH": "/bin"}, pytest.fail) as feed:
        assert feed is None


@pytest.mark.parametrize(
    "settings",
    [
        {"TRAINGRID_METRICS_S3": "output/"},
        SETTINGS | {"TRAINGRID_METRICS_0": "{"},
        SETTINGS | {"TRAINGRID_METRICS_0": "[]"},
    ],
)
def test_malformed_settings_are_reported_and_training_continues(settings: dict[str, str]) -> None:
    warnings: list[str] = []
    with metric_feed(settings, warnings.append) as feed:
        assert feed is None
    assert warnings[0].startswith("There is no metric history: TRAINGRID_METRICS_")


def test_settings_are_read_from_pieces_and_ranks_do_not_get_them() -> None:
    text = json.dumps(METRICS)
    environment = SETTINGS | {"TRAINGRID_METRICS_0": text[:5], "TRAINGRID_METRICS_1": text[5:], "HOME": "/root"}
    assert Settings.from_environment(environment) == Settings(
        bucket="output", prefix="x/metrics/job-1/", metrics=METRICS
    )
    assert without_settings(environment) == {"HOME": "/root"}


def following(stop_file: Path, objects: list[bytes]) -> tuple[int, Callable[[], None]]:
    """Run the writer's loop in a thread. Return the descriptor of its input, and a function that waits for its end."""
    source, target = os.pipe()
    parts = Parts(lambda _, content: objects.append(content), datetime.now(UTC), time.monotonic, pytest.fail)
    use = {"host_cpu_percent": 5.0}
    given = (source, LineReader(METRICS, pytest.fail), parts, lambda: use, stop_file)
    thread = threading.Thread(target=follow, args=given, daemon=True)
    thread.start()

    def end() -> None:
        thread.join()
        os.close(source)

    return target, end


def test_a_stop_writes_what_there_is_and_the_end_writes_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training_container.metric_history.writer._LOOK_SECONDS", 0.02)
    objects: list[bytes] = []
    target, end = following(tmp_path / "stop", objects)
    os.write(target, b"1.5 loss=1\n1.5 lo")
    while len(objects) < 1:
        time.sleep(0.01)
    os.write(target, b"ss=2\n1.5 \xff\xfe\x00\n1.5 loss=nan\n")
    time.sleep(0.1)
    assert len(objects) == 1
    (tmp_path / "stop").touch()
    while len(objects) < 2:
        time.sleep(0.01)
    os.write(target, b"1.5 loss=3\n")
    os.close(target)
    end()
    loss, use = (
        [json.loads(line)["metrics"] for content in objects for line in content.splitlines()[part : part + 1]]
        for part in (0, 1)
    )
    assert loss == [{"loss": 1}, {"loss": 2}, {"loss": 3}]
    assert use == [{"host_cpu_percent": 5.0}] * 2  # the last part has none


def test_a_silent_training_has_a_sample_from_time_to_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training_container.metric_history.writer._LOOK_SECONDS", 0.02)
    monkeypatch.setattr("training_container.metric_history.writer._SAMPLE_SECONDS", 0.1)
    objects: list[bytes] = []
    target, end = following(tmp_path / "stop", objects)
    while len(objects) < 2:
        time.sleep(0.01)
    os.close(target)
    end()
    record = json.loads(objects[1])
    assert record["metrics"] == {"host_cpu_percent": 5.0}
    assert abs(datetime.fromisoformat(record["time"]).timestamp() - time.time()) < 60
