"""`make bench-start`: measures the processor time that each command uses before its first request to AWS.

A server on the loopback interface takes the place of all services of AWS. When the first request arrives, it reads the
processor time of the command from proc(5), and ends the command.
"""

import os
import statistics
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bench.machine import description
from bench.report import Result, report
from bench.size import size

RUNS, AIM = size(7, 1), 0.5
_TICKS = os.sysconf("SC_CLK_TCK")
_TRAINGRID = Path(__file__).resolve().parent.parent / ".venv/bin/traingrid"
_SUBMISSION = "0123abcd"
COMMANDS = (
    *(("status",), ("status", _SUBMISSION), ("describe", _SUBMISSION), ("logs", _SUBMISSION), ("compare", _SUBMISSION)),
    *(("open", _SUBMISSION), ("download", _SUBMISSION), ("tensorboard", _SUBMISSION), ("ui",), ("cancel", _SUBMISSION)),
    *(("retry", _SUBMISSION), ("pause", "--reason", "x"), ("resume",), ("audit",), ("doctor",), ("retained",)),
    *(("datasets",), ("data", "prune"), ("upload", "data", "us-east-1"), ("submit", "manifest.csv")),
)
"""Commands that begin with a request to AWS. Those of the catalog begin with its database."""
_GRID = """\
name: bench
home: us-east-1
regions: {us-east-1: {}, eu-west-1: {}}
images: {resnet: {repository: training, tag: "1"}}
job: {image: resnet, instance_type: ml.m5.large}
"""


class _Server(ThreadingHTTPServer):
    """The server that takes the place of AWS.

    Attributes:
        seconds: Its processor time, once it has sent a request.
    """

    command: "subprocess.Popen[bytes]"
    seconds: float | None = None

    def measure(self) -> None:
        """Read the processor time at the first request, and end the command."""
        if self.seconds is None:
            user, system = Path(f"/proc/{self.command.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
            self.seconds = (int(user) + int(system)) / _TICKS
            self.command.kill()


class _Request(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:  # the name of BaseHTTPRequestHandler
        """Measure."""
        self.server.measure()

    do_GET = do_PUT = do_HEAD = do_POST  # noqa: N815  # as above


def measured(words: tuple[str, ...], folder: Path) -> float:
    """Return the processor time of a command until its first request, in seconds.

    Raises:
        RuntimeError: The command ended without a request.
    """
    with _Server(("127.0.0.1", 0), _Request) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        keys = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_REGION": "us-east-1"}
        environment = {**os.environ, **keys, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}"}
        with subprocess.Popen(
            [_TRAINGRID, *words], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as server.command:
            output, _ = server.command.communicate(timeout=60)
        server.shutdown()
    if server.seconds is None:
        raise RuntimeError(f"traingrid {' '.join(words)} has sent no request: {output.decode()}")
    return server.seconds


def main() -> None:
    """Measure all commands in several rounds, because the speed of a shared machine changes, and print a report."""
    machine = description()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "grid.yaml").write_text(_GRID)
        (folder / "manifest.csv").write_text("us-east-1,s3://bucket/data\n")
        (folder / "data").mkdir()
        (folder / "data/a").write_text("a")
        rounds = [{" ".join(words): measured(words, folder) for words in COMMANDS} for _ in range(RUNS)]
    found = {words: sorted(each[words] for each in rounds) for words in rounds[0]}
    median = {words: statistics.median(seconds) for words, seconds in found.items()}
    slowest = max(median, key=median.__getitem__)
    for words, seconds in sorted(median.items(), key=lambda item: item[1]):
        print(f"{seconds:.2f} s  traingrid {words}")
    results = [
        Result(id="", what=f"slowest: {slowest}", measured=median[slowest], comparison="<=", aim=AIM, unit="s"),
    ]
    report("command-start", results, machine=machine, against="this machine's processor", details=found)


if __name__ == "__main__":
    main()
