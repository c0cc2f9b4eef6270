"""Lambda function: registers the dataset of an uploaded marker, or writes a report of its error."""

from __future__ import annotations

import logging
import os
from functools import cache
from typing import Any

from traingrid.aws.s3 import Storage
from traingrid.datasets.marker import MarkerObject
from traingrid.datasets.registration import Registration
from traingrid.grid.deployment import Deployment
from traingrid.ledger.datasets import Datasets

logger = logging.getLogger(__name__)


@cache
def _registration() -> Registration:
    deployment = Deployment.from_environment(os.environ, "register")
    return Registration(deployment=deployment, home=Storage(), datasets=Datasets(deployment.table))


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Handle S3's "Object Created" event of a marker.

    If it raises an exception, Lambda retries the event, and finally sends it to the dead-letter queue.
    """
    registration = _registration()
    marker = MarkerObject.from_event(event, registration.deployment)
    if marker is None:
        return {"state": "ignored", "key": event["detail"]["object"]["key"]}
    report = registration.register(marker)
    logger.info("%s: %s", marker.uri, report["state"], extra={"event": "dataset", **report})
    return report
