"""Rank lines: the output of ranks that print at the same time becomes complete lines, each with its rank."""

import io

import pytest

from training_container.launcher.rank_lines import BYTES, RankLine, RankLines


def lines(output: str, *, space: bool = False) -> list[RankLine]:
    stream = io.TextIOWrapper(io.BytesIO(output.encode()), encoding=BYTES, newline="")
    return list(RankLines(space=space).read(stream))


def test_pieces_of_several_ranks_become_complete_lines() -> None:
    # Recorded: mpirun of Open MPI 4.1.4 --tag-output -np 2 sh -c 'echo hello; printf part; sleep 0.2; echo ial'
    output = (
        "[1,0]<stdout>:hello\n"
        "[1,0]<stdout>:part[1,1]<stdout>:hello\n"
        "[1,1]<stdout>:part[1,0]<stdout>:ial\n"
        "[1,1]<stdout>:ial"
    )
    assert lines(output) == [
        RankLine(0, "stdout", "hello\n"),
        RankLine(1, "stdout", "hello\n"),
        RankLine(0, "stdout", "partial\n"),
        RankLine(1, "stdout", "partial\n"),
    ]


def test_only_the_space_that_open_mpi_5_adds_is_removed() -> None:
    assert [line.text for line in lines("[1,0]<stdout>:   indented\n", space=True)] == ["  indented\n"]
    assert [line.text for line in lines("[1,0]<stdout>:  indented\n")] == ["  indented\n"]


def test_stderr_does_not_mix_with_stdout() -> None:
    found = lines("[1,2]<stdout>:loss=[1,2]<stderr>:warning\n[1,2]<stdout>:0.5\n")
    assert found == [RankLine(2, "stderr", "warning\n"), RankLine(2, "stdout", "loss=0.5\n")]


def test_messages_of_the_launcher_have_no_rank() -> None:
    assert lines("mpirun noticed that process rank 1 exited\n") == [
        RankLine(None, "stderr", "mpirun noticed that process rank 1 exited\n")
    ]


def test_each_step_of_a_progress_bar_is_a_line_of_its_rank() -> None:
    found = lines("[1,1]<stderr>:10%\r20%\r100%\n[1,0]<stdout>:done\nmpirun\n")
    assert [(line.rank, line.text) for line in found] == [
        (1, "10%\n"),
        (1, "20%\n"),
        (1, "100%\n"),
        (0, "done\n"),
        (None, "mpirun\n"),
    ]


def test_a_mark_between_the_bytes_of_a_character_does_not_break_it() -> None:
    first, second = "é".encode()
    stream = io.BytesIO(b"[1,0]<stdout>:caf%c[1,0]<stdout>:%c\n" % (first, second))
    assert list(RankLines().read(io.TextIOWrapper(stream, encoding=BYTES, newline=""))) == [
        RankLine(0, "stdout", "café\n")
    ]


def test_bytes_that_are_not_utf_8_are_replaced() -> None:
    stream = io.BytesIO(b"[1,0]<stdout>:\xff!\n")
    assert [line.text for line in RankLines().read(io.TextIOWrapper(stream, encoding=BYTES, newline=""))] == ["�!\n"]


def test_a_line_that_never_ends_does_not_fill_the_memory() -> None:
    output = "".join(f"[1,0]<stdout>:{'x' * 4000}" + ("[1,1]<stdout>:y\n" if at % 2 else "") for at in range(40))
    assert max(len(line.text) for line in lines(output)) < 70_000


@pytest.mark.parametrize(
    ("rank", "shown"), [(None, "loss 1\n"), (0, "loss 1\n"), (3, "[1,3]<stderr>:loss 1\n")], ids=["launcher", "0", "3"]
)
def test_only_lines_of_other_ranks_are_marked(rank: int | None, shown: str) -> None:
    assert RankLine(rank, "stderr", "loss 1\n").shown == shown
