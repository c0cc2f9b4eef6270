"""Lambda function: regularly closes lines without an active child, and stops training jobs that are not wanted."""

from __future__ import annotations

import logging
import os
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Any

from traingrid.aws.embedded_metrics import embedded_metrics
from traingrid.grid.deployment import Deployment
from traingrid.reconciler.reach import UnreachedError
from traingrid.reconciler.reconciler import GRACE_SECONDS, Reconciler

if TYPE_CHECKING:
    from traingrid.reconciler.pass_report import PassReport

logger = logging.getLogger(__name__)


@cache
def _deployment() -> Deployment:
    return Deployment.from_environment(os.environ, "sweep")


def handler(event: dict[str, Any] | None, context: Any) -> dict[str, Any]:
    """Run one pass.

    Args:
        event: `grace_seconds` is the age below which the pass leaves a job alone. The schedule omits it; a manual
            invocation may omit the whole event.
        context: Lambda's context, which provides the remaining time.
    """
    grace = float((event or {}).get("grace_seconds", GRACE_SECONDS))
    within = context.get_remaining_time_in_millis() / 1000
    try:
        report = Reconciler.of(_deployment(), grace).run_pass(within)
    except UnreachedError as error:
        _log(error.done)
        raise
    _log(report)
    return asdict(report)


def _log(done: PassReport) -> None:
    metrics = embedded_metrics(_deployment().grid.name, done.measured())
    logger.info(done.sentence(), extra={"event": "sweep", **asdict(done), **metrics})
