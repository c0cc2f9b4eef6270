"""`make bench-demo`: measures the first `make demo` of a newcomer, in fresh clones with empty and with filled caches.

It reads the output in a pseudo-terminal, as a person does, and notes when each sentence appears first. An empty cache
is one for uv, pip, npm and the Horovod build; the operating system's cache of files stays as it is.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import tempfile
import termios
import time
from collections.abc import Iterator, Mapping
from io import RawIOBase
from pathlib import Path

from bench import results_file
from bench.machine import CHECKOUT, description
from bench.size import IS_TINY

MOMENTS = {
    "set-up": r"AWS for this run is localcloud",
    "deployed": r"bootstrap and deploy with the CDK CLI: [\d.]+ s",
    "first epoch": r"\b\d+/20\b",
    "first model": r"\bCompleted\b",
}
"""The first output after each part of the demo."""
AIMS = {"empty": {"first model": 420}, "filled": {"first model": 180, "the demo itself": 100}}
"""Seconds on two cores. The demo itself begins after the set-up."""
_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""A control sequence of a terminal."""
_RECENT = 4000
"""Characters of the output that are searched again when more arrive."""


def main() -> None:
    """Measure, print and write the result."""
    machine = description(())
    with tempfile.TemporaryDirectory(prefix="traingrid-demo-") as temporary:
        folder = Path(temporary)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
        if IS_TINY:
            seconds = {"filled": demo(CHECKOUT, inherited)}
        else:
            caches = {"XDG_CACHE_HOME": str(folder / "cache"), "npm_config_cache": str(folder / "npm")}
            environment = {**inherited, **caches}
            for name in ("UV_CACHE_DIR", "PIP_CACHE_DIR"):
                environment.pop(name, None)
            seconds = {"empty": demo(clone(folder / "first"), environment)}
            seconds["filled"] = demo(clone(folder / "second"), environment)
    rows = [{"caches": caches, "aims": AIMS[caches], **moments} for caches, moments in seconds.items()]
    file = results_file.write("demo", {"rows": rows}, seconds, machine)
    print(f"{file.read_text()}written to {file.relative_to(CHECKOUT)}")


def clone(folder: Path) -> Path:
    """Clone this checkout's commit, and return the folder."""
    subprocess.run(["git", "clone", "--quiet", str(CHECKOUT), str(folder)], check=True)
    return folder


def demo(folder: Path, environment: Mapping[str, str]) -> dict[str, int]:
    """Run `make demo`, and return the seconds from its start to each moment and to its end.

    Raises:
        RuntimeError: The demo failed, or a moment is missing in its output.
    """
    started, recent, screen, seconds = time.monotonic(), "", "", dict[str, int]()
    for text in _output(folder, environment):
        recent = recent[-_RECENT:] + text
        screen = _STYLE.sub("", recent)
        new = {moment for moment, pattern in MOMENTS.items() if moment not in seconds and re.search(pattern, screen)}
        seconds |= dict.fromkeys(new, round(time.monotonic() - started))
    if missing := MOMENTS.keys() - seconds.keys():
        raise RuntimeError(f"{screen}\nThe output of the demo does not show {', '.join(sorted(missing))}.")
    end = round(time.monotonic() - started)
    return seconds | {"end": end, "the demo itself": end - seconds["set-up"]}


def _output(folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Run `make demo` in a pseudo-terminal, and yield its output.

    Raises:
        subprocess.CalledProcessError: It failed.
    """
    reader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
    command = ["make", "--no-print-directory", "demo"]
    process = subprocess.Popen(command, cwd=folder, env=environment, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    with os.fdopen(reader, "rb", buffering=0) as output:
        while text := _read(output):
            yield text
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, command)


def _read(output: RawIOBase) -> str:
    """Read some output; Linux reports the end of a pseudo-terminal's last process as an error."""
    try:
        return (output.read(65536) or b"").decode(errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    main()
