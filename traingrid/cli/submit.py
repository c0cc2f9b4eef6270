"""`traingrid submit`: uploads a manifest and reports the result."""

from __future__ import annotations

import json
import logging
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from botocore.exceptions import BotoCoreError, ClientError

from traingrid import names
from traingrid.aws.outage import is_outage
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.console import announcing_a_wait, console
from traingrid.cli.deployed import find_deployment
from traingrid.cli.plan_table import plan_table
from traingrid.cli.source_folders import packed
from traingrid.errors import TraingridError, UsageError, interrupted
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.parse import MAX_BYTES, parse
from traingrid.manifest.plan import planned
from traingrid.manifest.rows import too_large
from traingrid.submission.files import submission_id
from traingrid.submission.intake import ANSWERED_WITHIN
from traingrid.submission.intake_failure import FAILED, RETRYING
from traingrid.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.cli.source_folders import PackedManifest
    from traingrid.grid.deployment import Deployment
    from traingrid.manifest.line import Line

logger = logging.getLogger(__name__)
_POLL_SECONDS = 0.5
_SHOWN_ERRORS = 20
# Another user may submit a manifest of the same name meanwhile, and its report replaces ours.
_REPORTS_LOOKED_AT = 10


@dataclass(frozen=True, kw_only=True)
class Uploaded:
    """A manifest that was uploaded; its report is not known yet.

    Attributes:
        uri: Its URI.
        version: Its version.
    """

    uri: S3Uri
    version: str

    @property
    def submission(self) -> str:
        """The id of the submission that the intake creates from it."""
        return submission_id(str(self.uri), self.version)


@click.command()
@click.argument("manifest", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--plan", is_flag=True, help="Only print the jobs that the lines would become; upload nothing.")
@click.pass_obj
def submit(grid_file: Path, manifest: Path, *, plan: bool) -> None:
    """Submit the jobs of MANIFEST.

    Uploads the file and waits until its jobs are submitted or the file is rejected.
    """
    if manifest.name.endswith(names.REPORT_SUFFIX):
        raise UsageError(f"{manifest} has the suffix of the intake's reports, which the intake ignores.", "Rename it.")
    deployment = find_deployment(grid_file)
    if plan:
        _print_plan(manifest, deployment)
        return
    submit_content(manifest, _prepared(manifest, deployment), deployment)


def submit_content(manifest: Path, content: bytes, deployment: Deployment) -> None:
    """Upload the content of a manifest, wait until its jobs are submitted, and print the submission.

    Args:
        manifest: The manifest's path; its name becomes that of the object.
        content: The bytes to upload.
        deployment: The grid.

    Raises:
        TraingridError: The manifest is rejected, Batch does not accept its jobs, or the intake does not answer.
    """
    taken = "S3 may have accepted the manifest: check `traingrid status` before you submit it again."
    with _may_go_on(taken), announcing_a_wait("S3"):
        uploaded = _uploaded(manifest, content, deployment)
    may_be = f"Submission {uploaded.submission} may continue: do not submit the manifest again."
    step = f"See: traingrid status {uploaded.submission}. Cancel: traingrid cancel {uploaded.submission}."
    with _may_go_on(f"{may_be} {step}"), announcing_a_wait("the intake"):
        report = wait_for_report(Storage(deployment.grid.home), uploaded.uri, uploaded.version)
    _raise_unless_submitted(manifest, report)
    jobs = counted(report["jobs"], "job")
    click.echo(f"submission {report['submission']}: {jobs}, Batch job {report['batch_job']}")
    click.echo(f"Track it with: traingrid status {report['submission']} --watch")


def submitted(manifest: Path, deployment: Deployment) -> dict[str, Any]:
    """Upload a manifest, and return the intake's report once its jobs are submitted.

    Raises:
        TraingridError: The manifest is rejected, Batch does not accept its jobs, or the intake does not answer.
    """
    uploaded = _uploaded(manifest, _prepared(manifest, deployment), deployment)
    report = wait_for_report(Storage(deployment.grid.home), uploaded.uri, uploaded.version)
    _raise_unless_submitted(manifest, report)
    return report


def _prepared(manifest: Path, deployment: Deployment) -> bytes:
    """Return the content to upload, after uploading its sources."""
    found = packed(manifest, deployment)
    logger.info("%s has %d bytes and %d source folders", manifest, len(found.content), len(found.sources))
    if found.sources:
        parsed(manifest, found.content, deployment)  # nothing is uploaded for a manifest that will be rejected
        found.upload(click.echo)
    return found.content


def _uploaded(manifest: Path, content: bytes, deployment: Deployment) -> Uploaded:
    uri = S3Uri(deployment.manifest_bucket, f"{names.MANIFEST_PREFIX}{manifest.name}")
    uploaded = Uploaded(uri=uri, version=Storage(deployment.grid.home).write_new(uri, content, "text/csv"))
    click.echo(f"uploaded {printable(str(uri))} (version {uploaded.version}) as submission {uploaded.submission}")
    return uploaded


@contextmanager
def _may_go_on(next_step: str) -> Iterator[None]:
    """Add the next step to errors and interrupts, for a manifest that may have been submitted despite them."""
    try:
        yield
    except KeyboardInterrupt:
        raise interrupted(next_step) from None
    except TraingridError as error:
        error.next_step = f"{next_step} {error.next_step}".strip()
        raise
    except (BotoCoreError, ClientError) as error:
        if not is_outage(error):  # AWS refused the request
            raise
        raise TraingridError(f"AWS request failed: {error}.", next_step) from error


def _print_plan(manifest: Path, deployment: Deployment) -> None:
    """Print the jobs that a manifest would create; reads only.

    Raises:
        TraingridError: The manifest is invalid, or some jobs would fail in the present state.
    """
    content = packed(manifest, deployment)
    found = list(planned(parsed(manifest, content.content, deployment), deployment))
    console().print(plan_table(found))
    for source in content.sources:
        click.echo(f"would upload {printable(str(source))}")
    failing, unchecked = sum(line.would_fail for line in found), sum(line.is_unchecked for line in found)
    click.echo(
        f"{counted(len(found), 'job')}, {counted(sum(line.job.ranks for line in found), 'rank')}; "
        f"{failing} would fail now" + (f", {unchecked} could not be checked" if unchecked else "")
    )
    if failing:
        text = f"{failing} of {counted(len(found), 'job')} would fail now."
        raise TraingridError(text, "Nothing was written. Upload the data and images, or fix the lines.")
    click.echo("Nothing was written. Submit it without --plan.")


def read_manifest(
    manifest: Path, deployment: Deployment, *, to_plan: bool = False
) -> tuple[list[Line], PackedManifest]:
    """Return the lines of a local manifest, validated as by the intake, and their packed sources.

    Nothing is uploaded; a caller that starts the lines' jobs uploads the sources first.

    Raises:
        TraingridError: The manifest is invalid; the text lists its errors.
    """
    found = packed(manifest, deployment)
    return parsed(manifest, found.content, deployment, to_plan=to_plan), found


def parsed(manifest: Path, content: bytes, deployment: Deployment, *, to_plan: bool = False) -> list[Line]:
    """Return the lines of a manifest's content, validated as by the intake; lines to plan may have no prices.

    Raises:
        TraingridError: The manifest is invalid; the text lists its errors.
    """
    if len(content) > MAX_BYTES:
        raise too_large(len(content))
    try:
        return parse(content, deployment, to_plan=to_plan)
    except ManifestError as error:
        raise _rejected(manifest, {"errors": error.as_dicts(), "errors_in_total": error.total}) from None


def wait_for_report(storage: Storage, uri: S3Uri, version: str) -> dict[str, Any]:
    """Wait for the intake's final report on one version of a manifest, and return it.

    Raises:
        TraingridError: The intake did not answer within its time limit, or its report cannot be read.
    """
    deadline = time.monotonic() + ANSWERED_WITHIN
    where = S3Uri(uri.bucket, uri.key + names.REPORT_SUFFIX)
    trouble = ""
    logger.info("waiting for the intake's report %s", where)
    while time.monotonic() < deadline:
        try:
            for content in storage.read_versions(where, _REPORTS_LOOKED_AT):
                report: dict[str, Any] = json.loads(content)
                if report["version"] == version:
                    logger.info("the intake reports the state %s", report["state"])
                    if report["state"] != RETRYING:
                        return report
                    trouble = f" {report['reason']}"
                    break
            else:
                trouble = ""
        except (BotoCoreError, ClientError) as error:
            if not is_outage(error):
                raise TraingridError(f"The intake's report {where} cannot be read: {error}.") from error
            trouble = f" AWS request failed: {error}."
            logger.info("the report cannot be read now: %s", error)
        time.sleep(_POLL_SECONDS)
    message = f"The intake has not reported on {uri} within {ANSWERED_WITHIN:.0f} s.{trouble}"
    raise TraingridError(message, "Check the log of the intake function and its dead-letter queue.")


def _raise_unless_submitted(manifest: Path, report: dict[str, Any]) -> None:
    if report["state"] == "rejected":
        raise _rejected(manifest, report)
    if report["state"] == FAILED:
        submitted = f"{report['submitted_jobs']} of {report['jobs']} jobs of submission {report['submission']}"
        what = f"{manifest}: {submitted} were submitted, in {report['tries']} attempts. {report['reason']}"
        raise TraingridError(what, report["next_step"])


def _rejected(manifest: Path, report: dict[str, Any]) -> TraingridError:
    lines = [f"{manifest} is rejected and nothing was submitted."]
    for error in report["errors"][:_SHOWN_ERRORS]:
        where = f":{error['line']}: {error['field']} {error['value']}".rstrip() if error["line"] else ""
        lines.append(f"{manifest}{where}: {error['reason']}. {error['next_step']}")
    more = report["errors_in_total"] - _SHOWN_ERRORS
    if more > 0:
        where = f" in {report['manifest']}{names.REPORT_SUFFIX}" if "manifest" in report else ""
        lines.append(f"... and {more} more{where}")
    failed = TraingridError("\n".join(lines), "Fix these lines and submit the file again.")
    failed.exit_code = 2
    return failed
