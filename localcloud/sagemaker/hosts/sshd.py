"""`sshd` of one host of a training job: runs the commands that `ssh` sends, each in its own session.

    sshd [-D] [options]

With -D, it stays in the foreground; without -D, it moves to the background as the real one does. Other options are
ignored. It ends with 0 after SIGTERM (sigterm_handler and server_accept_loop in sshd.c of OpenSSH). Requires only the
standard library.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # run isolated (-I), so this module's folder is not on the path
from ssh import FAILED, login_environment  # type: ignore[import-not-found]  # beside this script

MAX_COMMAND_BYTES = 8 * 1024 * 1024


def main(sockets: str, host: str, arguments: list[str]) -> None:
    """Serve until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    address = Path(sockets) / host
    address.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen(128)
        if "-D" not in arguments:
            _into_the_background()
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_serve, args=(connection,), daemon=True).start()


def _into_the_background() -> None:
    if os.fork():
        os._exit(0)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)


def _serve(connection: socket.socket) -> None:
    with connection:
        size, streams, _, _ = socket.recv_fds(connection, 4, 3)
        command = _receive(connection, min(int.from_bytes(size, "big"), MAX_COMMAND_BYTES)).decode()
        shell = ["/bin/sh", "-c", command] if command else ["/bin/sh"]
        process = subprocess.Popen(
            shell,
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            env=login_environment(),
            start_new_session=True,
        )
        for stream in streams:
            os.close(stream)
        status = process.wait()
        try:
            is_status = 0 <= status < FAILED  # a signal that ended the command is negative
            connection.sendall(bytes([status if is_status else FAILED]))
        except BrokenPipeError:  # the client was killed; without a terminal the command continues, as with real sshd
            return


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (part := connection.recv(size - len(data))):
        data += part
    return data


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
