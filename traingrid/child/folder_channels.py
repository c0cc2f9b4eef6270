"""Folder channels: finds the channels of an attempt's data folder, before its training job is created.

The intake cannot read data, and it checks thousands of lines within seconds. A child may list the data buckets of its
job's Region, and looks after the data is copied.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from traingrid.aws.error_codes import PERMISSION_CODES
from traingrid.aws.s3 import PatientStorage, Storage
from traingrid.errors import UsageError
from traingrid.job.data_layout import Layout, agreed_layout, check_mounts, check_streams, folder_of, streams_folder
from traingrid.job.failures import DATA, PERMISSION
from traingrid.job.state import JobState

if TYPE_CHECKING:
    from traingrid.child.attempt import Attempt
    from traingrid.grid.deployment import Deployment
    from traingrid.job.job import Inputs

logger = logging.getLogger(__name__)
_NOT_LISTED = {*PERMISSION_CODES, "NoSuchBucket"}


def with_folder_channels(attempt: Attempt, deployment: Deployment) -> Attempt | None:
    """Return the attempt with the channels that its data folder has; None if it ended, because they are not certain.

    If the child may not list the folder, of a bucket in another account, the channels are the folders with their names.
    """
    job, region = attempt.job, attempt.job.region
    storage = PatientStorage(partial(Storage, region, role=deployment.acting_role_in(region)), region)
    try:
        inputs = _inputs(attempt, storage) if job.by_layout else job.inputs
        _check_streams(attempt, storage, inputs)
    except UsageError as error:
        return _record_failure(attempt, DATA.name, str(error))
    except ClientError as error:
        code, text = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
        reason = f"The channels of {attempt.name} cannot be recorded: S3 in {region}: {code}: {text}."
        return _record_failure(attempt, (PERMISSION if code in PERMISSION_CODES else DATA).name, reason)
    return replace(attempt, job=job.model_copy(update={"inputs": inputs}))


def _inputs(attempt: Attempt, storage: Storage) -> Inputs:
    """Return the channels that the folder of an attempt has."""
    inputs, layout = attempt.job.inputs, _layout(attempt, storage)
    check_mounts(layout, inputs, (attempt.backend_name,))
    message = f"{folder_of(inputs)}/: {layout}"
    logger.info(message, extra={"event": "channels", "channels": dict(layout.parts)})
    return layout.inputs(inputs)


def _check_streams(attempt: Attempt, storage: Storage, inputs: Inputs) -> None:
    """Raise LayoutError if training would stream files for validation. A folder that may not be listed is not checked.

    Once the training job may exist, a folder that has changed since does not matter.
    """
    if not streams_folder(attempt.job, inputs) or attempt.item().requested_at:
        return
    try:
        check_streams(storage, attempt.job, inputs)
    except ClientError as error:
        if error.response["Error"]["Code"] not in _NOT_LISTED:
            raise
        logger.warning("The streamed data is not checked: %s", error, extra={"event": "stream_not_listed"})


def _layout(attempt: Attempt, storage: Storage) -> Layout:
    try:
        return agreed_layout(storage, attempt.job, attempt.name, storage)
    except ClientError as error:
        if error.operation_name != "ListObjectsV2" or error.response["Error"]["Code"] not in _NOT_LISTED:
            raise
        message = f"{folder_of(attempt.job.inputs)}/ cannot be listed, so its channels are taken for folders: {error}"
        logger.warning(message, extra={"event": "channels_not_listed"})
        return agreed_layout(storage, attempt.job, attempt.name, None)


def _record_failure(attempt: Attempt, failure: str, reason: str) -> Attempt | None:
    """Record the failure, and return None; for a cancelled job, return the attempt, of which a launch records that."""
    if attempt.is_cancelled():
        return attempt
    attempt.record({"state": JobState.FAILED, "reason": reason, "failure": failure, "phase": ""})
    return None
