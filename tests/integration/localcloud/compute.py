"""Roles, images and waiting for the tests of Batch and of training jobs."""

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from localcloud.ecr import process_images

ACCOUNT = "123456789012"
EXECUTION_ROLE = f"arn:aws:iam::{ACCOUNT}:role/execution"
"""A role with which Fargate starts containers, as each of its job definitions has one."""


def role(iam: Any, name: str, service: str, *statements: Mapping[str, Any]) -> str:
    """Create a role that a service may assume, and return its ARN; without statements, it may do everything."""
    trust = document({"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"})
    with contextlib.suppress(iam.exceptions.EntityAlreadyExistsException):
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)
    everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    iam.put_role_policy(RoleName=name, PolicyName="may", PolicyDocument=document(*statements or (everything,)))
    return str(iam.get_role(RoleName=name)["Role"]["Arn"])


def document(*statements: Mapping[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def image(ecr: Any, repository: str, code: str, *arguments: str) -> str:
    """Push an image that runs a line of Python, and return its URI."""
    with contextlib.suppress(ecr.exceptions.RepositoryAlreadyExistsException):
        ecr.create_repository(repositoryName=repository)
    with contextlib.suppress(ecr.exceptions.ImageAlreadyExistsException, ecr.exceptions.ImageTagAlreadyExistsException):
        process_images.push(
            ecr, repository, "v1", process_images.ProcessImage(command=(sys.executable, "-c", code, *arguments))
        )
    return f"{ACCOUNT}.dkr.ecr.{ecr.meta.region_name}.amazonaws.com/{repository}:v1"


T = TypeVar("T")
LIMIT_SECONDS = 180.0
"""The limit of a wait. Only a failing test waits so long; a busy machine needs much more than a quiet one."""


def wait_until(question: Callable[[], T]) -> T:
    """Wait until the result of a function is true, and return it."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while not (answer := question()):
        assert time.monotonic() < deadline, f"still {answer!r} after {LIMIT_SECONDS:.0f} s"
        time.sleep(0.02)
    return answer


def runs(pid: int) -> bool:
    """Return True if a process runs; a zombie counts as ended."""
    try:
        os.kill(pid, 0)
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
