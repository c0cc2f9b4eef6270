"""TensorBoard: writes rank 0's events on the host, and copies them to S3 so that they can be viewed during training.

`tensorboard --logdir s3://...` reads them if its TensorFlow supports S3. Otherwise, download them with `aws s3 sync`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from training_container.trainer.reporting.event_upload import ENVIRONMENT, EventUpload

__all__ = ["ENVIRONMENT", "TensorBoard"]


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
        self._upload = EventUpload(self._folder, s3_uri, client=client)
        self._events: Any = None

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
            problem = f"TensorBoard's events cannot be written to {self._folder}"
            self._upload.warn_once(problem, error, "Training continues without them.")

    def sync(self) -> None:
        """Copy new data to S3. A failure is printed once, and the training continues."""
        self._upload.sync()
