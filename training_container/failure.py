"""Why a training failed: what ranks report to their launcher, and the sentence that SageMaker shows.

A rank reports on its standard error, as one line, since that reaches the launcher from every host, with mpirun and
with Gloo alike.
"""

import json
import re
import traceback
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType

from training_container.exit_status import in_words, likely_cause
from training_container.stalls import StallWatch

# SageMaker shows the first 1,024 characters of /opt/ml/output/failure as the job's FailureReason.
# Source: DescribeTrainingJob in the SageMaker API reference.
SHOWN_CHARACTERS = 1024

_REMEMBERED_LINES, _SHOWN_LINES = 40, 10

_PREFIX = "traingrid-rank-failure "
# What ranks say whose peer has failed: a consequence, never the reason.
_CONSEQUENCES = (
    "Horovod has been shut down",
    "Connection closed by peer",
    "Connection reset by peer",
    "HorovodInternal",
)
# How TensorFlow 2.15 starts the lines of a graph's traceback (framework/error_interpolation.py).
_GRAPH_LINES = ("Graph execution error:", "Detected at node ", 'File "', "[[{{node ")
# Open MPI 4.1, orte/tools/orterun/help-orterun.txt, "orterun:proc-aborted"; Open MPI 5 breaks the line.
_ABORTED = re.compile(r"process rank (\d+) with PID \d+ on node (\S+) exited on\s+signal (\d+) \([^)]*\)")
# gloo.py's own words.
_DIED = re.compile(r"Rank (\d+) on (\S+) died: status (-?\d+)\.")
_ERROR = re.compile(r"error|exception|fatal|fail|cannot|can't|unable|denied|not found|no such|killed|abort", re.I)
# What the launchers add to every failure; in Open MPI 4.1 help-orterun.txt and help-errmgr-base.txt, in 5.0 PRRTE's.
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
    is_consequence: bool  # whether this rank failed only because another did
    is_exit_status: bool  # whether a script's exit status is all that is known, so that its output must explain it
    last_lines: tuple[str, ...] = ()  # of all ranks' output, before the report


def report_line(rank: int, host: str, error: BaseException, trace: TracebackType | None) -> str:
    """Return the line a rank reports its failure with, cut to what a pipe takes whole (PIPE_BUF is 4,096 on Linux)."""
    while trace and trace.tb_next and trace.tb_frame.f_code.co_filename.startswith("<frozen"):
        trace = trace.tb_next  # how Python itself started the program explains nothing
    text = "".join(traceback.format_exception(type(error), error, trace))
    consequence = any(phrase in str(error) for phrase in _CONSEQUENCES)
    sentence = _cut(f"{type(error).__name__}: {_essence(str(error))}", 500)
    fields = {"rank": rank, "host": host, "error": sentence, "is_consequence": consequence}
    fields |= {"is_exit_status": trace is None}
    return _PREFIX + json.dumps(fields | {"traceback": text[-1500:]})


def _essence(message: str) -> str:
    """Return an error's message without the graph's own traceback, which TensorFlow puts before what happened."""
    lines = [line.strip() for line in message.splitlines()]
    return " ".join(line for line in lines if line and not line.startswith(_GRAPH_LINES)) or message


def died_line(rank: int, host: str, status: int) -> str:
    """Return the line with which gloo.py reports a rank whose process ended otherwise than well."""
    return f"Rank {rank} on {host} died: status {status}."


@dataclass(kw_only=True)
class FailureWatch:
    """Reads the ranks' output in passing and remembers what explains a failure.

    Attributes:
        hosts: SageMaker's names of the hosts, in the order of their ranks.
        processes_per_host: ranks on every host.
        failures: what ranks have reported.
        deaths: a sentence for each rank that was killed.
        stalls: what Horovod reports of stalled ranks.
        tail: the last lines of the output.
    """

    hosts: Sequence[str]
    processes_per_host: int
    failures: list[RankFailure] = field(default_factory=list)
    deaths: list[str] = field(default_factory=list)
    stalls: StallWatch = field(default_factory=StallWatch)
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=_REMEMBERED_LINES))

    def passes(self, line: str) -> bool:
        """Take in a line of output; return False if it is a report, which no reader needs to see."""
        _, found, report = line.partition(_PREFIX)
        if found:
            try:
                self.failures.append(RankFailure(**json.loads(report), last_lines=tuple(self.tail)))
            except (ValueError, TypeError):
                return True  # Another rank wrote into the line; its traceback is in the log all the same.
            return False
        self.stalls.read(line)
        former = f"{self.tail[-1]}\n" if self.tail else ""
        if (match := _ABORTED.search(former + line)) and match.end() > len(former):
            self._note_death(int(match[1]), match[2], -int(match[3]))
        elif match := _DIED.match(line):
            self._note_death(int(match[1]), match[2], int(match[3]))
        if line.strip():
            self.tail.append(line.rstrip())
        return True

    def _note_death(self, rank: int, node: str, status: int) -> None:
        """Remember that a rank died. Open MPI names a node as the machine calls itself, not as SageMaker does."""
        place = min(rank // self.processes_per_host, len(self.hosts) - 1)
        host = node if node in self.hosts else self.hosts[place]
        self.deaths.append(f"Rank {rank} on {host} {in_words(status)}.{likely_cause(status)}")

    def reason(self, status: int) -> str:
        """Return the text of output/failure: a sentence, then the traceback of the rank that failed first.

        The sentence explains the failure alone, because tables show the first line only.

        Args:
            status: the exit status of the program that started the ranks, as subprocess has it.
        """
        causes = [failure for failure in self.failures if not failure.is_consequence]
        if causes:
            return _explained(causes[0])
        if self.stalls.ended:  # what ranks and mpirun say then is its consequence
            return self.stalls.reason()
        if self.deaths:
            return _with_lines(self.deaths[0], self.tail)
        if self.failures:
            return _explained(self.failures[0])
        what = "The ranks" if status > 0 else "The program that started the ranks"
        return _with_lines(f"{what} {in_words(status)} without a report.{likely_cause(status)}", self.tail)


def _explained(failure: RankFailure) -> str:
    sentence = f"Rank {failure.rank} on {failure.host} failed: {_cut(failure.error, 400)}"
    text = failure.traceback.rstrip()
    if failure.is_exit_status:
        return _with_lines(sentence, [line for line in failure.last_lines if failure.error not in line])
    return _cut_in_front(f"{sentence}\n", text)


def _with_lines(sentence: str, lines: Iterable[str]) -> str:
    """Return a sentence, the last line that looks like an error, or the last line, and then all lines."""
    shown = [line for line in lines if not (_LAUNCHERS_OWN.search(line.strip()) or _DIED.match(line))][-_SHOWN_LINES:]
    if not shown:
        return f"{sentence}\n"
    error = next((line for line in reversed(shown) if _ERROR.search(line)), shown[-1])
    return _cut_in_front(f"{sentence} Last error: {_cut(error, 300)}\nLast lines:\n", "\n".join(shown))


def _cut_in_front(head: str, text: str) -> str:
    """Return a head and as much of the end of a text as SageMaker shows."""
    room = SHOWN_CHARACTERS - len(head) - 1
    return head + (text if len(text) <= room else "..." + text[3 - room :]) + "\n"


def _cut(text: str, length: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 3] + "..."
