"""Stalls: explains Horovod's warnings about ranks that wait in a collective for a rank that does not join it.

Horovod's coordinator checks at intervals of HOROVOD_STALL_CHECK_TIME_SECONDS, names the ranks that have not joined, and
shuts down all ranks after HOROVOD_STALL_SHUTDOWN_TIME_SECONDS. Source of both, and of the warnings' text: Horovod
0.28.1, horovod/common/stall_inspector.cc. Earlier versions print "Stalled ranks" instead of "Missing ranks".

This only applies to ranks that MPI coordinates. With Gloo, the inspector of 0.28.1 checks an empty list of ranks
(Controller::global_ranks_ is not filled there), and never finds a stall.
"""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

DEFAULT_SECONDS = 300.0
LIMIT = "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"
"""Horovod's variable with the time after which it shuts down ranks that wait."""
_HYPERPARAMETER, _GLOO = "stall_seconds", "training_container.launcher.gloo"

_BEGIN = re.compile(r"waiting for remainder of ranks for more than (\d+) seconds")
_RANKS = re.compile(r"(?:Missing|Stalled) ranks:")
_RANK = re.compile(r"^\s*(?:\[[^\]]*\]\s*(?:<\w+>:)?)?(\d+)(!?): \[(.*)\]\s*$")
_END = re.compile(r"is stalled for longer than (\d+) seconds\. Will shutdown")
_SHOWN_COLLECTIVES, _SHOWN_RANKS = 2, 8


def variables(seconds: float) -> dict[str, str]:
    """Return the variables with which Horovod shuts down ranks that wait longer than `seconds`; 0 disables the limit.

    Horovod checks ten times within the limit, but not more than once per second, and at least once per minute. If a
    collective is in Horovod's cache, it takes two more checks to detect the stall. So a job ends after the limit, and
    at most 3 checks later.
    """
    limit = math.ceil(seconds)
    check = min(60, max(1, limit // 10)) if limit else 60
    return {
        "HOROVOD_STALL_CHECK_TIME_SECONDS": str(check),
        LIMIT: str(limit),
    }


def ignored_limit(command: Sequence[str], settings: Collection[str]) -> str:
    """Return a sentence for a job that sets a limit of stalled ranks and runs them with Gloo; otherwise nothing.

    Args:
        command: The command that starts the ranks.
        settings: The names of the job's hyperparameters and variables.
    """
    if _GLOO not in command or not {_HYPERPARAMETER, LIMIT}.intersection(settings):
        return ""
    return f"Horovod detects stalled ranks ({_HYPERPARAMETER}, {LIMIT}) only with MPI, not with Gloo."


@dataclass(kw_only=True)
class StallWatch:
    """Extracts Horovod's warnings from the ranks' output.

    Attributes:
        seconds: The minimum time that ranks had waited at the last warning.
        missing: The collectives that each missing rank had not joined at that time, as listed by Horovod.
        ended: True if Horovod has shut down the ranks because of the stall.
    """

    seconds: int = 0
    missing: dict[int, str] = field(default_factory=dict)
    ended: bool = False
    _listing: bool = False

    def read(self, line: str) -> None:
        """Process a line of output."""
        if match := _BEGIN.search(line):
            self.seconds, self.missing, self._listing = int(match[1]), {}, True
        elif match := _END.search(line):
            self.seconds, self.ended, self._listing = int(match[1]), True, False
        elif self._listing and (match := _RANK.match(line)):
            self.missing[int(match[1])] = match[3]
        elif _RANKS.search(line):
            self._listing = True

    def reason(self) -> str:
        """Return a message that names the missing ranks, the collective and the time, and suggests a solution."""
        ranks = sorted(self.missing)
        numbers = ", ".join(map(str, ranks[:_SHOWN_RANKS]))
        if len(ranks) > _SHOWN_RANKS:
            numbers += f" and {len(ranks) - _SHOWN_RANKS} more"
        subject = f"Rank{'s' * (len(ranks) > 1)} {numbers}" if ranks else "A rank"
        names = [name for name in self.missing[ranks[0]].split(", ") if name] if ranks else []
        more = " and others" if len(names) > _SHOWN_COLLECTIVES else ""
        collective = f"the collective {', '.join(names[:_SHOWN_COLLECTIVES])}{more}" if names else "a collective"
        return (
            f"{subject} did not join {collective}, for which the other ranks have waited more than {self.seconds} s. "
            "Either it hangs while reading or writing data, or its code took another branch: all ranks must call the "
            "same collectives in the same order, even if their data ends at different times. If it is only slow, "
            "increase the hyperparameter stall_seconds, or for a script the environment variable "
            "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS.\n"
        )
