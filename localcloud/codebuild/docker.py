"""Docker for builds: `docker login`, `docker buildx build`, `docker push`.

It builds no image, because no registry with a base image can be reached. It checks the errors that the sources of a
build can have: the Dockerfile must have the target, and all files that it copies must exist. The pushed image is a
process of this machine, with a digest of those sources. An installed package names the process of each Dockerfile: its
entry point of the group "localcloud.images" is a mapping from the Dockerfile's path to a ProcessImage.
"""

import argparse
import hashlib
import json
import os
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from localcloud.ecr import process_images
from localcloud.ecr.process_images import ImageUri, ProcessImage

_IMAGES = "localcloud.images"
_FROM = re.compile(r"^FROM\s+(?:--\S+\s+)*\S+(?:\s+AS\s+(?P<name>\S+))?\s*$", re.I | re.M)
_COPY = re.compile(r"^COPY\s+(?P<words>.+)$", re.I | re.M)


class BuildError(Exception):
    """The image cannot be built."""


def main(arguments: list[str]) -> int:
    """Run one command; return 1, docker's exit code, if it failed."""
    parser = argparse.ArgumentParser(prog="docker")
    commands = parser.add_subparsers(dest="command", required=True)
    login = commands.add_parser("login")
    login.add_argument("--username", required=True)
    login.add_argument("--password-stdin", action="store_true")
    login.add_argument("registry")
    commands.add_parser("push").add_argument("tag")
    build = commands.add_parser("buildx").add_subparsers(dest="subcommand", required=True).add_parser("build")
    for option in ("--platform", "--provenance", "--output", "--file", "--target", "--tag"):
        build.add_argument(option, default="")
    build.add_argument("--build-arg", action="append", default=[])
    build.add_argument("context")
    options = parser.parse_args(arguments)
    try:
        {"login": _login, "push": _push, "buildx": _build}[options.command](options)
    except BuildError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    return 0


def _login(options: argparse.Namespace) -> None:
    if not sys.stdin.read().strip():
        raise BuildError(f"no password for {options.registry}")
    _store(f"login {options.registry}").write_text("")


def _build(options: argparse.Namespace) -> None:
    context, dockerfile = Path(options.context), Path(options.file)
    if not dockerfile.is_file():
        raise BuildError(f"{dockerfile}: no such file")
    text = dockerfile.read_text().replace("\\\n", " ")
    targets = [match["name"] for match in _FROM.finditer(text) if match["name"]]
    if options.target and options.target not in targets:
        raise BuildError(f"target stage {options.target} could not be found; the stages are {', '.join(targets)}")
    for match in _COPY.finditer(text):
        words = shlex.split(match["words"])
        if any(word.startswith("--from") for word in words):
            continue
        for source in [word for word in words if not word.startswith("--")][:-1]:
            if not (context / source).exists():
                raise BuildError(f"{match[0]}: {source} is not in the build context")
    name = dockerfile.relative_to(context).as_posix()
    images = _images()
    if name not in images:
        raise BuildError(f"{name}: no process represents its image. Dockerfiles with a process: {', '.join(images)}.")
    _store(options.tag).write_text(json.dumps({"dockerfile": name, "source": f"{options.target} {_digest(context)}"}))


def _push(options: argparse.Namespace) -> None:
    uri = ImageUri.parse(options.tag)
    if not _store(f"login {options.tag.partition('/')[0]}").exists():
        raise BuildError("no basic auth credentials")
    if not _store(options.tag).exists():
        raise BuildError(f"An image does not exist locally with the tag: {options.tag}")
    built = json.loads(_store(options.tag).read_text())
    image = replace(_images()[built["dockerfile"]], source=built["source"])
    print(f"{uri.tag}: digest: {_push_image(uri, image)}")


def _push_image(uri: ImageUri, image: ProcessImage) -> str:
    """Push an image, and return its digest."""
    import boto3  # noqa: PLC0415  # a quarter of a second of imports that the other commands do not need
    from botocore.exceptions import ClientError  # noqa: PLC0415  # as above

    ecr: Any = boto3.client("ecr", region_name=uri.region)
    try:
        return process_images.push(ecr, uri.repository, uri.tag or "latest", image)
    except ClientError as error:
        raise BuildError(str(error)) from error


def _images() -> Mapping[str, ProcessImage]:
    """Return the process of each Dockerfile for which an installed package has one."""
    return {name: image for point in entry_points(group=_IMAGES) for name, image in point.load().items()}


def _digest(context: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in context.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(context)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _store(name: str) -> Path:
    """Return the file in which the build's host stores the state of an image or a registry."""
    folder = Path(os.environ["TMPDIR"]) / "docker"
    folder.mkdir(exist_ok=True)
    return folder / hashlib.sha256(name.encode()).hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
