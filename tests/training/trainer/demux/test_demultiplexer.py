"""One stream, distributed to the ranks of a host by the demultiplexer."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tensorflow as tf

from tests.training.conftest import REPOSITORY
from tests.training.trainer.demux.test_record_reader import ERRORS, fed, framed, until_failure, values
from training_container.trainer.demux import demultiplexer, record_reader

Share = Callable[..., tf.data.Dataset]
LARGE = [bytes([number]) * 50_000 for number in range(200)]  # 10 MB, more than two FIFOs can hold
SMALL = [number.to_bytes(2, "little") * 500 for number in range(5000)]  # 5 MB


@pytest.fixture
def share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Share]:
    """A function that opens a rank's share of the stream in tmp_path/train_0."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # the folder of the ranks' FIFOs

    def records(rank: int, ranks: int, timeout_seconds: float = 20.0) -> tf.data.Dataset:
        path = demultiplexer.rank_fifo(tmp_path, "train", 0, rank, ranks, timeout_seconds=timeout_seconds)
        return record_reader.fifo_records(path, "train", timeout_seconds=timeout_seconds)

    yield records
    while demultiplexer._running:
        demultiplexer._close(demultiplexer._running[-1])


def collected(shares: list[tf.data.Dataset]) -> list[list[bytes]]:
    """Return the records of each rank; all ranks read concurrently."""
    got: list[list[bytes]] = [[] for _ in shares]
    readers = [
        threading.Thread(target=lambda own=own, records=records: own.extend(values(records)))
        for own, records in zip(got, shares, strict=True)
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    return got


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("records", [LARGE, SMALL, SMALL[:70] + LARGE[:70]], ids=["large", "small", "mixed"])
def test_record_i_goes_to_rank_i_modulo_ranks(share: Share, tmp_path: Path, ranks: int, records: list[bytes]) -> None:
    fed(tmp_path / "train_0", framed(records))
    assert collected([share(rank, ranks) for rank in range(ranks)]) == [records[rank::ranks] for rank in range(ranks)]


@pytest.mark.parametrize("records", [LARGE, SMALL], ids=["large", "small"])
def test_a_rank_does_not_wait_for_another_that_does_not_read(
    share: Share, tmp_path: Path, records: list[bytes]
) -> None:
    fed(tmp_path / "train_0", framed(records))
    first, second = share(0, 2), iter(share(1, 2))
    assert next(second).numpy() == records[1]  # and no more for now
    assert values(first) == records[0::2]
    assert [record.numpy() for record in second] == records[3::2]


@pytest.mark.parametrize("records", [LARGE, SMALL], ids=["large", "small"])
def test_a_rank_that_leaves_early_does_not_affect_the_others(
    share: Share, tmp_path: Path, records: list[bytes]
) -> None:
    fed(tmp_path / "train_0", framed(records))
    first, second = share(0, 2), share(1, 2)
    assert values(first.take(1)) == records[:1]
    assert values(second) == records[1::2]


def test_the_stream_is_closed_when_no_rank_is_left(share: Share, tmp_path: Path) -> None:
    writer = fed(tmp_path / "train_0", framed(LARGE * 3))
    for got in collected([share(rank, 2).take(1) for rank in range(2)]):
        assert len(got) == 1
    writer.join(20)
    assert not writer.is_alive()


@pytest.mark.parametrize("cut", [19, 25, 57, 59, 50_070, 200_100])
def test_every_rank_fails_with_the_same_message(share: Share, tmp_path: Path, cut: int) -> None:
    fed(tmp_path / "train_0", framed([b"abc", b"def", b"ghi", *LARGE[:4]])[: cut + 1])
    failures = [until_failure(records)[1] for records in [share(0, 2), share(1, 2)]]
    for failure in failures:
        assert f"Channel train: {tmp_path / 'train_0'} was truncated at byte {cut + 1}, inside " in failure


@pytest.mark.parametrize("records", [LARGE, SMALL], ids=["large", "small"])
def test_a_corrupt_header_fails_every_rank(share: Share, tmp_path: Path, records: list[bytes]) -> None:
    data = bytearray(framed(records))
    start = 100 * (len(records[0]) + 16)
    data[start] ^= 1
    fed(tmp_path / "train_0", bytes(data))
    shares = [share(0, 2), share(1, 2)]
    for failure in [until_failure(records)[1] for records in shares]:
        assert f"the header of record 100 at byte {start} of {tmp_path / 'train_0'} is corrupt" in failure


@pytest.mark.parametrize("reader", ["plugin", "python"])
@pytest.mark.parametrize("records", [LARGE, SMALL], ids=["large", "small"])
def test_a_corrupt_record_fails_its_rank_while_the_stream_continues(
    share: Share, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: list[bytes], reader: str
) -> None:
    if reader == "python":
        monkeypatch.setattr(record_reader, "load_plugin", lambda: False)
    data = bytearray(framed(records))
    data[12 + len(records[0]) // 2] ^= 1
    fed(tmp_path / "train_0", bytes(data))
    _, failure = until_failure(share(0, 2))
    by_reader = {
        "plugin": r"corrupted record at 12",
        "python": r"Channel train: record 0 at byte 0 of \S+rank0of2 is corrupt: the CRC of its",
    }
    assert re.search(by_reader[reader], failure), failure
    assert "killed" not in failure


def test_an_empty_stream_fails_every_rank(share: Share, tmp_path: Path) -> None:
    fed(tmp_path / "train_0", b"")
    for failure in [until_failure(records)[1] for records in [share(0, 2), share(1, 2)]]:
        assert f"Channel train: {tmp_path / 'train_0'} ended without any data." in failure


def test_fewer_records_than_ranks_fail_every_rank(share: Share, tmp_path: Path) -> None:
    fed(tmp_path / "train_0", framed([b"one"]))
    for failure in [until_failure(records)[1] for records in [share(0, 2), share(1, 2)]]:
        assert "has 1 record(s), fewer than this host's 2 ranks." in failure


def test_a_missing_program_fails_every_rank_before_it_waits(share: Share, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demultiplexer, "PROGRAM", Path("/nowhere/demux"))
    for rank in range(2):
        with pytest.raises(FileNotFoundError, match="Channel train: the demultiplexer /nowhere/demux is missing"):
            share(rank, 2)
    share(0, 1)  # the only rank of a host reads the stream itself


def test_a_stream_that_never_comes_fails_every_rank(share: Share, tmp_path: Path) -> None:
    path = demultiplexer.rank_fifo(tmp_path, "train", 0, 0, 2, timeout_seconds=2)
    shares = [record_reader.fifo_records(path, "train", timeout_seconds=20), share(1, 2)]
    with ThreadPoolExecutor(2) as both:  # otherwise the error would be that a rank did not begin to read
        for _, failure in both.map(until_failure, shares):
            assert f"Channel train: nothing wrote to {tmp_path / 'train_0'} within 2 s." in failure


def test_a_demultiplexer_that_is_killed_fails_every_rank(share: Share, tmp_path: Path) -> None:
    fed(tmp_path / "train_0", framed(LARGE * 3))
    shares = [iter(share(rank, 2)) for rank in range(2)]
    for records in shares:
        next(records)
    demultiplexer._running[-1].send_signal(signal.SIGKILL)
    for records in shares:
        with pytest.raises(ERRORS, match=f"the demultiplexer of {tmp_path}/train_0 was killed"):
            list(records)


def test_signals_for_the_ranks_do_not_end_the_demultiplexer(share: Share, tmp_path: Path) -> None:
    fed(tmp_path / "train_0", framed(LARGE))
    shares = [iter(share(rank, 2)) for rank in range(2)]
    first = [next(records).numpy() for records in shares]
    demultiplexer._running[-1].send_signal(signal.SIGTERM)
    rest = [[record.numpy() for record in records] for records in shares]
    assert [[one, *others] for one, others in zip(first, rest, strict=True)] == [LARGE[0::2], LARGE[1::2]]


def test_a_rank_that_is_killed_leaves_no_demultiplexer_behind(share: Share, tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from training_container.trainer.demux import demultiplexer;"
        "demultiplexer.rank_fifo(Path(sys.argv[1]), 'train', 0, 0, 2);"
        "print(demultiplexer._running[0].pid, flush=True); time.sleep(99)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, tmp_path], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as rank:
        assert rank.stdout
        demultiplexer = int(rank.stdout.readline())
        assert runs(demultiplexer)
        rank.kill()
    deadline = time.monotonic() + 30
    while runs(demultiplexer) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not runs(demultiplexer)


def runs(process: int) -> bool:
    try:
        os.kill(process, 0)
        return ") Z " not in Path(f"/proc/{process}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
