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
from traingrid.job.data_layout import Layout, agreed_layout, check_mounts, folder_of
from traingrid.job.failures import DATA, PERMISSION
from traingrid.job.state import JobState

if TYPE_CHECKING:
    from traingrid.child.attempt import Attempt
    from traingrid.grid.deployment import Deployment

logger = logging.getLogger(__name__)
_NOT_LISTED = {*PERMISSION_CODES, "NoSuchBucket"}


def with_folder_channels(attempt: Attempt, deployment: Deployment) -> Attempt | None:
    """Return the attempt with the channels that its data folder has; None if it ended, because they are not certain.

    If the child may not list the folder, of a bucket in another account, the channels are the folders with their names.
    """
    job, region = attempt.job, attempt.job.region
    storage = PatientStorage(partial(Storage, region, role=deployment.acting_role_in(region)), region)
    try:
        layout = _layout(attempt, storage)
        check_mounts(layout, job.inputs, (attempt.backend_name,))
    except UsageError as error:
        return _record_failure(attempt, DATA.name, str(error))
    except ClientError as error:
        code, text = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
        reason = f"The channels of {attempt.name} cannot be recorded: S3 in {region}: {code}: {text}."
        return _record_failure(attempt, (PERMISSION if code in PERMISSION_CODES else DATA).name, reason)
    message = f"{folder_of(job.inputs)}/: {layout}"
    logger.info(message, extra={"event": "channels", "channels": dict(layout.parts)})
    return replace(attempt, job=job.model_copy(update={"inputs": layout.inputs(job.inputs)}))


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
