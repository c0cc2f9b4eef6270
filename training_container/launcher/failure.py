"""Failure: the reports of failed ranks to their launcher, and the failure reason that SageMaker shows.

A rank reports its failure as one line on standard error, because standard error reaches the launcher from every host,
both with mpirun and with Gloo.
"""

import json
import re
import traceback
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType

from training_container import outside_json
from training_container.launcher.exit_description import exit_phrase, likely_cause
from training_container.launcher.horovod_stalls import StallWatch

# SageMaker shows the first 1,024 characters of /opt/ml/output/failure as the job's FailureReason.
# Source: DescribeTrainingJob in the SageMaker API reference.
SHOWN_CHARACTERS = 1024

_STEPS = "Give each rank the same number of steps, and end no rank early, for example by sys.exit(0)."

_REMEMBERED_LINES, _SHOWN_LINES = 40, 10

_PREFIX = "traingrid-rank-failure "
# Errors of ranks whose peer has failed: they are consequences, not causes. The texts are those of Horovod 0.28.1, Gloo
# (gloo/transport/tcp/pair.cc and unbound_buffer.cc) and PyTorch 2.10 (NCCLUtils.cpp, ncclRemoteError; recvBytes and
# sendBytes in torch/csrc/distributed/c10d/Utils.hpp, whose first letter differs between versions).
_CONSEQUENCES = (
    "Horovod has been shut down",
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "HorovodInternal",
    "Timed out waiting",
    "Application timeout caused pair closure",
    "remote process exiting prematurely",
    "ailed to recv, got 0 bytes",
    "ailed to send, sent 0 bytes",
)
# Beginnings of the lines in a graph's traceback of TensorFlow 2.15 (framework/error_interpolation.py).
_GRAPH_LINES = ("Graph execution error:", "Detected at node ", 'File "', "[[{{node ")
# Open MPI 4.1, orte/tools/orterun/help-orterun.txt, "orterun:proc-aborted"; Open MPI 5 breaks the line.
_ABORTED = re.compile(r"process rank (\d+) with PID \d+ on node (\S+) exited on\s+signal (\d+) \([^)]*\)")
# Of a process that called MPI_Init and not MPI_Finalize: "orterun:proc-exit-no-sync" in the same file.
_LEFT = re.compile(r"process rank (\d+) with PID \d+ on\s+node (\S+) exiting improperly")
# The format of died_line().
_DIED = re.compile(r"Rank (\d+) on (\S+) died: status (-?\d+)\.")
_ERROR = re.compile(r"error|exception|fatal|fail|cannot|can't|unable|denied|not found|no such|killed|abort", re.I)
# Lines that the launchers add to every failure. Open MPI 4.1: help-orterun.txt and help-errmgr-base.txt; 5.0: PRRTE's.
_LAUNCHERS_OWN = re.compile(
    r"^-{5,}$|^Primary job +terminated|^Per user-direction|^(mpirun|prterun) (noticed|detected)|^signal \d+ \("
    r"|non-zero (exit code|status)|^The first process to do so was|^Process name: |^Exit code: "
)


@dataclass(frozen=True, kw_only=True)
class RankFailure:
    """An error that ended a rank."""

    rank: int
    host: str
    error: str
    traceback: str
    is_consequence: bool  # this rank failed only because another one did
    is_exit_status: bool  # only a script's exit status is known, so the output must explain the failure
    last_lines: tuple[str, ...] = ()  # the output of all ranks before the report


def report_line(rank: int, host: str, error: BaseException, trace: TracebackType | None) -> str:
    """Return the line with which a rank reports its failure, short enough for an atomic write (PIPE_BUF: 4,096)."""
    while trace and trace.tb_next and trace.tb_frame.f_code.co_filename.startswith("<frozen"):
        trace = trace.tb_next  # frames of Python's own start-up are not helpful
    text = "".join(traceback.format_exception(type(error), error, trace))
    # Python's own sockets and pipes, whose errors are of OSError, do not connect ranks.
    consequence = not isinstance(error, OSError) and any(phrase in str(error) for phrase in _CONSEQUENCES)
    sentence = _shortened(f"{type(error).__name__}: {_essence(str(error))}", 500)
    fields = {"rank": rank, "host": host, "error": sentence, "is_consequence": consequence}
    fields |= {"is_exit_status": trace is None}
    return _PREFIX + json.dumps(fields | {"traceback": text[-1500:]})


def _essence(message: str) -> str:
    """Return an error's message without the graph's traceback, which TensorFlow prints before the error."""
    lines = [line.strip() for line in message.splitlines()]
    return " ".join(line for line in lines if line and not line.startswith(_GRAPH_LINES)) or message


def died_line(rank: int, host: str, status: int) -> str:
    """Return the line with which gloo.py reports a rank whose process failed."""
    return f"Rank {rank} on {host} died: status {status}."


@dataclass(kw_only=True)
class FailureWatch:
    """Scans the ranks' output, and collects the lines that explain a failure.

    Attributes:
        hosts: SageMaker's names of the hosts, in the order of their ranks.
        processes_per_host: The number of ranks on each host.
        own_host: The name of this host.
        stop_requested: Returns True once this host was asked to stop, which its ranks are asked after that.
        failed_before_stop: True if a rank of this host failed by itself, or was killed, before the stop. A rank of
            another host, which may be asked to stop earlier, does not count.
        deaths: A sentence for each rank whose process failed, by its number, in the order of time.
        left: A sentence for a rank that has ended before the others, with the exit status 0; else empty.
        stalls: Horovod's warnings about stalled ranks.
        tail: The last lines of the output.
    """

    hosts: Sequence[str]
    processes_per_host: int
    own_host: str = ""
    stop_requested: Callable[[], bool] = lambda: False
    failed_before_stop: bool = False
    failures: list[RankFailure] = field(default_factory=list)
    deaths: dict[int, str] = field(default_factory=dict)
    left: str = ""
    stalls: StallWatch = field(default_factory=StallWatch)
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=_REMEMBERED_LINES))

    def passes(self, line: str) -> bool:
        """Process a line of output. Return False if it is a report, which is not shown to users."""
        _, prefix, report = line.partition(_PREFIX)
        if prefix:
            try:
                failure = RankFailure(**outside_json.loads(report), last_lines=tuple(self.tail))
            except (ValueError, TypeError):
                return True  # another rank wrote into the same line; the traceback is in the log anyway
            self.failures.append(failure)
            if not failure.is_consequence:
                self._note_time(failure.host)
            return False
        self.stalls.read(line)
        previous = f"{self.tail[-1]}\n" if self.tail else ""
        if (match := _ABORTED.search(previous + line)) and match.end() > len(previous):
            self._note_death(int(match[1]), match[2], -int(match[3]))
        elif match := _LEFT.search(previous + line):
            rank = int(match[1])
            self.left = (
                f"Rank {rank} on {self._host(rank, match[2])} ended before the others, without an error. {_STEPS}"
            )
        elif match := _DIED.match(line):
            self._note_death(int(match[1]), match[2], int(match[3]))
        if line.strip():
            self.tail.append(line.rstrip())
        return True

    def _note_death(self, rank: int, node: str, status: int) -> None:
        """Record that a rank died. One that has reported an error ends because of that."""
        host = self._host(rank, node)
        if rank not in {failure.rank for failure in self.failures}:
            self._note_time(host)
        self.deaths.setdefault(rank, f"Rank {rank} on {host} {exit_phrase(status)}.{likely_cause(status)}")

    def _note_time(self, host: str) -> None:
        """Record whether a failure on a host preceded a stop."""
        self.failed_before_stop |= host == self.own_host and not self.stop_requested()

    def _host(self, rank: int, node: str) -> str:
        """Return SageMaker's name of a rank's host. Open MPI prints the node's own name, which may differ."""
        place = min(rank // self.processes_per_host, len(self.hosts) - 1)
        return node if node in self.hosts else self.hosts[place]

    def _loss(self, reported: Collection[int]) -> str:
        """Return the reason of ranks that lost another one, if no error or signal explains the loss.

        Horovod's own text names two possible causes: an error, and a rank that has finished.

        Args:
            reported: The ranks that have reported an error.
        """
        first_failure = self.failures[0]
        others = [rank for rank in range(len(self.hosts) * self.processes_per_host) if rank not in reported]
        if not others:
            return _explanation(first_failure)
        lost_rank = f"rank {others[0]}" if len(others) == 1 else "another rank"
        sentence = (
            f"Rank {first_failure.rank} on {first_failure.host} failed because {lost_rank} had ended, or was lost, "
            f"without an error. {_STEPS} Last error: {_shortened(first_failure.error, 300)}"
        )
        return _cut_in_front(f"{sentence}\n", first_failure.traceback.rstrip())

    def reason(self, status: int) -> str:
        """Return the text of output/failure: a sentence, then the traceback of the rank that failed first.

        The first sentence must be sufficient, because tables show only the first line.

        Args:
            status: The exit status of the launcher, as returned by subprocess.
        """
        causes = [failure for failure in self.failures if not failure.is_consequence]
        if causes:
            return _explanation(causes[0])
        if self.stalls.ended:  # later errors of ranks and mpirun are consequences
            return self.stalls.reason()
        if self.left:
            return f"{self.left}\n"
        reported = {failure.rank for failure in self.failures}
        if unexplained := [sentence for rank, sentence in self.deaths.items() if rank not in reported]:
            return _with_lines(unexplained[0], self.tail)
        if self.failures:
            return self._loss(reported)
        subject = "The ranks" if status > 0 else "The program that started the ranks"
        return _with_lines(f"{subject} {exit_phrase(status)} without a report.{likely_cause(status)}", self.tail)


def _explanation(failure: RankFailure) -> str:
    sentence = f"Rank {failure.rank} on {failure.host} failed: {_shortened(failure.error, 400)}"
    text = failure.traceback.rstrip()
    if failure.is_exit_status:
        return _with_lines(sentence, [line for line in failure.last_lines if failure.error not in line])
    return _cut_in_front(f"{sentence}\n", text)


def _with_lines(sentence: str, lines: Iterable[str]) -> str:
    """Return a sentence, then the last line that looks like an error, or else the last line, and then all lines."""
    last_lines = [line for line in lines if not (_LAUNCHERS_OWN.search(line.strip()) or _DIED.match(line))][
        -_SHOWN_LINES:
    ]
    if not last_lines:
        return f"{sentence}\n"
    error = next((line for line in reversed(last_lines) if _ERROR.search(line)), last_lines[-1])
    return _cut_in_front(f"{sentence} Last error: {_shortened(error, 300)}\nLast lines:\n", "\n".join(last_lines))


def _cut_in_front(beginning: str, text: str) -> str:
    """Return `beginning`, and as much of the end of `text` as SageMaker shows."""
    room = SHOWN_CHARACTERS - len(beginning) - 1
    return beginning + (text if len(text) <= room else "..." + text[3 - room :]) + "\n"


def _shortened(text: str, length: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 3] + "..."
