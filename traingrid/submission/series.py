"""Series: a sweep, or rounds, whose manifests are in a folder of its name, and which is named as `rounds:cells`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from traingrid import names
from traingrid.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.submission.journal import JournalEntry

Kind: TypeAlias = Literal["sweep", "rounds"]
_FOLDERS: dict[Kind, str] = {"sweep": names.SWEEP_PREFIX, "rounds": names.ROUNDS_PREFIX}


@dataclass(frozen=True)
class Series:
    """Submissions that belong together. Its text is the name that commands accept, such as `sweep:rates`."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def named(cls, text: str) -> Series | None:
        """Return the series of a name; None for an id of a submission, which has no colon.

        Raises:
            UsageError: There is no such kind.
        """
        kind, colon, name = text.partition(":")
        if not colon:
            return None
        if kind not in _FOLDERS or not name:
            step = f"Write {' or '.join(f'{folder_kind}:NAME' for folder_kind in _FOLDERS)}, or the id of a submission."
            raise UsageError(f"{text} names neither a submission nor a sweep nor rounds.", step)
        return cls(kind, name)

    @classmethod
    def of_manifest(cls, uri: str) -> Series | None:
        """Return the series that submitted a manifest; None if a person or a rule did."""
        key = uri.partition("://")[2].partition("/")[2]  # not all recorded URIs can be parsed
        for kind, folder in _FOLDERS.items():
            prefix = f"{names.MANIFEST_PREFIX}{folder}"
            if key.startswith(prefix):
                return cls(kind, key.removeprefix(prefix).partition("/")[0])
        return None

    def check_begun(self, entries: Sequence[JournalEntry]) -> None:
        """Raise a UsageError if a journal has no entries, so that there is no series of this name."""
        if not entries:
            text = f"This grid has no {'sweep' if self.kind == 'sweep' else 'rounds'} with the name {self.name}."
            raise UsageError(text, f"Begin with a specification: traingrid {self.kind} SPEC.")
