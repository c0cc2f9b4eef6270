"""Results: copies checkpoints to S3 while the training container runs, and uploads model and output after it.

The kubelet sends SIGTERM to a sidecar container after the main containers of its pod have ended
(https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/), also if the pod is deleted.
"""

import json
import logging
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from traingrid.aws.s3_uri import S3Uri
from traingrid.pod.archive import upload_folder
from traingrid.pod.checkpoint_upload import CheckpointUpload
from traingrid.pod.failure import MAX_CHARACTERS, explained, is_denied, one_line, upload_error
from traingrid.pod.host import Host
from traingrid.pod.objects import split_uri
from traingrid.pod.prepare import checkpoint_record
from traingrid.transfers.retries import PATIENCE_SECONDS, patiently

logger = logging.getLogger(__name__)

CHECKPOINT_SECONDS = 15.0
"""The interval of the copies of checkpoints; AWS documents no interval."""
RETRY_SECONDS = 5.0
MESSAGE_BYTES = 4096
"""Maximum length of a termination message
(https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/)."""
UNFINISHED = "ClientError: Artifact upload failed:The pod ended before all results were uploaded to S3."
"""The error of a container that was killed while it uploaded, for example because its grace period was over."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """The termination message of the container.

    Attributes:
        artifact: The URI of the model's archive; empty if there is none.
        failure: The text of output/failure; empty if there is none.
        error: The reason why results are missing in S3; empty if all were uploaded.
    """

    artifact: str = ""
    failure: str = ""
    error: str = ""

    def encoded(self) -> str:
        """Return the message as JSON that is short enough for Kubernetes."""
        fields, length = asdict(self), MAX_CHARACTERS
        while True:
            cut = {**fields, "failure": self.failure[:length], "error": self.error[:length]}
            text = json.dumps(cut, ensure_ascii=False)
            if len(text.encode(errors="replace")) <= MESSAGE_BYTES:
                return text
            length = length * 3 // 4


def collect(host: Host, s3: Any, training_ended: Event, termination_log: Path) -> int:
    """Copy checkpoints until the training has ended, then upload all results, and return the exit code.

    A training job that failed has a model and output, too, if it wrote them: "SageMaker Training exports model/output
    artifacts even when the training job fails" (https://github.com/aws/sagemaker-python-sdk/pull/746).

    Args:
        s3: The client, which several threads may share.
        training_ended: Set by SIGTERM.
    """
    copy = _checkpoint_copy(host, s3)
    saved = f"; checkpoints of {copy.folder} are copied to {copy.target}" if copy else ""
    logger.info("Host %s waits for the end of the training%s", host.name, saved)
    while not training_ended.wait(CHECKPOINT_SECONDS):
        if copy:
            copy.copy_changes()
    failure = _failure_text(host)
    logger.info("The training has ended%s", f": {failure}" if failure else "")
    write_message(termination_log, Ending(failure=failure, error=UNFINISHED).encoded())
    deadline = time.monotonic() + PATIENCE_SECONDS
    if copy:
        copy.copy_changes(final=True)  # first, because a host of spot instances has little time
    artifact, model_error = _upload(host, s3, "model", "model", deadline)
    output, output_error = _upload(host, s3, "output/data", "output", deadline)
    checkpoint_error = _copy_completely(copy, host, deadline) if copy else ""
    error = model_error or output_error or checkpoint_error
    write_message(termination_log, Ending(artifact=artifact, failure=failure, error=error).encoded())
    logger.info("Model: %s; output: %s", artifact or "none", output or "none")
    return 1 if error else 0


def archive_name(name: str, number: int) -> str:
    """Return the name of a host's archive: those of the main host have SageMaker's names."""
    return f"{name}-{number}.tar.gz" if number else f"{name}.tar.gz"


def _checkpoint_copy(host: Host, s3: Any) -> CheckpointUpload | None:
    if not host.checkpoints:
        return None
    uri, folder = host.checkpoints
    record = checkpoint_record(host.base)
    record.load()
    return CheckpointUpload(s3=s3, folder=folder, target=split_uri(uri), record=record, is_main=host.is_main)


def _copy_completely(copy: CheckpointUpload, host: Host, deadline: float) -> str:
    """Copy the checkpoints that are not in S3 yet, and return the error of those that cannot be copied."""
    while error := copy.copy_changes(final=True):
        # A missing permission, or a file that cannot be read or has an impossible name, does not change.
        if time.monotonic() > deadline or is_denied(error) or isinstance(error, OSError | ValueError):
            return _text(f"checkpoints to {copy.target}", error, host)
        time.sleep(RETRY_SECONDS)
    return ""


def _upload(host: Host, s3: Any, folder: str, name: str, deadline: float) -> tuple[str, str]:
    """Upload the archive of a folder; return its URI, or empty, and the error, or empty."""
    output = host.request["OutputDataConfig"]
    prefix = split_uri(output["S3OutputPath"])
    parts = [prefix.key.rstrip("/"), host.request["TrainingJobName"], "output", archive_name(name, host.number)]
    target = S3Uri(prefix.bucket, "/".join(part for part in parts if part))
    key_id = output.get("KmsKeyId", "")
    started = time.monotonic()
    try:
        upload = partial(upload_folder, s3, host.base / folder, target, key_id)
        if not patiently(upload, deadline - time.monotonic()):
            return "", ""
    except Exception as error:  # noqa: BLE001 - the other results are uploaded nevertheless
        return "", _text(f"{host.base / folder} to {target}", error, host)
    logger.info("Uploaded %s in %.1f s", target, time.monotonic() - started)
    return str(target), ""


def _text(content: str, error: Exception, host: Host) -> str:
    text = one_line(upload_error(f"Unable to upload {content}: {explained(error, host.request)}").what)
    logger.error(text)
    return text


def _failure_text(host: Host) -> str:
    """Return the text of output/failure, of which DescribeTrainingJob shows the first 1,024 characters.

    https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-output.html
    """
    try:
        with (host.base / "output" / "failure").open(errors="replace") as file:
            return file.read(MAX_CHARACTERS)
    except OSError:
        return ""


def write_message(termination_log: Path, message: str) -> None:
    """Write the termination message. The file is mounted into the container, so it cannot be replaced."""
    try:
        termination_log.write_text(message, errors="replace")
    except OSError as error:
        logger.error("The termination message cannot be written: %s. It is: %s", error, message)
