"""Encoding: refuses files that are not UTF-8 text, and decodes their lines."""

from traingrid.manifest.errors import LineError, file_error
from traingrid.manifest.row import unreadable

MAX_LINE_BYTES = 512 * 1024
"""The maximum size of a line in bytes; 100 hyperparameters of SageMaker's maximum length take 276,000 characters."""


def check_text_format(start: bytes) -> None:
    """Raise ManifestError if the first bytes of a file show that it is UTF-16, compressed or a spreadsheet."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise file_error("the file is UTF-16 text", "Save it as UTF-8 ('CSV UTF-8' in a spreadsheet).")
    if start.startswith((b"\x1f\x8b", b"PK\x03\x04", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")):
        raise file_error("the file is compressed or in a spreadsheet's format", "Upload it as CSV or JSON Lines text.")


def line_text(number: int, line: bytes) -> str | LineError:
    """Return a line's text without its end, or its error.

    Raises:
        ManifestError: The line has a NUL byte. The file is not text, and its other lines would repeat the error.
    """
    if b"\0" in line:
        reason = f"line {number} has a NUL byte, so the file is not UTF-8 text"
        raise file_error(reason, "Save it as UTF-8 text ('CSV UTF-8' in a spreadsheet).")
    if len(line) > MAX_LINE_BYTES:
        reason = f"a line may have at most {MAX_LINE_BYTES:,} bytes, and this one is longer"
        return unreadable(number, line[:200].decode(errors="replace"), reason, "Write one job per line.")
    try:
        return line.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        reason = f"byte {error.start + 1} of the line is not UTF-8 text"
        bad = line[error.start : error.start + 8].hex(" ")
        return LineError(line=number, field="line", value=bad, reason=reason, next_step="Save the file as UTF-8 text.")
