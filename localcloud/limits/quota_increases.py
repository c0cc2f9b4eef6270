"""The page with which a user grants quota increases in place of AWS."""

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from werkzeug.wrappers import Request, Response

from localcloud.credentials.account import account
from localcloud.limits.account_limits import AccountLimits, NoSuchQuotaError, find_quota

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

PAGE = "/localcloud/quotas"


class Grant(BaseModel):
    """A new value for a quota; without a service, a grant of all pending requests.

    Attributes:
        account: The account; the server's own if empty.
        region: The Region, or `*` for all.
        service: Service code.
        quota: Code or name of the quota.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    account: str = ""
    region: str = "*"
    service: str = ""
    quota: str = ""
    value: float = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if bool(self.service) != bool(self.quota) or (self.service and "value" not in self.model_fields_set):
            raise ValueError("service, quota and value must be given together")
        return self


def install(cloud: "LocalCloud") -> None:
    """Register the page."""
    cloud.pages[PAGE] = lambda request: _page(cloud.limits, request)


def _page(limits: AccountLimits, request: Request) -> Response:
    if request.method != "POST":
        return _answer(limits, [])
    try:
        return _answer(limits, apply(limits, Grant.model_validate_json(request.get_data() or b"{}")))
    except (ValidationError, NoSuchQuotaError) as error:
        return Response(f"Nothing was granted: {error}\n", HTTPStatus.BAD_REQUEST)


def apply(limits: AccountLimits, grant: Grant) -> list[str]:
    """Apply a grant and return a line for each changed quota.

    Raises:
        NoSuchQuotaError: If the quota does not exist.
    """
    if grant.service:
        quota = find_quota(grant.service, grant.quota)
        limits.set(grant.account or account(), quota, grant.value, grant.region)
        return [f"{grant.region} {quota.service} {quota.code} {quota.name}: {grant.value:g}"]
    return [
        f"{request.region} {request.quota.service} {request.quota.code} {request.quota.name}: {request.desired:g}"
        for request in limits.grant()
    ]


def _answer(limits: AccountLimits, granted: list[str]) -> Response:
    content: dict[str, Any] = {"profile": limits.profile, "granted": granted}
    return Response(json.dumps(content), mimetype="application/json")
