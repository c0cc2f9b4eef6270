"""A real account as the place of a run: it is named, it is that of the credentials, and its owner has agreed."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any

import boto3

from conformance.aws import Place
from conformance.cost import estimated_dollars
from conformance.public_image import PublicImage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from conformance.claim import Claim


class RefusedError(Exception):
    """The run does not begin; nothing was created."""


def account_place(  # noqa: PLR0913 - the user gives the first four
    account: str,
    regions: Sequence[str],
    budget: float,
    claims: Sequence[Claim],
    *,
    agreed: Callable[[str], bool],
    session: boto3.Session | None = None,
) -> Place:
    """Return an account as a place, after its owner has agreed to the estimated cost.

    Args:
        account: Id of the account that the user has named.
        regions: The home Region and another one.
        budget: Dollars that the run may cost.
        claims: What is to be checked.
        agreed: Asks the user a question; True for yes.
        session: Makes clients; the environment's credentials unless one is given.

    Raises:
        RefusedError: A value is wrong, the credentials are another account's, the cost is above the budget, or the
            user does not agree.
    """
    if not re.fullmatch(r"\d{12}", account, re.ASCII):
        raise RefusedError(f"ACCOUNT={account}: an AWS account has twelve digits.")
    if len(set(regions)) != 2:
        raise RefusedError(f"REGIONS={','.join(regions)}: give two Regions, such as us-east-1,eu-west-1.")
    dollars = estimated_dollars(claims)
    if dollars > budget:
        raise RefusedError(f"The run is estimated at ${dollars:.2f}, more than BUDGET={budget:.2f}. Give a larger one.")
    session = session or boto3.Session()
    make: Any = session.client
    found = make("sts", region_name=regions[0]).get_caller_identity()["Account"]
    if found != account:
        raise RefusedError(f"The credentials are of another account than ACCOUNT={account}. Nothing was created.")
    count = sum(1 for claim in claims if not claim.why_documented)
    question = (
        f"Check {count} claims in account {account}, {' and '.join(regions)}: estimated at ${dollars:.2f} at the most, "
        "billed to this account. Resources are tagged traingrid:conformance and deleted at the end. Begin?"
    )
    if not agreed(question):
        raise RefusedError("Not begun. Nothing was created.")
    return Place(
        account=account,
        regions=(regions[0], regions[1]),
        session=session,
        endpoint=None,
        copy_image=_OneAtATime().copy,
    )


class _OneAtATime:
    """Copies the public image for one repository after the other, so that it is downloaded once."""

    def __init__(self) -> None:
        self._lock, self._image = threading.Lock(), PublicImage()

    def copy(self, ecr: Any, repository: str, tag: str) -> None:
        with self._lock:
            self._image.copy(ecr, repository, tag)


def remaining(place: Place, run: str) -> list[str]:
    """Return the ARNs of what bears a run's tag and is still known, in both Regions.

    The list lags behind by some minutes. Training jobs stay by design: their records cost nothing, and prove the run.
    """
    make: Any = place.session.client
    found = []
    for region in place.regions:
        tagging = make("resourcegroupstaggingapi", region_name=region, endpoint_url=place.endpoint)
        for page in tagging.get_paginator("get_resources").paginate(
            TagFilters=[{"Key": "traingrid:conformance", "Values": [run]}]
        ):
            found += [str(each["ResourceARN"]) for each in page["ResourceTagMappingList"]]
    return sorted(set(found))
