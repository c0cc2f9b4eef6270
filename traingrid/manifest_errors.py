"""What is wrong in a manifest: one record per error, all of them in one report."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass

from traingrid.errors import TraingridError

# A report of more errors than this helps nobody; their total is always given.
MAX_REPORTED_ERRORS = 1_000
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class LineError:
    """One thing that is wrong in a manifest.

    Attributes:
        line: The line as an editor counts it, from 1; 0 where the file as a whole is meant.
        field: The field's name, or "line" or "file".
        value: What stands there, as `shown` shows it; empty where the whole line or file is meant.
        reason: Why it cannot be accepted.
        next_step: What to write instead, a sentence.
    """

    line: int
    field: str
    value: str
    reason: str
    next_step: str

    def __str__(self) -> str:
        where = f"line {self.line}, {self.field}" if self.line else self.field
        value = f" {self.value}" if self.value else ""
        return f"{where}{value}: {self.reason}. {self.next_step}"


class ManifestError(TraingridError):
    """A manifest is rejected, with every reason for it.

    Args:
        errors: What is wrong, in the order of the file.
        total: How much there is, where `errors` are the first of them only.
    """

    exit_code = 2

    def __init__(self, errors: list[LineError], total: int = 0) -> None:
        self.errors = errors[:MAX_REPORTED_ERRORS]
        self.total = max(total, len(errors))
        super().__init__("\n".join(str(error) for error in self.errors))

    def as_dicts(self) -> list[dict[str, str | int]]:
        """Return the errors as a report's JSON holds them."""
        return [asdict(error) for error in self.errors]


class ErrorReport:
    """Errors as they are found: the first of them, and how many there are, because a file can have millions."""

    def __init__(self) -> None:
        self.kept: list[LineError] = []
        self.total = 0

    def add(self, errors: list[LineError]) -> None:
        """Add what was found next."""
        self.total += len(errors)
        self.kept += errors[: MAX_REPORTED_ERRORS - len(self.kept)]

    def add_first(self, errors: list[LineError]) -> None:
        """Add what stands before everything that was found so far."""
        self.total += len(errors)
        self.kept = [*errors, *self.kept][:MAX_REPORTED_ERRORS]


def escaped_cell(text: str) -> str:
    """Return a text as a cell of an exported CSV file, in which no spreadsheet takes it for a formula.

    What starts with `=`, `+`, `-`, `@`, a tab or a line end gets an apostrophe in front, unless it is a number
    (https://owasp.org/www-community/attacks/CSV_Injection). Control characters are shown as escapes.
    """
    safe = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)
    dangerous = text.lstrip(" ")[:1] in ("=", "+", "-", "@", "\t", "\r", "\n") or text[:1] in ("\t", "\r", "\n")
    return f"'{safe}" if dangerous and not _NUMBER.fullmatch(text) else safe


def shown(value: str, width: int = 120) -> str:
    """Return a cell as a log or terminal may show it: quoted, shortened, control characters escaped."""
    return ascii(value if len(value) <= width else value[: width - 1] + "…")


def file_error(reason: str, next_step: str) -> ManifestError:
    """Return the error that rejects a file as a whole."""
    return ManifestError([LineError(line=0, field="file", value="", reason=reason, next_step=next_step)])
