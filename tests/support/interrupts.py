"""Interrupts: tests that press Ctrl-C also work in a process that a shell has started in the background."""

import signal


def allow_interrupts() -> None:
    """Restore SIGINT's default handler if it is ignored.

    A shell starts background processes with SIGINT ignored
    (https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_11), which their children inherit.
    Python then raises no KeyboardInterrupt.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
