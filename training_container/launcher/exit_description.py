"""Exit descriptions: how a process ended, in words, and the likely cause if a signal killed it."""

import signal

# Source: signal(7). The kernel's out-of-memory killer sends SIGKILL. Writing to a full /dev/shm raises SIGBUS.
_CAUSES = {
    signal.SIGKILL: "Most likely memory ran out: try a smaller batch_size, or an instance type with more memory.",
    signal.SIGBUS: "Most likely shared memory (/dev/shm) is full.",
    signal.SIGSEGV: "A native library crashed: see the last lines of the log.",
    signal.SIGABRT: "A native library aborted: see the last lines of the log.",
    signal.SIGILL: "A native library was built for another processor.",
    signal.SIGFPE: "A native library divided by zero.",
    signal.SIGTERM: "It was asked to stop.",
}
_FROM_A_SHELL = 128


def exit_phrase(status: int) -> str:
    """Return a phrase that describes how a process ended, without a full stop.

    Args:
        status: The status of subprocess, negative for a signal, or of a shell, which adds 128 to the signal.
    """
    number = _signal(status)
    if number is None:
        return f"ended with exit status {status}"
    return f"was killed by signal {number.value} ({number.name})"


def likely_cause(status: int) -> str:
    """Return the likely cause of a signal, as a sentence after a blank; empty if the process ended by itself."""
    number = _signal(status)
    return f" {_CAUSES[number]}" if number in _CAUSES else ""


def _signal(status: int) -> signal.Signals | None:
    number = -status if status < 0 else status - _FROM_A_SHELL
    try:
        return signal.Signals(number)
    except ValueError:
        return None
