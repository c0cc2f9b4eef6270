"""Missing model: records that a completed training job has written no model, which its description does not show.

SageMaker returns an artifact's URI for each completed training job, and uploads nothing if the program wrote nothing to
its model folder (https://github.com/aws/sagemaker-python-sdk/issues/1895).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.job.state import JobState

if TYPE_CHECKING:
    from traingrid.grid.deployment import Deployment
    from traingrid.ledger.items import JobItem
    from traingrid.ledger.ledger import Ledger

logger = logging.getLogger(__name__)


def record_missing_model(item: JobItem, deployment: Deployment, ledger: Ledger) -> None:
    """Look for the model of a completed job, and record that there is none.

    Of a bucket that the child may not list, or that does not answer, nothing is recorded.
    """
    if item.state != JobState.COMPLETED or not item.model:
        return
    artifact = S3Uri.parse(item.model)
    try:
        keys = [key for key, _ in Storage(item.region, role=deployment.acting_role_in(item.region)).sizes(artifact)]
    except (BotoCoreError, ClientError) as error:
        logger.debug("It is not known whether %s exists: %s", artifact, error)
        return
    if artifact.key not in keys:
        ledger.record_missing_model(item.key)
        message = f"{item.training_job} wrote nothing to its model folder, so there is no model"
        logger.warning(message, extra={"event": "no_model"})
