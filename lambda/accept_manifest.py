"""Lambda function: submits an uploaded manifest, or writes a report of its errors."""

from __future__ import annotations

import logging
import os
import uuid
from functools import cache
from typing import Any

from traingrid.aws.batch import Batch
from traingrid.aws.s3 import Storage
from traingrid.grid.deployment import Deployment
from traingrid.ledger.ledger import Ledger
from traingrid.submission.intake import Intake, ManifestVersion

logger = logging.getLogger(__name__)


@cache
def _intake() -> Intake:
    deployment = Deployment.from_environment(os.environ)
    return Intake(deployment=deployment, storage=Storage(), ledger=Ledger(deployment.table), batch=Batch(deployment))


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Handle S3's "Object Created" event.

    If it raises an exception, Lambda retries the event, and finally sends it to the dead-letter queue.
    """
    source = ManifestVersion.from_event(event)
    if source is None:
        return {"state": "ignored", "key": event["detail"]["object"]["key"]}
    owner = f"{context.aws_request_id}/{uuid.uuid4().hex[:8]}"
    report = _intake().accept(source, owner, within=context.get_remaining_time_in_millis() / 1000)
    logger.info("%s: %s", source.uri, report["state"], extra={"event": "manifest", **report})
    return report
