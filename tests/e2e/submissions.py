"""Submissions of manifests to a grid in a localcloud."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.api.submit import wait_for_report
from traingrid.aws.s3_uri import S3Uri
from traingrid.submission.status import SubmissionStatus
from verification import deployed_grid

DIGITS = Path(__file__).resolve().parents[2] / "build/digits"
REGIONS = ("us-east-1", "eu-west-1")
PATIENCE_SECONDS = 240


def submit(plane: ControlPlane, key: str, content: str) -> dict[str, Any]:
    """Upload a manifest with this key, and return the report of the intake."""
    uri = S3Uri(plane.deployment.manifest_bucket, f"{names.MANIFEST_PREFIX}{key}")
    version = plane.storage.write(uri, content.encode(), "text/csv")
    return wait_for_report(plane.storage, uri, version)


def until(reached: Callable[[], bool]) -> None:
    """Wait for a condition."""
    deployed_grid.until(reached, "the test continues", PATIENCE_SECONDS)


def ended(plane: ControlPlane, submission: str) -> SubmissionStatus:
    """Wait until all jobs of a submission have ended, and return their status."""
    until(lambda: plane.status(submission).ended)
    return plane.status(submission)


def table(*rows: dict[str, str]) -> str:
    """Return a manifest in the form CSV, with a header."""
    written = io.StringIO()
    writer = csv.DictWriter(written, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return written.getvalue()
