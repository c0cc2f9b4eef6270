"""Claims: each states one assumption about AWS, with its sources, the code that depends on it, and a check."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.aws import Aws
    from conformance.sources import Source

    Check = Callable[[Aws], None]

CLAIMS: list[Claim] = []
"""Every claim, in the order of the modules that declare them."""


class Outcome(StrEnum):
    """The result of one claim in one place."""

    MET = "met"
    NOT_MET = "not met"
    NOT_MODELLED = "not modelled"
    DOCUMENTED = "documented only"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One behaviour of AWS that the product depends on.

    Attributes:
        name: Name of the function that declares it.
        area: Module that declares it.
        sentence: The assumption, in one sentence.
        sources: Evidence from outside this project.
        used_by: Paths of the code that depends on it, relative to the repository.
        check: Raises an exception if the assumption is wrong.
        why_documented: Why it cannot be checked in an account; empty for a claim that is checked there.
        checked_locally: True if it is checked in a localcloud although it cannot be checked in an account.
        not_modelled: Why localcloud does not meet it; empty if it does.
        trainings: Number of training instances that the check uses concurrently; each is billed for some minutes.
    """

    name: str
    area: str
    sentence: str
    sources: tuple[Source, ...]
    used_by: tuple[str, ...]
    check: Check
    why_documented: str = ""
    checked_locally: bool = False
    not_modelled: str = ""
    trainings: int = 0


def claim(*sources: Source, used_by: str, not_modelled: str = "", trainings: int = 0) -> Callable[[Check], Check]:
    """Declare that a function checks a claim; its docstring is the claim's sentence.

    Args:
        sources: Evidence from outside this project.
        used_by: The code that depends on it: paths, separated by spaces.
        not_modelled: Why localcloud does not meet it.
        trainings: Number of training instances that the check uses concurrently.
    """

    def declare(check: Check) -> Check:
        CLAIMS.append(_declared(check, sources, used_by, not_modelled=not_modelled, trainings=trainings))
        return check

    return declare


def documented(
    *sources: Source, used_by: str, why: str, not_modelled: str = "", checked_locally: bool = False
) -> Callable[[Check], Check]:
    """Declare a claim that cannot be checked in an account, where its function is never called.

    Args:
        sources: Evidence from outside this project.
        used_by: The code that depends on it: paths, separated by spaces.
        why: Why it cannot be checked.
        not_modelled: The part of it that localcloud does not implement.
        checked_locally: True if the function checks it in a localcloud.
    """

    def declare(check: Check) -> Check:
        documented_claim = _declared(check, sources, used_by, why_documented=why, not_modelled=not_modelled)
        CLAIMS.append(replace(documented_claim, checked_locally=checked_locally))
        return check

    return declare


def _declared(  # noqa: PLR0913 - most are keyword-only
    check: Check,
    sources: tuple[Source, ...],
    used_by: str,
    *,
    why_documented: str = "",
    not_modelled: str = "",
    trainings: int = 0,
) -> Claim:
    return Claim(
        name=check.__name__,
        area=check.__module__.rpartition(".")[2],
        sentence=" ".join((check.__doc__ or "").split()),
        sources=sources,
        used_by=tuple(used_by.split()),
        check=check,
        why_documented=why_documented,
        not_modelled=not_modelled,
        trainings=trainings,
    )
