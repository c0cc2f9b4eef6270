"""A localcloud as the place of a run: started for the run, on loopback, with shortened waiting times."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3

from conformance.aws import Place
from localcloud.credentials.environments import user_environment
from localcloud.ecr import process_images
from localcloud.faults.plan import FaultPlan, SpotCapacity
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

REGIONS = ("us-east-1", "eu-west-1")
PACE = 0.05
"""Factor for waiting times: a minute of AWS takes three seconds."""
_one_plan = threading.Lock()  # claims are checked concurrently, and each fault plan replaces the previous one


@contextmanager
def local_place(folder: Path) -> Iterator[Place]:
    """Start a localcloud for the duration of the block, and yield it as a place.

    Args:
        folder: Folder for the localcloud's files.
    """
    aws = Settings()
    settings = Settings(
        data_dir=folder,
        batch_stop_grace_seconds=aws.batch_stop_grace_seconds * PACE,
        training_stop_grace_seconds=aws.training_stop_grace_seconds * PACE,
        lambda_retry_delays_seconds=tuple(seconds * PACE for seconds in aws.lambda_retry_delays_seconds),
    )
    with LocalCloud(settings) as cloud:
        keys = user_environment(cloud.endpoint_url)
        session = boto3.Session(
            aws_access_key_id=keys["AWS_ACCESS_KEY_ID"], aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"]
        )
        yield Place(
            account=settings.account,
            regions=REGIONS,
            session=session,
            endpoint=cloud.endpoint_url,
            copy_image=_this_python,
            pace=PACE,
            poll_seconds=0.1,
            patience_seconds=90.0,
            settle_seconds=0.0,
            without_spot_capacity=partial(_without_spot_capacity, cloud),
        )


@contextmanager
def _without_spot_capacity(cloud: LocalCloud, region: str) -> Iterator[None]:
    with _one_plan:
        cloud.faults.set(FaultPlan(spot=(SpotCapacity(region=region, trace=((0.0, False),)),)))
        try:
            yield
        finally:
            cloud.faults.set(FaultPlan())


def _this_python(ecr: Any, repository: str, tag: str) -> None:
    """Push an image that contains this machine's Python; a container in localcloud is a process."""
    folder = str(Path(sys.executable).parent)
    variables = {"PATH": f"{folder}:/usr/bin:/bin", "PYTHONUNBUFFERED": "1"}
    process_images.push(ecr, repository, tag, process_images.ProcessImage(command=(), environment=variables))
