"""Inside: a script for standard input of the orchestrator's image, which prints facts about its container as JSON."""

import json
import os
import socket
import ssl
import stat
import sys
import threading
from pathlib import Path

NOT_THE_IMAGE = ("proc", "sys", "dev")
OF_THE_RUNTIME = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/mtab", "/run/.containerenv")
ADDRESS = "192.0.2.7"  # from a block for documentation (RFC 5737)


def files() -> list[Path]:
    found = []
    for place, folders, names in os.walk("/"):
        if place == "/":
            folders[:] = [name for name in folders if name not in NOT_THE_IMAGE]
        found += [Path(place, name) for name in names]
    return [path for path in found if not path.is_symlink() and path.as_posix() not in OF_THE_RUNTIME]


def is_program(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o111) and ".so" not in path.name


def is_risky(path: Path) -> bool:
    """Return True if a file is not owned by root, runs as another user, or is writable by its group or others."""
    seen = path.stat()
    return bool(seen.st_uid or seen.st_mode & (stat.S_ISUID | stat.S_ISGID | stat.S_IWGRP | stat.S_IWOTH))


def is_uncompiled(path: Path) -> bool:
    tag = sys.implementation.cache_tag
    return path.suffix == ".py" and not (path.parent / "__pycache__" / f"{path.stem}.{tag}.pyc").exists()


def writes() -> str:
    for folder in ("/", "/app", "/tmp", "/var", "/home", "/root"):
        try:
            Path(folder, "x").write_text("x")
        except OSError:
            continue
        return folder
    return ""


def answer_one_question(server: socket.socket) -> None:
    """Reply to a query for an address as a name server does (RFC 1035, section 4.1)."""
    asked, client = server.recvfrom(512)
    question = asked[12 : asked.index(b"\0", 12) + 5]
    header = asked[:2] + b"\x81\x80" + b"\0\1\0\1\0\0\0\0"
    server.sendto(header + question + b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton(ADDRESS), client)


def address_of(name: str) -> str:
    return str(socket.getaddrinfo(name, 443, family=socket.AF_INET, type=socket.SOCK_STREAM)[0][4][0])


def asked_of_a_name_server() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 53))
        threading.Thread(target=answer_one_question, args=(server,), daemon=True).start()
        return address_of("sagemaker.example")


def authorities() -> int:
    import botocore.httpsession  # noqa: PLC0415 - the facts about the image do not depend on it

    context = ssl.create_default_context(cafile=botocore.httpsession.get_cert_path(True))
    return len(context.get_ca_certs())


def main() -> None:
    everything = files()
    print(
        json.dumps(
            {
                "user": [os.getuid(), os.getgid()],
                "folder": str(Path.cwd()),
                "programs": [str(path) for path in everything if is_program(path)],
                "risky": [str(path) for path in everything if is_risky(path)],
                "uncompiled": [str(path) for path in everything if is_uncompiled(path)],
                "configuration": sorted(str(path) for path in everything if path.is_relative_to("/etc")),
                "foreign": [str(path) for path in everything if path.parts[1] not in ("app", "etc", "usr", "var")],
                "packages": [path.name for path in everything if path.parent.name == "status.d"],
                "libraries": [path.name for path in everything if ".so." in path.name],
                "writes": writes(),
                "encoding": sys.stdout.encoding,
                "hosts": address_of("aws.example"),
                "name server": asked_of_a_name_server(),
                "authorities": authorities(),
            }
        )
    )


main()
