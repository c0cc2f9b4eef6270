from pathlib import Path

import pytest

from training_container.__main__ import fail
from training_container.contract import Folders
from training_container.failure import SHOWN_CHARACTERS, FailureWatch, report_line


def failing_line(rank: int, error: Exception) -> str:
    try:
        raise error
    except type(error) as caught:
        return report_line(rank, f"algo-{rank}", caught, caught.__traceback__)


def test_the_reason_is_a_sentence_and_the_failing_ranks_traceback() -> None:
    watch = FailureWatch()
    assert watch.passes("epoch=1 train_loss=2\n")
    assert not watch.passes(failing_line(1, ValueError("no such pixel")) + "\n")
    sentence, first, *rest = watch.reason(1).splitlines()
    assert sentence == "Rank 1 on algo-1 failed: ValueError: no such pixel"
    assert first == "Traceback (most recent call last):"
    assert rest[-1] == "ValueError: no such pixel"


def test_a_rank_that_failed_because_another_did_is_not_the_reason() -> None:
    watch = FailureWatch()
    watch.passes(failing_line(0, RuntimeError("Horovod has been shut down. This was caused by an exception")))
    watch.passes(failing_line(1, ValueError("bad label")))
    assert watch.reason(1).startswith("Rank 1 on algo-1 failed: ValueError: bad label")


def test_a_killed_rank_is_the_reason_and_not_the_one_that_lost_it() -> None:
    watch = FailureWatch()
    watch.passes(failing_line(0, RuntimeError("Connection closed by peer [127.0.0.1]:2")))
    watch.passes("mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 9 (Killed).\n")
    assert watch.reason(137).startswith("Rank 1 on vm was killed by signal 9 (Killed).")


def test_open_mpi_5_breaks_the_line_about_a_killed_rank() -> None:
    watch = FailureWatch()
    for line in ("prterun noticed that process rank 1 with PID 31052 on node vm exited on\n", "signal 9 (Killed).\n"):
        assert watch.passes(line)
    assert watch.reason(137).startswith("Rank 1 on vm was killed by signal 9 (Killed).")
    assert watch.passes("bye\n")
    assert len(watch.deaths) == 1


def test_a_long_traceback_keeps_its_end_within_what_sagemaker_shows() -> None:
    watch = FailureWatch()
    watch.passes(failing_line(1, ValueError("x" * 5000 + " the end")))
    reason = watch.reason(1)
    assert len(reason) <= SHOWN_CHARACTERS
    assert reason.startswith("Rank 1 on algo-1 failed: ValueError: xxx")
    assert reason.endswith("the end\n")


def test_without_a_report_the_last_lines_are_shown() -> None:
    watch = FailureWatch()
    watch.passes("mpirun: command line is wrong\n")
    assert "exit status 213" in watch.reason(213)
    assert "command line is wrong" in watch.reason(213)


def test_a_full_disk_does_not_hide_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "output").touch()  # in the way of the folder, as a full disk is
    assert fail(Folders(base=tmp_path), "No space left on device.\n") == 1
    said = capsys.readouterr().err
    assert said.startswith("No space left on device.\n")
    assert f"{tmp_path / 'output' / 'failure'} could not be written" in said


def test_a_report_that_another_rank_wrote_into_is_passed_on() -> None:
    assert FailureWatch().passes(failing_line(1, ValueError("x"))[:40] + "epoch=3\n")
