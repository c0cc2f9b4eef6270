"""Callers: determines a call's account from the access key that signed it."""

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from moto.core.responses import BaseResponse

from localcloud.credentials import access_keys
from localcloud.wire.signature import signature_of

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud


def install(cloud: "LocalCloud") -> None:
    """Make moto take the account from the access key.

    moto 5.2.5 assigns every call to the account that `localcloud.credentials.account` sets, if it is set. moto has no
    hook there, so the method is replaced.
    """
    cloud.replace(BaseResponse, get_current_account=_account)


def _account(response: Any) -> str:
    query = urlsplit(str(response.uri)).query
    signed = signature_of({"HTTP_AUTHORIZATION": response.headers.get("Authorization", ""), "QUERY_STRING": query})
    return access_keys.account_of(signed.access_key if signed else "")
