"""Programs of tests, in Python."""

import sys
from pathlib import Path

# The kernel ends the interpreter's path in a first line at a blank, which the checkout's folder may have. So sh starts
# Python, for which the two lines are a text.
_START = f"#!/bin/sh\n'''exec' \"{sys.executable}\" \"$0\" \"$@\"\n' '''\n"


def write_program(path: Path, source: str) -> Path:
    """Write an executable program, and return its path.

    Args:
        path: The program's path.
        source: Its source in Python.
    """
    path.write_text(_START + source)
    path.chmod(0o755)
    return path
