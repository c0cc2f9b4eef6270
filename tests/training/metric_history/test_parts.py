"""Parts: the rate of writes, their names, failures of S3, and the limit of memory."""

import itertools
from datetime import UTC, datetime

import pytest

from training_container.metric_history import parts as module
from training_container.metric_history.parts import SECONDS, Parts

STARTED = datetime(2026, 11, 23, 16, 0, 0, 250_000, tzinfo=UTC)


class Bucket:
    """A fake bucket with a clock, which fails on request."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.objects: dict[str, bytes] = {}
        self.times: list[float] = []
        self.fails = False
        self.loses_reply = False
        self.warnings: list[str] = []

    def put(self, name: str, content: bytes) -> None:
        self.times.append(self.now)
        if not self.fails or self.loses_reply:
            assert self.objects.get(name, content) == content, "a part was overwritten with other content"
            self.objects[name] = content
        if self.fails:
            raise OSError("SlowDown: reduce\nyour request rate")

    def parts(self, started: datetime = STARTED) -> Parts:
        return Parts(self.put, started, lambda: self.now, self.warnings.append)

    def pass_time(self, parts: Parts, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            if parts.is_due:
                parts.write()

    @property
    def lines(self) -> list[bytes]:
        return b"".join(self.objects[name] for name in sorted(self.objects)).splitlines()


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


def test_a_line_per_second_becomes_one_object_per_half_minute(bucket: Bucket) -> None:
    parts = bucket.parts()
    for number in range(300):
        parts.add(str(number))
        bucket.pass_time(parts, 1)
    parts.write_rest()
    assert bucket.lines == [str(number).encode() for number in range(300)]
    assert len(bucket.objects) == 11
    regular = bucket.times[:-1]
    assert min(later - earlier for earlier, later in itertools.pairwise(regular)) >= SECONDS


def test_the_first_value_is_written_at_once_and_nothing_without_values(bucket: Bucket) -> None:
    parts = bucket.parts()
    bucket.pass_time(parts, 100)
    assert not bucket.objects
    parts.add("a")
    bucket.pass_time(parts, 1)
    assert bucket.objects == {"20261123T160000250Z-000001.jsonl": b"a\n"}
    parts.write_rest()
    assert len(bucket.times) == 1


def test_a_restarted_run_never_overwrites_parts_and_its_names_sort_later(bucket: Bucket) -> None:
    for hour, text in ((0, "first"), (1, "second")):
        run = bucket.parts(STARTED.replace(hour=16 + hour))
        run.add(text)
        run.write_rest()
    assert bucket.lines == [b"first", b"second"]


@pytest.mark.parametrize("loses_reply", [False, True])
def test_failed_writes_are_repeated_with_the_same_name_and_content(bucket: Bucket, *, loses_reply: bool) -> None:
    parts, bucket.fails, bucket.loses_reply = bucket.parts(), True, loses_reply
    for number in range(90):
        parts.add(str(number))
        bucket.pass_time(parts, 1)
    assert len(bucket.times) == 3
    bucket.fails = False
    bucket.pass_time(parts, 60)
    assert bucket.lines == [str(number).encode() for number in range(90)]
    (warning,) = bucket.warnings
    assert warning.startswith("The metric history cannot be written: SlowDown: reduce your request rate. Training")


def test_the_end_writes_a_failed_part_and_the_rest(bucket: Bucket) -> None:
    parts, bucket.fails = bucket.parts(), True
    parts.add("a")
    parts.write()
    parts.add("b")
    bucket.fails = False
    parts.write_rest()
    assert bucket.lines == [b"a", b"b"]


def test_a_write_that_fails_at_the_end_is_repeated(bucket: Bucket) -> None:
    failures = iter([True, True, False, False])

    def put(name: str, content: bytes) -> None:
        bucket.fails = next(failures)
        bucket.put(name, content)

    parts = Parts(put, STARTED, lambda: bucket.now, bucket.warnings.append)
    parts.add("a")
    parts.write()
    parts.add("b")
    parts.write_rest()
    assert bucket.lines == [b"a", b"b"]
    assert len(bucket.times) == 4


def test_memory_is_bounded_while_s3_fails(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 100)
    parts, bucket.fails = bucket.parts(), True
    for number in range(1000):
        parts.add(f"{number:09d}")
        bucket.pass_time(parts, 1)
    bucket.fails = False
    parts.write_rest()
    assert all(len(content) <= 100 for content in bucket.objects.values())
    assert [int(line) for line in bucket.lines] == list(range(11))
    assert len(bucket.warnings) == 2
    assert "the log has all of them" in bucket.warnings[1]
