"""Lambda function: copies the state of a training job from SageMaker to the ledger after a state change event."""

from __future__ import annotations

import logging
import os
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Any

from traingrid import names
from traingrid.backends import describing
from traingrid.grid.deployment import Deployment
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.record_outcome import record_seen

if TYPE_CHECKING:
    from traingrid.job.observed import Describer

logger = logging.getLogger(__name__)


@cache
def _deployment() -> Deployment:
    return Deployment.from_environment(os.environ, "record")


@cache
def _ledger() -> Ledger:
    return Ledger(_deployment().table)


@cache
def _backend(region: str) -> Describer:
    """Return a Region's backend, cached between events: creating its client takes longer than handling an event."""
    return describing(_deployment(), region, "sagemaker")


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Handle "SageMaker Training Job State Change" and "Batch Service Job State Change".

    An event may be late or repeated, so the handler asks SageMaker for the current state. A service job has the same
    name as the training job of its line.
    """
    detail, region = event["detail"], event["region"]
    name = detail.get("TrainingJobName") or detail["jobName"]
    grid = _deployment().grid.name
    has_changed = record_seen(grid, _ledger(), _backend(region), name)
    job = names.parse_training_job(grid, name)
    facts = {"training_job": name, "region": region, "changed": has_changed}
    whose = asdict(job) if job else {}
    fields = {"event": "recorded", **whose, **facts}
    logger.info("%s: %s", name, "recorded" if has_changed else "nothing new", extra=fields)
    return facts
