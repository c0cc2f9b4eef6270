"""Rank signals: sends a signal to the ranks of this host, whichever launcher has started them."""

import signal
from contextlib import suppress

import psutil

_RANK_PROGRAM = "training_container.ranks."


def signal_ranks(top: int, number: signal.Signals) -> None:
    """Send a signal to the outermost process of each rank (ranks/leftovers.py), which forwards it to the rank.

    Args:
        top: A process from which the ranks descend, or the only rank's own.
    """
    with suppress(psutil.Error):
        top_process = psutil.Process(top)
        ranks = {
            process.pid: process
            for process in [top_process, *top_process.children(recursive=True)]
            if _is_rank(process)
        }
        for process in ranks.values():
            with suppress(psutil.Error):
                if process.ppid() not in ranks:
                    process.send_signal(number)


def _is_rank(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return any(word.startswith(_RANK_PROGRAM) for word in process.cmdline()[:5])
    return False
