"""Quotas of every account and Region of a localcloud: current values and requests for increases."""

import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from localcloud.limits.instance_quotas import training_quotas
from localcloud.limits.quota import QUOTAS, AccountProfile, Quota

MAX_ACTIVE_REQUESTS, MAX_IN_OPT_IN_REGION = 20, 2
"""Active requests per account, and per account in an opt-in Region
(https://docs.aws.amazon.com/servicequotas/latest/userguide/reference_limits.html). That requests in opt-in Regions also
count towards the account's 20 is our interpretation of "Global"."""

DEFAULT_REGIONS = frozenset(
    {
        *("us-east-1", "us-east-2", "us-west-1", "us-west-2", "ca-central-1", "sa-east-1"),
        *("eu-central-1", "eu-west-1", "eu-west-2", "eu-west-3", "eu-north-1"),
        *("ap-south-1", "ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-southeast-1", "ap-southeast-2"),
    }
)
"""Regions launched before March 20, 2019, which are enabled in every account; all others are opt-in Regions
(https://docs.aws.amazon.com/accounts/latest/reference/manage-acct-regions.html,
https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-regions.html)."""


class NoSuchQuotaError(LookupError):
    """The service has no quota with this code or name."""


class RequestRefusedError(ValueError):
    """Service Quotas refuses a request for an increase.

    Args:
        code: The error's code, as in Service Quotas' service model.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, kw_only=True)
class IncreaseRequest:
    """A request for an increase.

    Attributes:
        status: PENDING, or APPROVED after it is granted.
    """

    account: str
    region: str
    quota: Quota
    desired: float
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    status: str = "PENDING"
    created: datetime = field(default_factory=lambda: datetime.now(UTC))


class AccountLimits:
    """Stores quota values by account and Region. Thread-safe.

    Args:
        profile: The initial profile of every account.
    """

    def __init__(self, profile: AccountProfile) -> None:
        self.profile = profile
        self._lock = threading.Lock()
        self._granted_quotas: dict[tuple[str, str, Quota], float] = {}
        self._requests: list[IncreaseRequest] = []
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Register a function to call whenever a quota changes."""
        self._listeners.append(listener)

    def _notify_listeners(self) -> None:
        for listener in self._listeners:
            listener()

    def value(self, account: str, region: str, quota: Quota) -> float:
        """Return the current value of a quota."""
        with self._lock:
            return self._value(account, region, quota)

    def _value(self, account: str, region: str, quota: Quota) -> float:
        everywhere = self._granted_quotas.get((account, "*", quota), quota.value(self.profile))
        return self._granted_quotas.get((account, region, quota), everywhere)

    def set(self, account: str, quota: Quota, value: float, region: str = "*") -> None:
        """Set a quota in one Region or in all."""
        with self._lock:
            if region == "*":
                self._granted_quotas = {
                    key: granted for key, granted in self._granted_quotas.items() if key[::2] != (account, quota)
                }
            self._granted_quotas[account, region, quota] = value
        self._notify_listeners()

    def request(self, account: str, region: str, quota: Quota, desired: float) -> IncreaseRequest:
        """Create a request for an increase; it stays PENDING until `grant`.

        Raises:
            RequestRefusedError: If the quota is not adjustable, already has an active request or that value, or the
                account has too many active requests.
        """
        with self._lock:
            if not quota.adjustable:
                raise RequestRefusedError("IllegalArgumentException", f"{quota.name} is not adjustable")
            if desired <= self._value(account, region, quota):
                words = f"You must provide a quota value greater than the current quota value for {quota.name}"
                raise RequestRefusedError("IllegalArgumentException", words)
            active = [
                earlier for earlier in self._requests if earlier.account == account and earlier.status == "PENDING"
            ]
            if any((earlier.region, earlier.quota) == (region, quota) for earlier in active):
                words = f"A request for {quota.name} is already active in {region}"
                raise RequestRefusedError("ResourceAlreadyExistsException", words)
            if len(active) >= MAX_ACTIVE_REQUESTS:
                words = f"The account already has {MAX_ACTIVE_REQUESTS} active requests for increases"
                raise RequestRefusedError("QuotaExceededException", words)
            active_in_region = [earlier for earlier in active if earlier.region == region]
            if region not in DEFAULT_REGIONS and len(active_in_region) >= MAX_IN_OPT_IN_REGION:
                words = f"The account already has {MAX_IN_OPT_IN_REGION} active requests for increases in {region}"
                raise RequestRefusedError("QuotaExceededException", words)
            request = IncreaseRequest(account=account, region=region, quota=quota, desired=desired)
            self._requests.append(request)
            return request

    def requests(self, account: str, region: str) -> list[IncreaseRequest]:
        """Return all requests of an account in a Region, newest first."""
        with self._lock:
            return [
                request
                for request in reversed(self._requests)
                if (request.account, request.region) == (account, region)
            ]

    def grant(self) -> list[IncreaseRequest]:
        """Grant every pending request and return them."""
        with self._lock:
            granted = [replace(request, status="APPROVED") for request in self._requests if request.status == "PENDING"]
            for request in granted:
                self._granted_quotas[request.account, request.region, request.quota] = request.desired
            by_id = {request.id: request for request in granted}
            self._requests = [by_id.get(request.id, request) for request in self._requests]
        self._notify_listeners()
        return granted


def find_quota(service: str, code_or_name: str) -> Quota:
    """Return a quota by its code or its name.

    Raises:
        NoSuchQuotaError: If it does not exist.
    """
    for quota in quotas_of(service):
        if code_or_name in (quota.code, quota.name):
            return quota
    raise NoSuchQuotaError(f"{service} has no quota {code_or_name}")


def quotas_of(service: str) -> Iterator[Quota]:
    """Yield the quotas of a service that localcloud supports."""
    yield from training_quotas().values() if service == "sagemaker" else ()
    yield from (quota for quota in QUOTAS if quota.service == service)
