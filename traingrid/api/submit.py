"""Submitting a manifest: packs its sources, uploads it, and waits for the intake's report."""

from __future__ import annotations

import logging
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from traingrid import names
from traingrid.api.intake_report import intake_report
from traingrid.api.source_folders import PackedManifest, SourceError, packed
from traingrid.aws.error_codes import PERMISSION_CODES
from traingrid.aws.outage import is_outage
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import TraingridError, UsageError, interrupted
from traingrid.ledger.ledger import Ledger
from traingrid.manifest.algorithm_resources import wrong_resources
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.folder_layouts import wrong_folders
from traingrid.manifest.hardware_warnings import manifest_warnings
from traingrid.manifest.parse import MAX_BYTES, parse
from traingrid.manifest.rows import too_large
from traingrid.models.archives import ModelArchives
from traingrid.models.initial_models import InitialModels
from traingrid.strict_json import JsonError
from traingrid.submission.files import report_uri, submission_id
from traingrid.submission.intake import ANSWERED_WITHIN
from traingrid.submission.intake_failure import FAILED, RETRYING
from traingrid.submission.submitted_jobs import last_submitted_job
from traingrid.text import printable, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from traingrid.api.source_folders import PackedSource
    from traingrid.grid.deployment import Deployment
    from traingrid.manifest.line import Line

logger = logging.getLogger(__name__)
_POLL_SECONDS = 0.5
_SHOWN_ERRORS = 20
# Another user may submit a manifest of the same name meanwhile, and its report replaces ours.
_REPORTS_LOOKED_AT = 10


@dataclass(frozen=True, kw_only=True)
class Uploaded:
    """A manifest that was uploaded; its report is not known yet."""

    uri: S3Uri
    version: str

    @property
    def submission(self) -> str:
        """The id of the submission that the intake creates from it."""
        return submission_id(str(self.uri), self.version)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Reports the progress of a submission to its caller; by default only to the log.

    Attributes:
        announce: Receives a sentence about each upload.
        warn: Receives a sentence about each hardware warning, before anything is uploaded.
        waiting: Returns the context in which a service is awaited, whose name is the argument.
    """

    announce: Callable[[str], None] = logger.info
    warn: Callable[[str], None] = logger.warning
    waiting: Callable[[str], AbstractContextManager[object]] = nullcontext


def submit_content(
    manifest: Path, content: bytes, deployment: Deployment, progress: Progress | None = None
) -> dict[str, Any]:
    """Upload the content of a manifest, wait until its jobs are submitted, and return the intake's report.

    Args:
        manifest: The manifest's path; its name becomes the object's name.

    Raises:
        TraingridError: The manifest is rejected, Batch does not accept its jobs, or the intake does not answer.
    """
    progress = progress or Progress()
    warning = "S3 may have accepted the manifest: check `traingrid status` before you submit it again."
    with _may_go_on(warning), progress.waiting("S3"):
        uploaded = _upload(manifest, content, deployment)
    may_be = f"Submission {uploaded.submission} may continue: do not submit the manifest again."
    step = f"See: traingrid status {uploaded.submission}. Cancel: traingrid cancel {uploaded.submission}."
    with _may_go_on(f"{may_be} {step}"), progress.waiting("the intake"):
        version = f"(version {uploaded.version})"
        progress.announce(f"uploaded {printable(str(uploaded.uri))} {version} as submission {uploaded.submission}")
        report = wait_for_report(Storage(deployment.grid.home), uploaded.uri, uploaded.version)
    raise_unless_submitted(manifest, report)
    return report


def submit_manifest(
    manifest: Path,
    deployment: Deployment,
    progress: Progress | None = None,
    content: bytes | None = None,
    sources: Iterable[PackedSource] = (),
) -> dict[str, Any]:
    """Upload a manifest and its sources, wait until its jobs are submitted, and return the intake's report.

    Args:
        manifest: The manifest's path; sources are relative to its folder.
        content: The manifest's bytes; by default the file's bytes.
        sources: Packed folders to which the manifest refers already.

    Raises:
        TraingridError: The manifest is rejected, Batch does not accept its jobs, or the intake does not answer.
    """
    check_name(manifest)
    progress = progress or Progress()
    packed_manifest = with_packed_sources(manifest, deployment, content)
    packed_manifest.sources.extend(sources)
    logger.info(
        "%s has %d bytes and %d source folders", manifest, len(packed_manifest.content), len(packed_manifest.sources)
    )
    lines = parsed_packed(manifest, packed_manifest, deployment)  # nothing is uploaded for a manifest with errors
    check_resources(manifest, with_initial_models(manifest, lines, deployment), deployment)
    for sentence in manifest_warnings(lines, deployment.grid):
        progress.warn(sentence)
    check_folders(manifest, lines, deployment)
    packed_manifest.upload(progress.announce)
    return submit_content(manifest, packed_manifest.content, deployment, progress)


def check_resources(manifest: Path, lines: list[Line], deployment: Deployment) -> None:
    """Check the lines that train an algorithm resource against the rules that SageMaker returns for it.

    Raises:
        TraingridError: A line breaks a rule; the text lists its errors.
    """
    if errors := wrong_resources(lines, deployment):
        error = ManifestError(errors)
        raise rejected(manifest, {"errors": error.as_dicts(), "errors_in_total": error.total})


def check_folders(manifest: Path, lines: list[Line], deployment: Deployment) -> None:
    """Check that the data folders of lines determine their channels.

    Raises:
        TraingridError: A child would fail; the text lists the lines.
    """
    if errors := wrong_folders(lines, deployment):
        error = ManifestError(errors)
        raise rejected(manifest, {"errors": error.as_dicts(), "errors_in_total": error.total})


def with_initial_models(manifest: Path, lines: list[Line], deployment: Deployment) -> list[Line]:
    """Return the lines of a manifest, those with `init_from` with the model that the ledger has.

    Lines are returned unchanged if the caller may not read the ledger or the lines of the other submission; the intake
    checks `init_from` again. An archive that the caller may not read is not checked.

    Raises:
        TraingridError: A model does not exist any more or cannot be used by its line; the text lists the errors.
    """
    try:
        return resolve_initial_models(lines, deployment)
    except ManifestError as error:
        raise rejected(manifest, {"errors": error.as_dicts(), "errors_in_total": error.total}) from None


def resolve_initial_models(lines: list[Line], deployment: Deployment) -> list[Line]:
    """Do the same as `with_initial_models`, with the errors of the lines.

    Raises:
        ManifestError: A model does not exist any more or cannot be used by its line.
    """
    if not any(line.settings.init_from for line in lines):
        return lines
    home = deployment.grid.home
    models = InitialModels(
        deployment=deployment,
        ledger=Ledger(deployment.table, home),
        submitted_job=partial(last_submitted_job, Storage(home), deployment.manifest_bucket),
        archives=ModelArchives(deployment=deployment),
    )
    try:
        return models.resolved(lines)
    except ClientError as error:
        if error.response["Error"]["Code"] not in PERMISSION_CODES:
            raise
        logger.info("init_from was not checked: %s", error)
        return lines


def check_name(manifest: Path) -> None:
    """Check that the intake will not ignore a manifest.

    Raises:
        UsageError: The manifest has the name of a report.
    """
    if manifest.name.endswith(names.REPORT_SUFFIX):
        raise UsageError(f"{manifest} has the suffix of the intake's reports, which the intake ignores.", "Rename it.")


def _upload(manifest: Path, content: bytes, deployment: Deployment) -> Uploaded:
    uri = S3Uri(deployment.manifest_bucket, f"{names.MANIFEST_PREFIX}{manifest.name}")
    return Uploaded(uri=uri, version=Storage(deployment.grid.home).write_new(uri, content, "text/csv"))


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


def read_manifest(
    manifest: Path, deployment: Deployment, *, to_plan: bool = False
) -> tuple[list[Line], PackedManifest]:
    """Return the lines of a local manifest, validated as by the intake, and their packed sources.

    Nothing is uploaded; a caller that starts the lines' jobs uploads the sources first.

    Raises:
        TraingridError: The manifest is invalid; the text lists its errors.
    """
    packed_manifest = with_packed_sources(manifest, deployment, to_plan=to_plan)
    return parsed_packed(manifest, packed_manifest, deployment, to_plan=to_plan), packed_manifest


def with_packed_sources(
    manifest: Path, deployment: Deployment, content: bytes | None = None, *, to_plan: bool = False
) -> PackedManifest:
    """Return a manifest with its packed sources, as `packed` does.

    Raises:
        TraingridError: A source cannot be packed; the text also lists the errors of the other fields.
    """
    try:
        return packed(manifest, deployment, content)
    except SourceError as error:
        try:
            parsed_packed(manifest, error.manifest, deployment, to_plan=to_plan)
        except TraingridError as of_fields:
            raise UsageError(f"{of_fields.what}\n{error}", of_fields.next_step) from None
        raise


def parsed(manifest: Path, content: bytes, deployment: Deployment, *, to_plan: bool = False) -> list[Line]:
    """Return the lines of a manifest's content, validated as by the intake; lines to plan may have no prices.

    Raises:
        TraingridError: The manifest is invalid; the text lists its errors.
    """
    return parsed_packed(manifest, PackedManifest(content=content), deployment, to_plan=to_plan)


def parsed_packed(
    manifest: Path, packed_manifest: PackedManifest, deployment: Deployment, *, to_plan: bool = False
) -> list[Line]:
    """Return the lines as `parsed` does; errors show local sources as the user wrote them, not as archives.

    Raises:
        TraingridError: As `parsed`.
    """
    content, folders = packed_manifest.content, packed_manifest.folders
    if len(content) > MAX_BYTES:
        raise too_large(len(content))
    try:
        return parse(content, deployment, to_plan=to_plan)
    except ManifestError as error:
        errors = [
            replace(line_error, value=shown(folders[line_error.line]))
            if line_error.field == "source" and line_error.value and line_error.line in folders
            else line_error
            for line_error in error.errors
        ]
        report = {"errors": ManifestError(errors).as_dicts(), "errors_in_total": error.total}
        raise rejected(manifest, report) from None


def wait_for_report(storage: Storage, uri: S3Uri, version: str) -> dict[str, Any]:
    """Wait for the intake's final report on one version of a manifest, and return it.

    Raises:
        TraingridError: The intake did not answer within its time limit, or its report cannot be read.
    """
    deadline = time.monotonic() + ANSWERED_WITHIN
    report_uri = _report_of(uri)
    trouble = ""
    logger.info("waiting for the intake's report %s", report_uri)
    while time.monotonic() < deadline:
        try:
            report = known_report(storage, uri, version)
            if report is not None:
                logger.info("the intake reports the state %s", report["state"])
                if report["state"] != RETRYING:
                    return report
            trouble = f" {report['reason']}" if report else ""
        except JsonError as error:  # the intake may still write it
            trouble = f" {error}"
        except (BotoCoreError, ClientError) as error:
            if not is_outage(error):
                raise TraingridError(f"The intake's report {report_uri} cannot be read: {error}.") from error
            trouble = f" AWS request failed: {error}."
            logger.info("the report cannot be read now: %s", error)
        time.sleep(_POLL_SECONDS)
    message = f"The intake has not reported on {uri} within {ANSWERED_WITHIN:.0f} s.{trouble}"
    raise TraingridError(message, "Check the log of the intake function and its dead-letter queue.")


def known_report(storage: Storage, uri: S3Uri, version: str) -> dict[str, Any] | None:
    """Return the intake's last report on one version of a manifest; None if there is none.

    Raises:
        JsonError: There is none, and an object in its place is not a report.
    """
    damage: JsonError | None = None
    # An intake of an earlier version of traingrid writes only the report that all versions share.
    for location, most_reports in ((report_uri(uri, version), 1), (_report_of(uri), _REPORTS_LOOKED_AT)):
        for content in storage.read_versions(location, most_reports):
            try:
                report = intake_report(content, location)
                if report["version"] == version:
                    return report
            except JsonError as error:
                damage = damage or error
    if damage:
        raise damage
    return None


def _report_of(uri: S3Uri) -> S3Uri:
    return S3Uri(uri.bucket, uri.key + names.REPORT_SUFFIX)


def raise_unless_submitted(manifest: Path, report: dict[str, Any]) -> None:
    """Raise the error of a report whose jobs were not submitted.

    Raises:
        TraingridError: The manifest is rejected, or Batch did not accept all of its jobs.
    """
    if report["state"] == "rejected":
        raise rejected(manifest, report)
    if report["state"] == FAILED:
        submitted = f"{report['submitted_jobs']} of {report['jobs']} jobs of submission {report['submission']}"
        text = f"{manifest}: {submitted} were submitted, in {report['tries']} attempts. {report['reason']}"
        raise TraingridError(text, report["next_step"])


def rejected(manifest: Path, report: dict[str, Any], most: int = _SHOWN_ERRORS) -> TraingridError:
    """Return the error of a rejected manifest, with the errors of its lines.

    Args:
        most: The number of errors that are shown.
    """
    lines = [f"{manifest} is rejected and nothing was submitted."]
    for error in report["errors"][:most]:
        field = "" if error["field"] == "line" else error["field"]
        place = f":{error['line']}: {' '.join(filter(None, [field, error['value']]))}" if error["line"] else ""
        lines.append(f"{manifest}{place}: {error['reason']}. {error['next_step']}")
    more = report["errors_in_total"] - most
    if more > 0:
        place = f" in {report['manifest']}{names.REPORT_SUFFIX}" if "manifest" in report else ""
        lines.append(f"... and {more} more{place}")
    error_of_report = TraingridError("\n".join(lines), "Fix these lines and submit the file again.")
    error_of_report.exit_code = 2
    return error_of_report
