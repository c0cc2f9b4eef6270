"""`python -m localcloud`: run a server in the foreground until SIGTERM or SIGINT."""

import argparse
import dataclasses
import signal
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from localcloud.server.local_cloud import LocalCloud
from localcloud.server.state_file import FolderInUseError, OpenFolderError, holder_of, read_state
from localcloud.settings import Settings


def main(arguments: list[str] | None = None) -> int:
    """Run the server until SIGTERM or SIGINT.

    Args:
        arguments: Command line without the program's name; every field of `Settings` is an option.

    Returns:
        Exit status: 0 after a clean stop, 1 if the port or the folder is in use, or others can read the folder.
    """
    settings = _settings(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        cloud = _start(settings)
    except FolderInUseError as error:
        print(f"localcloud cannot start: {error}. Choose another folder with --data-dir.")
        return 1
    except OpenFolderError as error:
        print(f"localcloud cannot start: {error}.")
        return 1
    except OSError as error:
        print(f"localcloud cannot listen on port {settings.port}: {error.strerror}. Choose another with --port.")
        return 1
    print(
        f"localcloud listens on {cloud.endpoint_url}; its keys are in {cloud.data_dir}/server.json; Ctrl-C stops it",
        flush=True,
    )
    stop.wait()
    cloud.stop()
    return 0


def _start(settings: Settings) -> LocalCloud:
    """Start a server; after a killed one, reuse its address and its secret, which open shells still have."""
    killed = read_state(settings.data_dir) if holder_of(settings.data_dir) is None else None
    if killed and not settings.port:
        before = dataclasses.replace(settings, port=urlsplit(killed.endpoint).port or 0)
        cloud = LocalCloud(before, killed.secret)
        try:
            cloud.start()
        except OSError as error:
            print(f"port {before.port} of the killed server is in use ({error.strerror}); using another port")
        else:
            return cloud
    cloud = LocalCloud(settings, killed.secret if killed else "")
    cloud.start()
    return cloud


def _settings(arguments: list[str] | None) -> Settings:
    parser = argparse.ArgumentParser(prog="python -m localcloud", description="AWS on this machine, for one account.")
    defaults = Settings()
    for field in dataclasses.fields(Settings):
        default = getattr(defaults, field.name)
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=_reader(default), default=default)
    return Settings(**vars(parser.parse_args(arguments)))


def _reader(default: object) -> Any:
    """Return a function that converts an option's text to the type of its default; a tuple is written 1,2,3."""
    if isinstance(default, Path):
        return Path
    if isinstance(default, tuple):
        return lambda text: tuple(float(part) for part in text.split(","))
    return type(default)


if __name__ == "__main__":
    sys.exit(main())
