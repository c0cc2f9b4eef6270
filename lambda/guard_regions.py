"""Lambda: refuse a deployment that would take away a Region, or the grid, while jobs have yet to end there."""

from __future__ import annotations

import os
from typing import Any

from traingrid.deployment import Deployment
from traingrid.region_guard import RegionGuard


def handler(event: dict[str, Any], context: Any) -> None:  # noqa: ARG001 - Lambda gives it
    """Take a request of CloudFormation."""
    RegionGuard.of(Deployment.from_environment(os.environ)).answer(event)
