"""Intake reports: reads the report of the intake on a manifest, whose state implies its other members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traingrid.strict_json import check_members, json_object, member
from traingrid.submission.intake_failure import FAILED, RETRYING

if TYPE_CHECKING:
    from traingrid.aws.s3_uri import S3Uri

_FAILURE = {"submission": str, "jobs": int, "submitted_jobs": int, "reason": str, "next_step": str, "tries": int}
_MEMBERS: dict[str, dict[str, type[Any]]] = {
    "submitted": {"submission": str, "jobs": int, "batch_job": str},
    "rejected": {"errors_in_total": int, "errors": list},
    RETRYING: _FAILURE,
    FAILED: _FAILURE,
}
_ERROR = {"line": int, "field": str, "value": str, "reason": str, "next_step": str}


def intake_report(content: bytes, uri: S3Uri) -> dict[str, Any]:
    """Return a report with all members that its state implies.

    A state that this version does not know implies none.

    Raises:
        JsonError: It is not a report.
    """
    report = json_object(content, uri)
    check_members(report, {"version": str, "state": str}, uri)
    check_members(report, _MEMBERS.get(report["state"], {}), uri)
    if report["state"] == "rejected":
        for error in report["errors"]:
            check_members(member({"errors[]": error}, "errors[]", dict, uri), _ERROR, uri)
    return report
