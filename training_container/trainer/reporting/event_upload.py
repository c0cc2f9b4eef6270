"""Event upload: copies TensorBoard's files from the host to S3 during training. Does not import TensorFlow."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from training_container.trainer.checkpoints.files import is_foreign

ENVIRONMENT = "TRAINGRID_TENSORBOARD"


class EventUpload:
    """Copies new and changed files of a folder to S3.

    Args:
        folder: The folder of TensorBoard's files.
        s3_uri: The destination `s3://bucket/prefix/`. If empty, the environment variable TRAINGRID_TENSORBOARD applies;
            if that is empty, too, files stay on the host.
        client: A boto3 client for S3, created when it is first needed by default (it uses AWS_ENDPOINT_URL).
    """

    def __init__(self, folder: Path, s3_uri: str = "", *, client: Any = None) -> None:
        self._folder = folder
        self.uri = s3_uri or os.environ.get(ENVIRONMENT, "")
        self._client = client
        self._copied_sizes: dict[Path, int] = {}
        self._printed_warnings: set[str] = set()

    def sync(self) -> None:
        """Copy new data to S3. A failure is printed once, and the training continues."""
        if not self.uri:
            return
        from boto3.exceptions import Boto3Error  # noqa: PLC0415  # the import takes half a second, for scripts too
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415  # as above

        try:
            self._copy()
        except (BotoCoreError, ClientError, Boto3Error, OSError, ValueError) as error:
            problem = f"TensorBoard's events cannot be copied to {self.uri}"
            consequence = (
                f"Training continues, the events stay in {self._folder}, and copying is retried after each epoch."
            )
            self.warn_once(problem, error, consequence)

    def warn_once(self, problem: str, error: Exception, consequence: str) -> None:
        """Print a failure, unless the same has been printed before."""
        if problem not in self._printed_warnings:
            self._printed_warnings.add(problem)
            print(f"{problem}: {' '.join(str(error).split())[:500]}. {consequence}")

    def _copy(self) -> None:
        address = urlsplit(self.uri)
        if address.scheme != "s3" or not address.netloc:
            raise ValueError("the address must have the form s3://bucket/prefix/")
        if self._client is None:
            self._client = _client()
        prefix = address.path.strip("/")
        for path in sorted(self._folder.rglob("*")):
            if is_foreign(path.name) or not path.is_file():
                continue
            size = path.stat().st_size
            if self._copied_sizes.get(path) == size:
                continue
            key = "/".join(part for part in (prefix, path.relative_to(self._folder).as_posix()) if part)
            self._client.upload_file(str(path), address.netloc, key)
            self._copied_sizes[path] = size


def _client() -> Any:
    import boto3  # noqa: PLC0415  # as in sync
    from botocore.config import Config  # noqa: PLC0415  # as in sync

    # The training waits for a copy to S3, so a missing network connection must fail quickly.
    settings = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 3})
    return boto3.client("s3", config=settings)
