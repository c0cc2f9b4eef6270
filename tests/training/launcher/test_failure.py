import re
from pathlib import Path

import pytest

from training_container.__main__ import fail
from training_container.contract.training_job import Folders
from training_container.launcher.failure import SHOWN_CHARACTERS, FailureWatch, died_line, report_line
from training_container.ranks.script_rank import ScriptError


def a_watch() -> FailureWatch:
    return FailureWatch(hosts=("algo-1", "algo-2"), processes_per_host=1)


def failing_line(rank: int, error: Exception) -> str:
    try:
        raise error
    except type(error) as caught:
        return report_line(rank, f"algo-{rank}", caught, caught.__traceback__)


def test_the_reason_has_a_sentence_and_the_failed_ranks_traceback() -> None:
    watch = a_watch()
    assert watch.passes("epoch=1 train_loss=2\n")
    assert not watch.passes(failing_line(1, ValueError("no such pixel")) + "\n")
    sentence, first, *rest = watch.reason(1).splitlines()
    assert sentence == "Rank 1 on algo-1 failed: ValueError: no such pixel"
    assert first == "Traceback (most recent call last):"
    assert rest[-1] == "ValueError: no such pixel"


def test_a_rank_that_failed_as_a_consequence_is_not_the_reason() -> None:
    watch = a_watch()
    watch.passes(failing_line(0, RuntimeError("Horovod has been shut down. This was caused by an exception")))
    watch.passes(failing_line(1, ValueError("bad label")))
    assert watch.reason(1).startswith("Rank 1 on algo-1 failed: ValueError: bad label")


@pytest.mark.parametrize(
    ("error", "is_its_own"),
    [
        (RuntimeError("[gloo/transport/tcp/pair.cc:525] Connection closed by peer [10.0.0.1]:1234"), False),
        (RuntimeError("[gloo/transport/tcp/pair.cc:598] writev [10.0.0.1]:1234: Broken pipe"), False),
        (RuntimeError("Application timeout caused pair closure"), False),
        (RuntimeError("Failed to recv, got 0 bytes. Connection was likely closed."), False),
        (RuntimeError("failed to recv, got 0 bytes"), False),
        (BrokenPipeError(32, "Broken pipe"), True),
        (ValueError("bad label"), True),
    ],
)
def test_a_rank_that_lost_a_host_that_stopped_earlier_has_not_failed_before_the_stop(
    error: Exception, is_its_own: bool
) -> None:
    watch = FailureWatch(hosts=("algo-0", "algo-1"), processes_per_host=1, own_host="algo-1")
    watch.passes(failing_line(1, error))
    watch.passes(died_line(1, "algo-1", 1))
    assert watch.failed_before_stop == is_its_own
    assert watch.failures[0].is_consequence != is_its_own


def test_a_rank_that_was_killed_without_a_report_has_failed_before_the_stop() -> None:
    watch = FailureWatch(hosts=("algo-0", "algo-1"), processes_per_host=1, own_host="algo-1")
    watch.passes(died_line(1, "algo-1", -9))
    assert watch.failed_before_stop


FINISHED = (
    "Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt to allreduce, "
    "allgather or broadcast a tensor after one of the ranks finished execution."
)


@pytest.mark.parametrize(("processes", "lost"), [(1, "rank 1"), (2, "another rank")])
def test_ranks_that_lose_one_without_an_error_are_told_that_it_has_ended(processes: int, lost: str) -> None:
    watch = FailureWatch(hosts=("algo-1", "algo-2"), processes_per_host=processes)
    for line in (failing_line(0, RuntimeError(FINISHED)), f"{died_line(0, 'algo-1', 1)}\n"):
        watch.passes(line)
    first, *_ = watch.reason(1).splitlines()
    assert first.startswith(
        f"Rank 0 on algo-0 failed because {lost} had ended, or was lost, without an error. Give each"
    )


def test_if_all_ranks_have_lost_another_one_the_first_is_the_reason() -> None:
    watch = a_watch()
    for rank in (0, 1):
        watch.passes(failing_line(rank, RuntimeError(FINISHED)))
    assert watch.reason(1).startswith("Rank 0 on algo-0 failed: RuntimeError: Horovod has been shut down.")


def test_a_killed_rank_is_the_reason_not_the_rank_that_lost_it() -> None:
    watch = a_watch()
    watch.passes(failing_line(0, RuntimeError("Connection closed by peer [127.0.0.1]:2")))
    watch.passes(failing_line(2, RuntimeError("Timed out waiting 1800000ms for recv operation to complete")))
    watch.passes("mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 9 (Killed).\n")
    sentence, cause, *_ = watch.reason(137).split(". ")
    assert sentence == "Rank 1 on algo-2 was killed by signal 9 (SIGKILL)"
    assert cause.startswith("Most likely memory ran out: try a smaller batch_size")


@pytest.mark.parametrize(
    ("line", "host"),
    [
        (
            "mpirun noticed that process rank 0 with PID 7 on node ip-10-0-1-2 exited on signal 11 (Segfault).",
            1,
        ),
        ("mpirun noticed that process rank 1 with PID 7 on node algo-1 exited on signal 11 (Segmentation fault).", 1),
        (died_line(1, "algo-2", 139), 2),
        (died_line(1, "algo-2", -11), 2),
    ],
)
def test_a_killed_rank_has_the_same_report_with_mpirun_and_gloo(line: str, host: int) -> None:
    watch = a_watch()
    assert watch.passes(f"{line}\n")
    assert re.match(rf"Rank \d on algo-{host} was killed by signal 11 \(SIGSEGV\)\. A native library", watch.reason(1))


def test_a_rank_with_a_nonzero_exit_status_is_reported_with_its_error() -> None:
    watch = a_watch()
    for line in ("loading\n", "OSError: no such shard\n", "cleaning up\n", f"{died_line(1, 'algo-2', 3)}\n"):
        watch.passes(line)
    first, second, *lines = watch.reason(1).splitlines()
    assert first == "Rank 1 on algo-2 ended with exit status 3. Last error: OSError: no such shard"
    assert (second, lines) == ("Last lines:", ["loading", "OSError: no such shard", "cleaning up"])


def test_a_launcher_that_was_killed_is_reported_by_its_signal() -> None:
    first, *_ = a_watch().reason(-9).splitlines()
    assert first.startswith(
        "The program that started the ranks was killed by signal 9 (SIGKILL) without a report. Most"
    )


def test_a_scripts_exit_status_is_reported_with_its_last_error_in_the_first_line() -> None:
    watch = a_watch()
    ended = ScriptError("mine.sh ended with exit status 4.")
    watch.passes("cp: cannot stat 'x': No such file or directory\n")
    watch.passes(f"training_container.ranks.script_rank.ScriptError: {ended}\n")
    watch.passes(report_line(0, "algo-1", ended, None) + "\n")
    watch.passes("mpirun detected that one or more processes exited with non-zero status, thus causing ...\n")
    assert watch.reason(4) == (
        "Rank 0 on algo-1 failed: ScriptError: mine.sh ended with exit status 4. Last error: "
        "cp: cannot stat 'x': No such file or directory\nLast lines:\ncp: cannot stat 'x': No such file or directory\n"
    )


def test_open_mpi_5_breaks_the_line_about_a_killed_rank() -> None:
    watch = a_watch()
    for line in ("prterun noticed that process rank 1 with PID 31052 on node vm exited on\n", "signal 9 (Killed).\n"):
        assert watch.passes(line)
    assert watch.reason(137).startswith("Rank 1 on algo-2 was killed by signal 9 (SIGKILL).")
    assert watch.passes("bye\n")
    assert len(watch.deaths) == 1


def test_the_end_of_a_long_traceback_fits_into_the_failure_reason() -> None:
    watch = a_watch()
    watch.passes(failing_line(1, ValueError("x" * 5000 + " the end")))
    reason = watch.reason(1)
    assert len(reason) <= SHOWN_CHARACTERS
    assert reason.startswith("Rank 1 on algo-1 failed: ValueError: xxx")
    assert reason.endswith("the end\n")


def test_without_a_report_the_last_lines_are_shown() -> None:
    watch = a_watch()
    watch.passes("mpirun: command line is wrong\n")
    first, *_, last = watch.reason(213).splitlines()
    assert first == ("The ranks ended with exit status 213 without a report. Last error: mpirun: command line is wrong")
    assert last == "mpirun: command line is wrong"


def test_a_full_disk_does_not_hide_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "output").touch()  # prevents creation of the folder, like a full disk
    assert fail(Folders(base=tmp_path), "No space left on device.\n") == 1
    output = capsys.readouterr().err
    assert output.startswith("No space left on device.\n")
    assert f"{tmp_path / 'output' / 'failure'} could not be written" in output


def test_a_report_that_another_rank_wrote_into_is_forwarded() -> None:
    assert a_watch().passes(failing_line(1, ValueError("x"))[:40] + "epoch=3\n")
