"""Why a training failed: what ranks report to their launcher, and the sentence that SageMaker shows.

A rank reports on its standard error, as one line, since that reaches the launcher from every host, with mpirun and
with Gloo alike.
"""

import json
import re
import traceback
from collections import deque
from dataclasses import dataclass, field
from types import TracebackType

from training_container.stalls import StallWatch

# SageMaker shows the first 1,024 characters of /opt/ml/output/failure as the job's FailureReason.
# Source: DescribeTrainingJob in the SageMaker API reference.
SHOWN_CHARACTERS = 1024

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
_ABORTED = re.compile(r"process rank (\d+) with PID \d+ on node (\S+) exited on\s+signal (\d+) \(([^)]*)\)")


@dataclass(frozen=True, kw_only=True)
class RankFailure:
    """An error that ended a rank."""

    rank: int
    host: str
    error: str
    traceback: str
    is_consequence: bool  # whether this rank failed only because another did


def report_line(rank: int, host: str, error: BaseException, trace: TracebackType | None) -> str:
    """Return the line a rank reports its failure with, cut to what a pipe takes whole (PIPE_BUF is 4,096 on Linux)."""
    while trace and trace.tb_next and trace.tb_frame.f_code.co_filename.startswith("<frozen"):
        trace = trace.tb_next  # how Python itself started the program explains nothing
    text = "".join(traceback.format_exception(type(error), error, trace))
    consequence = any(phrase in str(error) for phrase in _CONSEQUENCES)
    sentence = _cut(f"{type(error).__name__}: {_essence(str(error))}", 500)
    fields = {"rank": rank, "host": host, "error": sentence, "is_consequence": consequence}
    return _PREFIX + json.dumps(fields | {"traceback": text[-1500:]})


def _essence(message: str) -> str:
    """Return an error's message without the graph's own traceback, which TensorFlow puts before what happened."""
    lines = [line.strip() for line in message.splitlines()]
    return " ".join(line for line in lines if line and not line.startswith(_GRAPH_LINES)) or message


@dataclass(kw_only=True)
class FailureWatch:
    """Reads the ranks' output in passing and remembers what explains a failure."""

    failures: list[RankFailure] = field(default_factory=list)
    deaths: list[str] = field(default_factory=list)
    stalls: StallWatch = field(default_factory=StallWatch)
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=10))

    def passes(self, line: str) -> bool:
        """Take in a line of output; return False if it is a report, which no reader needs to see."""
        _, found, report = line.partition(_PREFIX)
        if found:
            try:
                self.failures.append(RankFailure(**json.loads(report)))
            except (ValueError, TypeError):
                return True  # Another rank wrote into the line; its traceback is in the log all the same.
            return False
        self.stalls.read(line)
        former = f"{self.tail[-1]}\n" if self.tail else ""
        if (match := _ABORTED.search(former + line)) and match.end() > len(former):
            rank, node, number, name = match.groups()
            self.deaths.append(f"Rank {rank} on {node} was killed by signal {number} ({name}).")
        elif line.startswith("Rank ") and " died " in line:  # gloo.py's own words
            self.deaths.append(line.strip())
        if line.strip():
            self.tail.append(line.rstrip())
        return True

    def reason(self, status: int) -> str:
        """Return what output/failure shall say: a sentence, then the traceback of the rank that failed first.

        Args:
            status: the exit status of the program that started the ranks.
        """
        causes = [failure for failure in self.failures if not failure.is_consequence]
        if causes:
            return _explained(causes[0])
        if self.stalls.ended:  # what ranks and mpirun say then is its consequence
            return self.stalls.reason()
        if self.deaths:
            hint = (
                " Mostly this means that memory ran out: try a smaller batch_size."
                if "signal 9" in self.deaths[0]
                else ""
            )
            return f"{self.deaths[0]}{hint}\n"
        if self.failures:
            return _explained(self.failures[0])
        return (
            f"The ranks ended with exit status {status} and no report. Their last lines:\n"
            + "\n".join(self.tail)
            + "\n"
        )


def _explained(failure: RankFailure) -> str:
    sentence = f"Rank {failure.rank} on {failure.host} failed: {_cut(failure.error, 400)}\n"
    room = SHOWN_CHARACTERS - len(sentence) - 1
    text = failure.traceback.rstrip()
    return sentence + (text if len(text) <= room else "..." + text[3 - room :]) + "\n"


def _cut(text: str, length: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 3] + "..."
