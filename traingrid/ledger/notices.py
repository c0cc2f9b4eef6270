"""Notices: the notifications of a submission, as fields of its ledger item.

A notice is claimed before its message is published, and recorded as published after it, each by one conditional write.
So concurrent passes publish a message once, and a pass that is killed between the two writes leaves a claim that
expires, after which another pass publishes the message (again).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from traingrid.ledger.field_types import COUNT, FLAG, PAST, check_types

if TYPE_CHECKING:
    from collections.abc import Mapping

_TYPES = {"occurrence": COUNT, "claimed_at": PAST, "published": FLAG}
NoticeKind = Literal["first_failure", "budget", "end"]
"""The event that a notification reports."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """A notification that is being published, or was.

    Attributes:
        occurrence: The number of the event, which only increases: the percentage of a budget; for the end, the number
            of attempts that users have retried; 0 for the first failure.
        claimed_at: The time of the claim, in seconds since 1970; 0 if publishing has failed and may be tried again.
        published: True once SNS has accepted the message.
    """

    occurrence: int
    claimed_at: int
    published: bool = False

    @classmethod
    def from_field(cls, stored: Mapping[str, Any]) -> Self:
        """Return the notice of a stored field, whose types were checked."""
        return cls(
            occurrence=stored["occurrence"], claimed_at=stored["claimed_at"], published=stored.get("published", False)
        )

    def stored(self) -> dict[str, Any]:
        """Return the value of the field."""
        return asdict(self)


def notice_field(kind: NoticeKind) -> str:
    """Return the name of the field of a submission's item that has a notice."""
    return f"notice_{kind}"


def notice_in(item: Mapping[str, Any], field: str) -> Notice | None:
    """Return the notice in a field of a stored item, or None if there is none.

    Raises:
        ItemError: A part of the notice is missing, or has another type.
    """
    if field not in item:
        return None
    check_types(item, _TYPES, item[field], prefix=f"{field}.", required=("occurrence", "claimed_at"))
    return Notice.from_field(item[field])


def notices_of(item: Mapping[str, Any]) -> dict[NoticeKind, Notice]:
    """Return the notices of a submission's stored item. Raises like `notice_in`."""
    kinds: tuple[NoticeKind, ...] = get_args(NoticeKind)
    return {kind: notice for kind in kinds if (notice := notice_in(item, notice_field(kind)))}
