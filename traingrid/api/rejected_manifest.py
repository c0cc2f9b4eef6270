"""Rejected manifests: finds all errors of one by the id that its submission would have had."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from traingrid.api.intake_report import intake_report
from traingrid.api.submit import rejected
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import TraingridError
from traingrid.ledger.damage import readable, warn
from traingrid.manifest.errors import MAX_REPORTED_ERRORS
from traingrid.submission.files import report_uri, submission_id

if TYPE_CHECKING:
    from traingrid.api.control_plane import ControlPlane
    from traingrid.ledger.rejections import Rejection


def would_be_id(rejection: Rejection) -> str:
    """Return the id that the submission of a rejected manifest would have had."""
    return submission_id(rejection.manifest, rejection.version)


def raise_if_rejected(plane: ControlPlane, submission: str) -> None:
    """Raise the errors of the manifest of an id, if it was rejected in the last week.

    Raises:
        TraingridError: It was; the text lists its errors, at most as many as its report has.
    """
    for rejection in readable(plane.ledger.rejections(), warn):
        if rejection.batch_job or would_be_id(rejection) != submission:
            continue
        if not rejection.errors:
            raise TraingridError(rejection.sentence)
        uri = report_uri(S3Uri.parse(rejection.manifest), rejection.version)
        report = intake_report(plane.storage.read(uri), uri)
        raise rejected(Path(rejection.manifest.rpartition("/")[2]), report, most=MAX_REPORTED_ERRORS)
