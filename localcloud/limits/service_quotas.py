"""The Service Quotas API over `AccountLimits`; moto 5.2.5 only lists the default quotas of VPCs."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from moto.core.exceptions import JsonRESTError
from moto.servicequotas.responses import ServiceQuotasResponse

from localcloud.limits.account_limits import (
    AccountLimits,
    IncreaseRequest,
    NoSuchQuotaError,
    RequestRefusedError,
    find_quota,
    quotas_of,
)
from localcloud.limits.quota import Quota

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

Answer = dict[str, Any]
_PAGE = 100


def install(cloud: "LocalCloud") -> None:
    """Replace moto's operations and add the missing ones."""
    methods = {action: _method(cloud, operation) for action, operation in _OPERATIONS.items()}
    cloud.replace(ServiceQuotasResponse, **methods)


def _method(
    cloud: "LocalCloud", operation: Callable[["LocalCloud", "_Call"], Answer]
) -> Callable[[ServiceQuotasResponse], str]:
    def answer(self: ServiceQuotasResponse) -> str:
        call = _Call(json.loads(self.body or "{}"), self.current_account, self.region)
        try:
            return json.dumps(operation(cloud, call))
        except NoSuchQuotaError as error:
            raise JsonRESTError("NoSuchResourceException", str(error)) from error
        except RequestRefusedError as error:
            raise JsonRESTError(error.code, str(error)) from error

    return answer


class _Call:
    """A request with its account and Region."""

    def __init__(self, request: Mapping[str, Any], account: str, region: str) -> None:
        self.asked, self.account, self.region = request, account, region

    def quota(self) -> Quota:
        return find_quota(str(self.asked.get("ServiceCode")), str(self.asked.get("QuotaCode")))

    def page(self, name: str, entries: list[Answer]) -> Answer:
        start = int(self.asked.get("NextToken") or 0)
        end = start + int(self.asked.get("MaxResults") or _PAGE)
        return {name: entries[start:end]} | ({"NextToken": str(end)} if end < len(entries) else {})


def _list(cloud: "LocalCloud", call: _Call) -> Answer:
    quotas = [_quota_reply(cloud, call, quota) for quota in quotas_of(str(call.asked.get("ServiceCode")))]
    return call.page("Quotas", quotas)


def _list_defaults(_cloud: "LocalCloud", call: _Call) -> Answer:
    quotas = [_as_answer(call, quota, quota.default) for quota in quotas_of(str(call.asked.get("ServiceCode")))]
    return call.page("Quotas", quotas)


def _get(cloud: "LocalCloud", call: _Call) -> Answer:
    return {"Quota": _quota_reply(cloud, call, call.quota())}


def _get_default(_cloud: "LocalCloud", call: _Call) -> Answer:
    quota = call.quota()
    return {"Quota": _as_answer(call, quota, quota.default)}


def _request(cloud: "LocalCloud", call: _Call) -> Answer:
    increase = cloud.limits.request(call.account, call.region, call.quota(), float(call.asked["DesiredValue"]))
    return {"RequestedQuota": _change(increase)}


def _history(cloud: "LocalCloud", call: _Call) -> Answer:
    selection = {key: call.asked[key] for key in ("ServiceCode", "Status", "QuotaCode") if call.asked.get(key)}
    changes = [_change(increase) for increase in cloud.limits.requests(call.account, call.region)]
    return call.page("RequestedQuotas", [change for change in changes if selection.items() <= change.items()])


def _get_change(cloud: "LocalCloud", call: _Call) -> Answer:
    for increase in cloud.limits.requests(call.account, call.region):
        if increase.id == call.asked.get("RequestId"):
            return {"RequestedQuota": _change(increase)}
    raise NoSuchQuotaError(f"request {call.asked.get('RequestId')} does not exist")


def _quota_reply(cloud: "LocalCloud", call: _Call, quota: Quota) -> Answer:
    return _as_answer(call, quota, value_now(cloud.limits, cloud, call.account, call.region, quota))


def value_now(limits: AccountLimits, cloud: "LocalCloud", account: str, region: str, quota: Quota) -> float:
    """Return the enforced value; a fault plan may set a lower limit on training instances."""
    if quota.service == "sagemaker":
        planned = cloud.faults.quota(region, quota.name.partition(" ")[0])
        if planned is not None:
            return planned
    return limits.value(account, region, quota)


def _as_answer(call: _Call, quota: Quota, value: float) -> Answer:
    return {
        "ServiceCode": quota.service,
        "ServiceName": quota.service_name,
        "QuotaArn": f"arn:aws:servicequotas:{call.region}:{call.account}:{quota.service}/{quota.code}",
        "QuotaCode": quota.code,
        "QuotaName": quota.name,
        "Value": float(value),
        "Unit": "None",
        "Adjustable": quota.adjustable,
        "GlobalQuota": False,
    }


def _change(increase: IncreaseRequest) -> Answer:
    return {
        "Id": increase.id,
        "ServiceCode": increase.quota.service,
        "ServiceName": increase.quota.service_name,
        "QuotaCode": increase.quota.code,
        "QuotaName": increase.quota.name,
        "DesiredValue": increase.desired,
        "Status": increase.status,
        "Created": increase.created.timestamp(),
        "GlobalQuota": False,
        "Unit": "None",
    }


_OPERATIONS: dict[str, Callable[["LocalCloud", _Call], Answer]] = {
    "list_service_quotas": _list,
    "list_aws_default_service_quotas": _list_defaults,
    "get_service_quota": _get,
    "get_aws_default_service_quota": _get_default,
    "request_service_quota_increase": _request,
    "list_requested_service_quota_change_history": _history,
    "list_requested_service_quota_change_history_by_quota": _history,
    "get_requested_service_quota_change": _get_change,
}
"""By the method names that moto derives from the operations."""
