"""Initial model ids: completes the ids of submissions in `init_from`, of which a user wrote the first characters.

The uploaded manifest has the full id. The first characters may stand for another submission later, and the intake and
children look a submission up by its key, without a list of all submissions.
"""

import re
from collections.abc import Callable
from pathlib import Path

from botocore.exceptions import ClientError

from traingrid.api.manifest_edit import readable_rows, with_value
from traingrid.aws.error_codes import PERMISSION_CODES
from traingrid.errors import UsageError
from traingrid.grid.deployment import Deployment
from traingrid.ledger.ledger import Ledger
from traingrid.manifest.rows import Row
from traingrid.submission.files import SUBMISSION_ID_LENGTH
from traingrid.submission.prefixes import matching_id
from traingrid.text import printable

_SHORT = re.compile(rf"([0-9a-f]{{1,{SUBMISSION_ID_LENGTH - 1}}})/(0|[1-9][0-9]{{0,4}})", re.ASCII)


def with_full_ids(manifest: Path, content: bytes, deployment: Deployment) -> bytes:
    """Return a manifest with full ids of submissions in `init_from`; unchanged if it has no short ones.

    Args:
        manifest: The manifest's path, for errors.
        deployment: The grid, whose ledger is listed once if there are short ids.

    Raises:
        UsageError: No submission has such an id, several have one, or the ledger may not be listed.
    """
    if b"init_from" not in content:
        return content
    short = [(row, match) for row in readable_rows(content) if (match := _short_form(row))]
    if not short:
        return content
    lines = content.splitlines(keepends=True)
    submissions = _known_submissions(
        _place_in_manifest(manifest, short[0][0]), lambda: Ledger(deployment.table, deployment.grid.home)
    )
    for row, match in short:
        try:
            full = matching_id(match[1], submissions)
        except UsageError as error:
            raise UsageError(f"{_place_in_manifest(manifest, row)}: {error.what}", error.next_step) from None
        lines[row.number - 1] = with_value(lines, row, "init_from", f"{full}/{match[2]}")
    return b"".join(lines)


def _short_form(row: Row) -> re.Match[str] | None:
    value = row.values.get("init_from")
    return _SHORT.fullmatch(value) if isinstance(value, str) else None


def _place_in_manifest(manifest: Path, row: Row) -> str:
    return f"{manifest}:{row.number}: init_from {printable(str(row.values['init_from']))}"


def _known_submissions(place: str, ledger: Callable[[], Ledger]) -> list[str]:
    """Return the ids of all submissions."""
    try:
        return [item.submission for item in ledger().submissions()]
    except ClientError as error:
        if error.response["Error"]["Code"] not in PERMISSION_CODES:
            raise
        text = f"{place}: the submission cannot be found by the first characters of its id, because you may not list "
        step = f"Write all {SUBMISSION_ID_LENGTH} characters."
        raise UsageError(f"{text}the ledger (dynamodb:Query on the table and its index submissions).", step) from error
