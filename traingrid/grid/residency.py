"""Residency: the geographies and Regions in which data may be."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated

from pydantic import AfterValidator

from traingrid.grid.field_types import broken_rule

GEOGRAPHIES = {
    "af": "Africa",
    "ap": "Asia Pacific",
    "ca": "Canada",
    "eu": "Europe",
    "il": "Israel",
    "me": "Middle East",
    "mx": "Mexico",
    "sa": "South America",
    "us": "United States",
}
"""The geographies of Regions, by the first part of their codes
(https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-regions.html). `eu` also has London and Zurich,
which are not in the European Union."""
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d+")


def is_resident(region: str, residency: Collection[str]) -> bool:
    """Return True if a Region is in one of the geographies, or is one of the Regions.

    Args:
        residency: Geographies such as "eu", and Regions; empty if every Region is allowed.
    """
    return not residency or region in residency or region.partition("-")[0] in residency


def common_residency(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    """Return the geographies and Regions that two residencies allow; an empty one allows every Region.

    The result is empty, too, if they have nothing in common, so a caller checks its Region with both of them.
    """
    if not first or not second:
        return tuple(first or second)
    both = [word for word in first if is_resident(word, second)]  # a geography, too, is resident in itself
    return tuple(dict.fromkeys([*both, *(word for word in second if is_resident(word, first))]))


def unknown_areas(residency: Iterable[str]) -> list[str]:
    """Return the words that are neither a geography nor have the form of a Region."""
    return [word for word in residency if word not in GEOGRAPHIES and not _REGION.fullmatch(word)]


def _areas(words: tuple[str, ...]) -> tuple[str, ...]:
    if unknown := unknown_areas(words):
        geographies = ", ".join(GEOGRAPHIES)
        raise broken_rule(f"{unknown[0][:40]!r} is neither a Region nor one of the geographies {geographies}")
    return words


Areas = Annotated[tuple[str, ...], AfterValidator(_areas)]
"""The geographies and Regions in which data may be; empty if every Region is allowed."""


def check_residencies(residencies: Mapping[str, Collection[str]]) -> None:
    """Raise an error for a Region whose data may not be in the Region itself.

    Args:
        residencies: The residency of each Region.
    """
    for region, residency in residencies.items():
        if not is_resident(region, residency):
            rule = f"the data of {region} is in {region}, which residency does not allow; add it, or its geography"
            raise broken_rule(rule, region)


def check_indirect_copies(residencies: Mapping[str, Collection[str]], objects: str = "data") -> None:
    """Raise an error if data may be copied out of its residency by way of a Region with a wider one.

    Args:
        residencies: The residency of each Region between which data may be copied.
        objects: The word for the data, for the error.
    """
    for region, residency in residencies.items():
        inside = [intermediate for intermediate in residencies if is_resident(intermediate, residency)]
        for intermediate in inside:
            for outside in residencies.keys() - set(inside):
                if is_resident(outside, residencies[intermediate]):
                    areas = ", ".join(residency)
                    rule = f"{objects} of {region} could be copied to {intermediate} and from there to {outside}, which"
                    rule += f" the residency of {region} does not allow; give {intermediate} a residency within {areas}"
                    raise broken_rule(rule, "regions")
