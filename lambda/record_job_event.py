"""Lambda: a training job changed its state somewhere; write what SageMaker says of it into the ledger."""

from __future__ import annotations

import os
from dataclasses import asdict
from functools import cache
from typing import Any

from traingrid import names
from traingrid.backends.queued import watching
from traingrid.backends.sagemaker import SageMaker
from traingrid.deployment import Deployment
from traingrid.ledger import Ledger
from traingrid.log_lines import log_line
from traingrid.recording import record_seen


@cache
def _deployment() -> Deployment:
    return Deployment.from_environment(os.environ, "record")


@cache
def _ledger() -> Ledger:
    return Ledger(_deployment().table)


@cache
def _backend(region: str) -> SageMaker:
    """Kept from one event to the next: making its client takes longer than all that an event asks for."""
    return watching(_deployment(), region)


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Handle "SageMaker Training Job State Change" and "Batch Service Job State Change".

    The event only wakes us: it may be late or repeated. A service job has the name that its line's training job would
    have.
    """
    detail, region = event["detail"], event["region"]
    name = detail.get("TrainingJobName") or detail["jobName"]
    grid = _deployment().grid.name
    changed = record_seen(grid, _ledger(), _backend(region), name)
    job = names.parse_training_job(grid, name)
    facts = {"training_job": name, "region": region, "changed": changed}
    whose = asdict(job) if job else {}
    print(log_line(f"{name}: {'recorded' if changed else 'nothing new'}", event="recorded", **whose, **facts))
    return facts
