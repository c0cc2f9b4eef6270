"""Manifests: the file a user uploads, one training job per line, checked whole before anything is created."""

from __future__ import annotations

import csv
import difflib
import io
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid.manifest_errors import LineError, ManifestError, file_error, shown
from traingrid.s3_uri import S3Uri

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.deployment import Deployment

# An array job has at most 10,000 children: https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html
MAX_LINES = 10_000
# A line of two S3 URIs of the greatest length (1,024 bytes a key) has room in this; garbage does not.
MAX_LINE_CHARACTERS = 4_096
MAX_BYTES = MAX_LINES * MAX_LINE_CHARACTERS
MAX_NAME_CHARACTERS = 128
_FORM = "Write region,s3_uri or region,s3_uri,name."


@dataclass(frozen=True, kw_only=True)
class Line:
    """One checked line of a manifest in its plainest form.

    Attributes:
        number: The line as an editor counts it, from 1.
        region: A training Region of the grid.
        data: Where the line's data set lies; its bucket is in `region`.
        name: What the user calls the job; the last part of the URI where they did not say.
    """

    number: int
    region: str
    data: S3Uri
    name: str


def parse(content: bytes, deployment: Deployment) -> list[Line]:
    """Parse a manifest in its plainest form, CSV without a header: `region,s3_uri[,name]`.

    A byte-order mark, CRLF line ends, blank lines and lines that start with `#` are let pass; they count as lines.
    Quotes work as in CSV, but a quoted cell may not span lines: a job is a line.

    Args:
        content: The file's bytes.
        deployment: Decides which Regions and buckets there are.

    Returns:
        The lines that hold jobs, in the file's order.

    Raises:
        ManifestError: Anything is wrong. All errors are in it, not the first only.
    """
    buckets = deployment.bucket_regions()
    lines: list[Line] = []
    errors: list[LineError] = []
    for number, text in _lines_within_limit(_decoded(content)):
        checked = _checked(number, text, deployment, buckets)
        if isinstance(checked, Line):
            lines.append(checked)
        else:
            errors += checked
    if errors:
        raise ManifestError(errors)
    if not lines:
        raise file_error("it holds no job", f"{_FORM[:-1]}, one line per job.")
    return lines


def _decoded(content: bytes) -> str:
    if len(content) > MAX_BYTES:
        reason = f"it has {len(content):,} bytes and a manifest has at most {MAX_BYTES:,}"
        raise file_error(reason, "Split it into several files.")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise file_error("it is UTF-16 text", "Save it as UTF-8 ('CSV UTF-8' in a spreadsheet).")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ManifestError(
            [
                LineError(
                    line=content.count(b"\n", 0, error.start) + 1,
                    field="line",
                    value=content[error.start : error.start + 8].hex(" "),
                    reason=f"byte {error.start + 1} of the file is not UTF-8 text",
                    next_step="Save the file as UTF-8 text.",
                )
            ]
        ) from None


def _lines_within_limit(text: str) -> list[tuple[int, str]]:
    """Return the lines that hold jobs with their numbers; counted before they are checked, which takes longer."""
    lines = list(itertools.islice(_numbered_lines(text), MAX_LINES + 1))
    if len(lines) > MAX_LINES:
        reason = f"it has more lines than the {MAX_LINES:,} jobs that a submission takes at most"
        raise file_error(reason, "Split it into several files.")
    return lines


def _numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(io.StringIO(text, newline=None), start=1):
        content = line.rstrip("\n")
        if content.strip() and not content.lstrip().startswith("#"):
            yield number, content


def _checked(number: int, text: str, deployment: Deployment, buckets: dict[str, str]) -> Line | list[LineError]:
    cells = _cells(number, text)
    if isinstance(cells, LineError):
        return [cells]
    region, uri, *rest = cells
    data = _data(number, uri)
    errors = [
        *_region_errors(number, region, deployment),
        *([data] if isinstance(data, LineError) else _bucket_errors(number, region, data, deployment, buckets)),
        *(error for name in rest for error in _name_errors(number, name)),
    ]
    if errors or isinstance(data, LineError):
        return errors
    name = (rest[0] if rest else "") or data.key.rpartition("/")[2] or data.bucket
    return Line(number=number, region=region, data=data, name=name[:MAX_NAME_CHARACTERS])


def _cells(number: int, text: str) -> list[str] | LineError:
    def line_error(reason: str, next_step: str) -> LineError:
        return LineError(line=number, field="line", value=shown(text), reason=reason, next_step=next_step)

    if len(text) > MAX_LINE_CHARACTERS:
        reason = f"it has {len(text):,} characters and a line has at most {MAX_LINE_CHARACTERS:,}"
        return line_error(reason, _FORM)
    try:
        cells = [cell.strip() for cell in next(csv.reader([text], strict=True))]
    except csv.Error as error:
        return line_error(f"it is not CSV ({error})", "Put a cell with commas or quotes in double quotes.")
    if {cell.lower() for cell in cells} & {"region", "s3_uri"}:
        return line_error("it looks like a header, and this form has none", "Take the line away.")
    if not 2 <= len(cells) <= 3:
        return line_error(f"it has {len(cells)} field{'s' * (len(cells) != 1)} where 2 or 3 belong", _FORM)
    return cells


def _region_errors(number: int, region: str, deployment: Deployment) -> Iterator[LineError]:
    known = list(deployment.grid.regions)
    if region in known:
        return
    near = difflib.get_close_matches(region.lower(), known, n=1)
    meant = f"Did you mean {near[0]}? " if near else ""
    yield LineError(
        line=number,
        field="region",
        value=shown(region),
        reason="it is not a training Region of this grid",
        next_step=f"{meant}The grid has {', '.join(known)}; a Region more is one line in grid.yaml.",
    )


def _data(number: int, uri: str) -> S3Uri | LineError:
    try:
        return S3Uri.parse(uri)
    except ValueError as error:
        return LineError(
            line=number,
            field="s3_uri",
            value=shown(uri),
            reason=str(error),
            next_step="Write s3://bucket/prefix, the folder above train/ and validation/.",
        )


def _bucket_errors(
    number: int, region: str, data: S3Uri, deployment: Deployment, buckets: dict[str, str]
) -> Iterator[LineError]:
    actual = buckets.get(data.bucket)
    if actual == region or region not in deployment.grid.regions:
        return
    if actual:
        reason = (
            f"the bucket {data.bucket} is in {actual} and the line says {region}; SageMaker reads from its own Region"
        )
        next_step = f"Write {actual}, or the copy of the data in {region}."
    else:
        reason = f"the bucket {data.bucket} is not one that this grid may read"
        next_step = f"Add it to data_buckets of {region} in grid.yaml and deploy, or use the grid's own data bucket."
    yield LineError(line=number, field="s3_uri", value=shown(str(data)), reason=reason, next_step=next_step)


def _name_errors(number: int, name: str) -> Iterator[LineError]:
    if len(name) > MAX_NAME_CHARACTERS:
        reason = f"it has {len(name)} characters and a name has at most {MAX_NAME_CHARACTERS}"
    elif not name.isprintable():
        reason = "it has control characters"
    else:
        return
    next_step = "Write a shorter name of printable characters."
    yield LineError(line=number, field="name", value=shown(name), reason=reason, next_step=next_step)
