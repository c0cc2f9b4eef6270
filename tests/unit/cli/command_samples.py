"""Samples of commands: their arguments, and the data that they get instead of that of AWS."""

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, TypeAlias

from traingrid.api.control_plane import ControlPlane

SUBMISSION = "0123abcd"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
BUCKET = "s3://traingrid-data-123456789012-us-east-1"
Replace: TypeAlias = Callable[..., None]


def returns(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


Sample: TypeAlias = tuple[Callable[[Replace], None], list[str]]
"""Replaces the data of a command, and its arguments."""


def replace_plane(replace: Replace, **more: Any) -> None:
    """Replace the control plane by one with some attributes."""
    plane = SimpleNamespace(submission_id=lambda text: text, deployment=SimpleNamespace(), **more)
    plane.deployment.manifest_bucket = "manifests"
    replace(ControlPlane, "of", returns(plane))
