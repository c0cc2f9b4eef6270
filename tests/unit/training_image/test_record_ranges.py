"""Record ranges: every rank has its records, no record is lost or read twice, and little of an epoch is left out."""

import random
import struct
from array import array
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training_container.trainer.data.record_index import (
    MAX_STARTS,
    FileIndex,
    Index,
    Part,
    ShardError,
    indexed,
    record_index,
    record_starts,
    store,
    stored,
)
from training_container.trainer.data.shards import Segment, byte_range, range_of, segments_of_rank

IMAGENET = 1_281_167
"""Training images of ILSVRC2012; build_imagenet_data.py writes them into 1,024 files of 1,251 or 1,252."""
COUNTS = st.lists(st.integers(0, 300), min_size=1, max_size=40)
RANKS = st.integers(1, 150)


def files(counts: list[int]) -> list[tuple[Path, FileIndex]]:
    return [(Path(f"{number:03d}"), FileIndex(size=1, records=count)) for number, count in enumerate(counts)]


def numbers(segment: Segment, counts: list[int]) -> list[tuple[str, int]]:
    """Return the records of a segment: file and number."""
    total = counts[int(segment.path.name)]
    stop = total if segment.count is None else segment.first + segment.count
    return [(segment.path.name, number) for number in range(segment.first, stop)]


def write(path: Path, sizes: list[int]) -> Path:
    """Write a file of records whose checksums are zero: headers are not verified here."""
    path.write_bytes(b"".join(struct.pack("<QI", size, 0) + bytes(size + 4) for size in sizes))
    return path


@given(counts=COUNTS, ranks=RANKS, shift=st.integers(0, 10_000))
def test_ranges_contain_every_record_once_in_order(counts: list[int], ranks: int, shift: int) -> None:
    shares = [
        [record for part in segments_of_rank(files(counts), rank, ranks, shift) for record in numbers(part, counts)]
        for rank in range(ranks)
    ]
    every = [(f"{number:03d}", record) for number, count in enumerate(counts) for record in range(count)]
    begin = shift % max(len(every), 1)
    assert [record for share in shares for record in share] == every[begin:] + every[:begin]
    assert [len(share) for share in shares] == [len(range_of(len(every), rank, ranks)) for rank in range(ranks)]


@given(total=st.integers(0, 10**9), ranks=RANKS)
def test_ranges_differ_by_at_most_one_record(total: int, ranks: int) -> None:
    sizes = {len(range_of(total, rank, ranks)) for rank in range(ranks)}
    assert max(sizes) - min(sizes) <= 1


@given(counts=COUNTS, ranks=RANKS, seed=st.integers(0, 100))
def test_a_rank_has_as_many_records_in_every_order_of_the_files(counts: list[int], ranks: int, seed: int) -> None:
    order = random.Random(seed).sample(files(counts), len(counts))
    for rank in range(ranks):
        read = [record for part in segments_of_rank(order, rank, ranks) for record in numbers(part, counts)]
        assert len(read) == len(range_of(sum(counts), rank, ranks))


@pytest.mark.parametrize("batch", [64, 128])
@pytest.mark.parametrize("ranks", [40, 80, 96, 128])
def test_an_epoch_of_imagenet_leaves_out_at_most_three_thousandths(ranks: int, batch: int) -> None:
    counts = [IMAGENET // 1024 + (number < IMAGENET % 1024) for number in range(1024)]
    order = random.Random(0).sample(files(counts), len(counts))
    shares = [sum(len(numbers(part, counts)) for part in segments_of_rank(order, rank, ranks)) for rank in range(ranks)]
    assert sum(shares) - ranks * min(shares) < ranks  # ranges leave out less than a record of each rank
    steps = min(shares) // batch
    assert IMAGENET - ranks * steps * batch < ranks * batch + ranks  # less than a step of all ranks
    if batch == 64:
        assert 1 - ranks * steps * batch / IMAGENET <= 0.003


@given(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=60), data=st.data())
def test_a_segment_is_found_in_its_file(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], data: st.DataObject
) -> None:
    path = write(tmp_path_factory.mktemp("records") / "part", sizes)
    starts = [*record_starts(path), path.stat().st_size]
    first = data.draw(st.integers(0, len(sizes) - 1))
    count = data.draw(st.none() | st.integers(1, len(sizes) - first))
    known, byte = indexed(path).before(first)
    assert starts[known] == byte
    start, stop = byte_range(Segment(path=path, first=first, count=count, known=known, byte=byte))
    assert start == starts[first]
    assert (path.stat().st_size if stop is None else stop) == starts[len(sizes) if count is None else first + count]


@pytest.mark.parametrize("records", [MAX_STARTS - 1, MAX_STARTS, MAX_STARTS + 1, 5 * MAX_STARTS + 3])
def test_an_index_keeps_few_starts_and_finds_every_record_near_one(tmp_path: Path, records: int) -> None:
    path = write(tmp_path / "part", [number % 7 for number in range(records)])
    index, starts = indexed(path), list(record_starts(path))
    assert index.records == records
    assert len(index.starts) <= MAX_STARTS
    for record in range(records):
        known, byte = index.before(record)
        assert record - index.stride < known <= record
        assert byte == starts[known]


def test_counts_without_starts_read_a_file_from_its_beginning() -> None:
    assert FileIndex(size=100, records=7).before(5) == (0, 0)


def together(folders: list[Path], known: Index | None = None, *, among_local: bool = False) -> list[Index | str]:
    """Return each rank's index, or its error. The ranks are threads; rank n sees the files of its folder."""
    ranks, barrier, sent = len(folders), Barrier(len(folders)), {}

    def one(rank: int) -> Index | str:
        def exchange(part: Part) -> list[Part]:
            sent[rank] = part
            barrier.wait(120)
            parts = [sent[other] for other in range(ranks)]
            barrier.wait(120)
            return parts

        paths = {path.name: path for path in sorted(folders[rank].iterdir())}
        place = (0, 1) if among_local else (rank, ranks)
        try:
            return record_index(
                "train", paths, rank=place[0], ranks=place[1], counted=known, exchange=exchange, among_local=among_local
            )
        except ShardError as error:
            return str(error)

    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(one, range(ranks)))


def folder(parent: Path, name: str, *counts: int) -> Path:
    (parent / name).mkdir()
    for number, count in enumerate(counts):
        write(parent / name / f"{name}-{number}", [10] * count)
    return parent / name


def test_ranks_share_the_work_and_have_the_same_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, read = folder(tmp_path, "train", 3, 4, 5, 6, 7), []

    def noted(path: Path) -> FileIndex:
        read.append(path.name)
        return indexed(path)

    monkeypatch.setattr("training_container.trainer.data.record_index.indexed", noted)
    results = together([own, own, own])
    assert sorted(read) == [f"train-{number}" for number in range(5)]  # each file once, not once per rank
    assert results[0] == results[1] == results[2]
    assert isinstance(results[0], dict)
    assert [entry.records for entry in results[0].values()] == [3, 4, 5, 6, 7]


def test_an_invalid_file_is_the_error_of_all_ranks(tmp_path: Path) -> None:
    own = folder(tmp_path, "train", 3, 4, 5)
    (own / "train-1").write_bytes(b"no records at all")
    first, second = together([own, own])
    assert first == second
    assert isinstance(first, str)
    assert first.startswith("train-1 is truncated or not a TFRecord file: record 0")


def test_ranks_that_see_different_files_are_an_error(tmp_path: Path) -> None:
    results = together([folder(tmp_path, "a", 3), folder(tmp_path, "b", 3)])
    assert all("Ranks 0 and 1 see different files in channel train" in str(result) for result in results)


def test_hosts_with_different_files_learn_all_counts(tmp_path: Path) -> None:
    first, second = together([folder(tmp_path, "a", 3), folder(tmp_path, "b", 4)], among_local=True)
    assert isinstance(first, dict)
    assert first == second
    assert {name: entry.records for name, entry in first.items()} == {"a-0": 3, "b-0": 4}


def test_stored_counts_replace_reading_until_a_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own, read = folder(tmp_path, "train", 3, 4), []
    store(tmp_path / "index.json", together([own])[0])  # type: ignore[arg-type]  # no error
    write(own / "train-1", [10] * 9)

    def noted(path: Path) -> FileIndex:
        read.append(path.name)
        return indexed(path)

    monkeypatch.setattr("training_container.trainer.data.record_index.indexed", noted)
    (again,) = together([own], known=stored(tmp_path / "index.json"))
    assert read == ["train-1"]
    assert isinstance(again, dict)
    assert [entry.records for entry in again.values()] == [3, 9]
    assert "1 of 2 files of channel train are not in its index of records, or changed" in capsys.readouterr().out


def test_an_index_is_read_back_as_it_was_stored(tmp_path: Path) -> None:
    index = {"a/b": FileIndex(size=90, records=4, stride=2, starts=array("q", [0, 40]))}
    store(tmp_path / "index.json", index)
    assert stored(tmp_path / "index.json") == index


@given(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=60))
def test_the_index_of_any_file_is_accepted_when_it_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("records")
    index = {"part": indexed(write(folder / "part", sizes))}
    store(folder / "index.json", index)
    assert stored(folder / "index.json") == index


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"files": {"a": {"records": 3}}}',
        '{"files": {"a": {"size": 1, "records": -1}}}',
        '{"files": {"a": {"size": 47, "records": 3}}}',  # a record has 16 bytes at least
        '{"files": {"a": {"size": 99, "records": 3, "starts": [0, 20]}}}',
        '{"files": {"a": {"size": 99, "records": 3, "starts": [0, 15, 40]}}}',
        '{"files": {"a": {"size": 99, "records": 3, "starts": [16, 32, 48]}}}',
        '{"files": {"a": {"size": 99, "records": 3, "starts": [0, 40, 84]}}}',
        '{"files": {"a": {"size": 99, "records": 3, "stride": 2, "starts": [0, 31]}}}',
    ],
)
def test_an_invalid_index_is_reported_and_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "index.json").write_text(text)
    assert stored(tmp_path / "index.json") == {}
    assert "is not an index of records" in capsys.readouterr().out


def test_a_slow_count_is_exchanged_in_rounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = folder(tmp_path, "train", 3)
    rounds: list[Part] = []

    def exchange(part: Part) -> list[Part]:
        rounds.append(part)
        return [part]

    index = record_index("train", {"train-0": own / "train-0"}, exchange=exchange, round_seconds=0)
    assert index["train-0"].records == 3
    assert rounds[-1].left == 0
    assert len(rounds) == 1 or "Counting the records of channel train: 1 files are left." in capsys.readouterr().out
