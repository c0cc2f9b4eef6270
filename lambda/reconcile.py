"""Lambda: every few minutes, close what nobody watches any more and stop what nobody wants."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from functools import cache
from typing import Any

from traingrid.deployment import Deployment
from traingrid.reach import UnreachedError
from traingrid.reconciling import GRACE_SECONDS, Reconciler


@cache
def _deployment() -> Deployment:
    return Deployment.from_environment(os.environ)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Sweep once. `grace_seconds` of the event says what is too young to be touched; the schedule leaves it out."""
    grace = float(event.get("grace_seconds", GRACE_SECONDS))
    within = context.get_remaining_time_in_millis() / 1000
    try:
        done = asdict(Reconciler.of(_deployment(), grace).sweep(within))
    except UnreachedError as error:
        print(json.dumps(asdict(error.done)))
        raise
    print(json.dumps(done))
    return done
