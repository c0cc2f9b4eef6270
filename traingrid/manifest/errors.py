"""Manifest errors: one record per error, collected in one report."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from traingrid.errors import TraingridError

# A report lists at most this many errors, and always gives their total.
MAX_REPORTED_ERRORS = 1_000


@dataclass(frozen=True, kw_only=True)
class LineError:
    """One error in a manifest.

    Attributes:
        line: The line number, from 1 as in an editor; 0 if the error is about the whole file.
        field: The field's name, or "line" or "file".
        value: The invalid value as `shown` returns it; empty if the error is about a whole line or file.
        reason: Why the value is invalid.
        next_step: A sentence that tells the user how to correct it.
    """

    line: int
    field: str
    value: str
    reason: str
    next_step: str

    def __str__(self) -> str:
        place = f"line {self.line}" if self.line else self.field
        if self.line and self.field != "line":
            place += f", {self.field}"
        value = f" {self.value}" if self.value else ""
        return f"{place}{value}: {self.reason}. {self.next_step}"


class ManifestError(TraingridError):
    """A manifest was rejected, for the errors it lists.

    Args:
        errors: The errors, in the file's order.
        total: The number of all errors, if `errors` holds only the first of them.
    """

    exit_code = 2

    def __init__(self, errors: list[LineError], total: int = 0) -> None:
        self.errors = errors[:MAX_REPORTED_ERRORS]
        self.total = max(total, len(errors))
        super().__init__("\n".join(str(error) for error in self.errors))

    def as_dicts(self) -> list[dict[str, str | int]]:
        """Return the errors in the form of a report's JSON."""
        return [asdict(error) for error in self.errors]


class ErrorReport:
    """Collects the first errors of a file and counts all of them, because a file can have millions."""

    def __init__(self) -> None:
        self.kept: list[LineError] = []
        self.total = 0

    def add(self, errors: list[LineError]) -> None:
        """Append errors."""
        self.total += len(errors)
        self.kept += errors[: MAX_REPORTED_ERRORS - len(self.kept)]

    def add_first(self, errors: list[LineError]) -> None:
        """Insert errors before all that were added so far."""
        self.total += len(errors)
        self.kept = [*errors, *self.kept][:MAX_REPORTED_ERRORS]


def file_error(reason: str, next_step: str) -> ManifestError:
    """Return an error about the whole file."""
    return ManifestError([LineError(line=0, field="file", value="", reason=reason, next_step=next_step)])
