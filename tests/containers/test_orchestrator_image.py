"""The orchestrator's image: its content, and its function in a read-only container."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.containers.children import CONFINED
from tests.containers.engine import PODMAN, REPOSITORY, podman
from traingrid.job.failures import LINE_IS_WRONG

MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def inside(orchestrator: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The output of tests/containers/inside.py in a container like Fargate's, which is also its own name server."""
    name_server = tmp_path_factory.mktemp("etc") / "resolv.conf"
    name_server.write_text("nameserver 127.0.0.1\n")
    run = [PODMAN, "run", "--rm", "--interactive", "--network", "none", *CONFINED]
    run += ["--volume", f"{name_server}:/etc/resolv.conf:ro", "--sysctl", "net.ipv4.ip_unprivileged_port_start=0"]
    run += ["--add-host", "aws.example:192.0.2.1", "--entrypoint", "python3", orchestrator, "-"]
    program = Path(__file__).with_name("inside.py").read_text()
    done = subprocess.run(run, input=program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_public_base_is_named_by_version_and_digest() -> None:
    """These tests use another base, because they access no registry."""
    pinned = r"^ARG BASE=public\.ecr\.aws/\S+/python:3\.11\.\d+-slim-bookworm@sha256:[0-9a-f]{64}$"
    assert re.search(pinned, (REPOSITORY / "batch_job/Dockerfile").read_text(), re.M)


def test_it_is_small(orchestrator: str) -> None:
    """Fargate does not cache images, so each child pulls it. The limit is 120 MB unpacked, about twice its size."""
    assert int(podman("image", "inspect", "--format", "{{.Size}}", orchestrator)) <= 80 * MEGABYTE


def test_it_runs_as_an_ordinary_user_and_can_write_nowhere(inside: dict[str, Any]) -> None:
    assert inside["user"] == [65532, 65532]
    assert inside["folder"] == "/app"
    assert inside["writes"] == ""
    assert inside["risky"] == []


def test_it_contains_no_program_except_python(inside: dict[str, Any]) -> None:
    """No shell, package manager or compiler, not even pip."""
    (python,) = inside["programs"]
    assert Path(python).name == "python3.11"


def test_its_modules_are_compiled(inside: dict[str, Any]) -> None:
    assert inside["uncompiled"] == []


def test_it_resolves_names_and_has_certificates(inside: dict[str, Any]) -> None:
    assert inside["hosts"] == "192.0.2.1"
    assert inside["name server"] == "192.0.2.7"
    assert inside["authorities"] > 100
    assert inside["encoding"] == "utf-8"


def test_scanners_find_the_packages_of_its_libraries(inside: dict[str, Any]) -> None:
    owners = {"libc": "libc6", "libssl": "libssl3", "libcrypto": "libssl3", "libz": "zlib1g", "libgcc_s": "libgcc-s1"}
    present = {library.partition(".so")[0] for library in inside["libraries"]}
    assert present >= set(owners)
    assert set(inside["packages"]) >= set(owners.values())
    assert "/etc/os-release" in inside["configuration"]


def test_it_contains_nothing_of_the_build_machine(inside: dict[str, Any]) -> None:
    assert inside["foreign"] == []
    plain = {"group", "ld.so.cache", "ld.so.conf", "os-release", "passwd"}
    found = {path for path in inside["configuration"] if not path.startswith("/etc/ld.so.conf.d/")}
    assert found == {f"/etc/{name}" for name in plain}


def test_a_child_without_settings_reports_the_missing_ones(orchestrator: str) -> None:
    run = [PODMAN, "run", "--rm", "--network", "none", *CONFINED, orchestrator]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == LINE_IS_WRONG
    assert "S3_ARRAY_FILE" in done.stderr
