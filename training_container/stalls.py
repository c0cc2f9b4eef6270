"""Stalls: ranks that wait in a collective for one that never joins it. Horovod notices; this says what it means.

Horovod's coordinator looks at intervals of HOROVOD_STALL_CHECK_TIME_SECONDS, names the ranks that have not joined, and
shuts all ranks down after HOROVOD_STALL_SHUTDOWN_TIME_SECONDS. Source of both and of the warnings' words: Horovod
0.28.1, horovod/common/stall_inspector.cc; "Stalled ranks" is what earlier versions say for "Missing ranks".

This holds for ranks that MPI coordinates. With Gloo the inspector of 0.28.1 looks at an empty list of ranks
(Controller::global_ranks_ is not filled there), and never finds a stall.
"""

import math
import re
from dataclasses import dataclass, field

DEFAULT_SECONDS = 300.0

_BEGIN = re.compile(r"waiting for remainder of ranks for more than (\d+) seconds")
_RANKS = re.compile(r"(?:Missing|Stalled) ranks:")
_RANK = re.compile(r"^\s*(?:\[[^\]]*\]\s*(?:<\w+>:)?)?(\d+)(!?): \[(.*)\]\s*$")
_END = re.compile(r"is stalled for longer than (\d+) seconds\. Will shutdown")
_SHOWN_COLLECTIVES, _SHOWN_RANKS = 2, 8


def variables(seconds: float) -> dict[str, str]:
    """Return the environment by which Horovod ends ranks that wait longer than `seconds`; 0: they wait for ever.

    Horovod looks ten times within the limit, at most once a second and at least once a minute. A collective that was in
    its cache it notices two looks later, so a job ends at the limit at the earliest and 3 looks after it at the latest.
    """
    limit = math.ceil(seconds)
    check = min(60, max(1, limit // 10)) if limit else 60
    return {
        "HOROVOD_STALL_CHECK_TIME_SECONDS": str(check),
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": str(limit),
    }


@dataclass(kw_only=True)
class StallWatch:
    """Reads Horovod's warnings out of the ranks' output, line by line.

    Attributes:
        seconds: how long ranks have waited, at least, at the last warning.
        missing: the collectives that each missing rank had not joined then, as Horovod lists them.
        ended: whether Horovod has shut the ranks down for it.
    """

    seconds: int = 0
    missing: dict[int, str] = field(default_factory=dict)
    ended: bool = False
    _listing: bool = False

    def read(self, line: str) -> None:
        """Take in a line of output."""
        if match := _BEGIN.search(line):
            self.seconds, self.missing, self._listing = int(match[1]), {}, True
        elif match := _END.search(line):
            self.seconds, self.ended, self._listing = int(match[1]), True, False
        elif self._listing and (match := _RANK.match(line)):
            self.missing[int(match[1])] = match[3]
        elif _RANKS.search(line):
            self._listing = True

    def reason(self) -> str:
        """Return who did not join what for how long, and what to do about it."""
        ranks = sorted(self.missing)
        numbers = ", ".join(map(str, ranks[:_SHOWN_RANKS])) + f" and {len(ranks) - _SHOWN_RANKS} more" * (
            len(ranks) > _SHOWN_RANKS
        )
        who = f"Rank{'s' * (len(ranks) > 1)} {numbers}" if ranks else "A rank"
        names = [name for name in self.missing[ranks[0]].split(", ") if name] if ranks else []
        more = " and others" * (len(names) > _SHOWN_COLLECTIVES)
        what = f"the collective {', '.join(names[:_SHOWN_COLLECTIVES])}{more}" if names else "a collective"
        return (
            f"{who} did not join {what}, for which the other ranks have waited more than {self.seconds} s. "
            "Either it hangs (in reading data, or in writing), or it took another way through the code: all ranks must "
            "call the same collectives in the same order, also at the end of uneven data. If it is only slow, raise "
            "the hyperparameter stall_seconds, or for a script the environment variable "
            "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS.\n"
        )
