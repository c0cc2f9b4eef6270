"""Lambda function: refuses a deployment that would remove a Region, or the grid, while jobs there are open."""

from __future__ import annotations

import os
from typing import Any

from traingrid.deploy.region_guard import RegionGuard
from traingrid.grid.deployment import Deployment


def handler(event: dict[str, Any], context: Any) -> None:  # noqa: ARG001 - Lambda passes it
    """Handle a CloudFormation request."""
    RegionGuard.of(Deployment.from_environment(os.environ)).answer(event)
