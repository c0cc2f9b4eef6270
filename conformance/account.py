"""Real accounts: a run starts only in the account that the user named, has credentials for, and agreed to charge."""

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
    """The run was refused before anything was created."""


def account_place(  # noqa: PLR0913 - the user gives the first four
    account: str,
    regions: Sequence[str],
    budget: float,
    claims: Sequence[Claim],
    *,
    agreed: Callable[[str], bool],
    session: boto3.Session | None = None,
) -> Place:
    """Return a real account as the place of a run, after its owner has agreed to the estimated cost.

    Args:
        account: Account id given by the user.
        regions: The home Region and a second Region.
        budget: Maximum estimated cost in dollars.
        agreed: Asks the user a question, and returns True for yes.
        session: Creates the clients; by default a session with the environment's credentials.

    Raises:
        RefusedError: A value is invalid, the credentials belong to another account, the estimate exceeds the budget,
            or the user does not agree.
    """
    if not re.fullmatch(r"\d{12}", account, re.ASCII):
        raise RefusedError(f"ACCOUNT must have twelve digits; got {account}.")
    if len(set(regions)) != 2:
        raise RefusedError(f"REGIONS must name two Regions, such as us-east-1,eu-west-1; got {','.join(regions)}.")
    dollars = estimated_dollars(claims)
    if dollars > budget:
        raise RefusedError(f"The estimated cost is ${dollars:.2f}, more than BUDGET={budget:.2f}. Set a larger BUDGET.")
    session = session or boto3.Session()
    make: Any = session.client
    found = make("sts", region_name=regions[0]).get_caller_identity()["Account"]
    if found != account:
        raise RefusedError(f"The credentials belong to another account than ACCOUNT={account}. Nothing was created.")
    count = sum(1 for claim in claims if not claim.why_documented)
    question = (
        f"Check {count} claims in account {account}, {' and '.join(regions)}? The estimated cost is at most "
        f"${dollars:.2f}, charged to this account. Resources are tagged traingrid:conformance and deleted at the end."
    )
    if not agreed(question):
        raise RefusedError("Cancelled. Nothing was created.")
    return Place(
        account=account,
        regions=(regions[0], regions[1]),
        session=session,
        endpoint=None,
        copy_image=_OneAtATime().copy,
    )


class _OneAtATime:
    """Copies the public image into one repository at a time, so that it is downloaded only once."""

    def __init__(self) -> None:
        self._lock, self._image = threading.Lock(), PublicImage()

    def copy(self, ecr: Any, repository: str, tag: str) -> None:
        with self._lock:
            self._image.copy(ecr, repository, tag)


def remaining(place: Place, run: str) -> list[str]:
    """Return the ARNs of the resources in both Regions that still have a run's tag.

    The list lags by some minutes. Training jobs are kept by design: their records cost nothing and prove the run.
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
