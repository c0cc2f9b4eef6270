"""TensorBoard: writes rank 0's events on the host, and copies them to S3 so that they can be viewed during training.

`tensorboard --logdir s3://...` reads them if its TensorFlow supports S3. Otherwise, download them with `aws s3 sync`.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import tensorflow as tf
from boto3.exceptions import Boto3Error
from botocore.config import Config as ClientConfig
from botocore.exceptions import BotoCoreError, ClientError

ENVIRONMENT = "TRAINGRID_TENSORBOARD"
# The training waits for a copy to S3, so a missing network connection must fail quickly.
_CLIENT = ClientConfig(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 3})


class TensorBoard:
    """Writes scalars, and copies the event files to S3. Only rank 0 uses it.

    Args:
        folder: The folder of the events.
        s3_uri: The destination `s3://bucket/prefix/`. If empty, the environment variable TRAINGRID_TENSORBOARD applies;
            if that is empty, too, events stay on the host.
        client: A boto3 client for S3, created when it is first needed by default (it uses AWS_ENDPOINT_URL).
    """

    def __init__(self, folder: str | Path, s3_uri: str = "", *, client: Any = None) -> None:
        self._folder = Path(folder)
        self._uri = s3_uri or os.environ.get(ENVIRONMENT, "")
        self._client = client
        self._events: Any = None
        self._copied: dict[Path, int] = {}
        self._warned: set[str] = set()

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Write scalars with the number of a step or epoch. A failure is printed once, and the training continues."""
        try:
            if self._events is None:
                self._events = tf.summary.create_file_writer(str(self._folder))
            with self._events.as_default():
                for name, value in values.items():
                    tf.summary.scalar(name, value, step=step)
            self._events.flush()
        except tf.errors.OpError as error:
            what = f"TensorBoard's events cannot be written to {self._folder}"
            self._warn_once(what, error, "Training continues without them.")

    def sync(self) -> None:
        """Copy new data to S3. A failure is printed once, and the training continues."""
        if not self._uri:
            return
        try:
            self._copy()
        except (BotoCoreError, ClientError, Boto3Error, OSError, ValueError) as error:
            what = f"TensorBoard's events cannot be copied to {self._uri}"
            then = f"Training continues, the events stay in {self._folder}, and copying is retried after each epoch."
            self._warn_once(what, error, then)

    def _copy(self) -> None:
        address = urlsplit(self._uri)
        if address.scheme != "s3" or not address.netloc:
            raise ValueError("the address must have the form s3://bucket/prefix/")
        if self._client is None:
            self._client = boto3.client("s3", config=_CLIENT)
        prefix = address.path.strip("/")
        for path in sorted(self._folder.rglob("*")):
            if not path.is_file() or self._copied.get(path) == (size := path.stat().st_size):
                continue
            key = "/".join(part for part in (prefix, path.relative_to(self._folder).as_posix()) if part)
            self._client.upload_file(str(path), address.netloc, key)
            self._copied[path] = size

    def _warn_once(self, what: str, error: Exception, then: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            print(f"{what}: {' '.join(str(error).split())[:500]}. {then}")
