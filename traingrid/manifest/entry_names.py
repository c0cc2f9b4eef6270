"""Entry names: finds hyperparameters whose names a reader or a tool may have mixed up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.text import shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

STEP = "Keep one of them, or give one of them another name."


def mixed_up(names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each name that another one may have replaced, and the reason.

    A tool such as pandas writes a second column lr as lr.1, and frameworks read lr.1 as a member of lr, which
    cannot be a number as well. Names that differ by case or blanks only are one name to a person.
    """
    first_by_form: dict[str, str] = {}
    for name in names:
        form = "".join(name.split()).casefold()
        earlier = first_by_form.setdefault(form, name)
        if earlier != name:
            yield name, f"differs from {shown(earlier, 40)} by case or blanks only"
        parts = name.split(".")
        above = (".".join(parts[:count]) for count in range(1, len(parts)))
        if parent := next((parent for parent in above if parent in names), ""):
            yield name, f"is below {shown(parent, 40)}, which has a value itself"
