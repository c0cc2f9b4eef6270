"""Random credentials for GetSessionToken and GetFederationToken; moto 5.2.5 returns constants."""

import functools
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.credentials import Credentials
from moto.sts.responses import TokenResponse

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

Answer = Callable[[Any], Any]


@dataclass(frozen=True)
class Issued:
    """Temporary credentials and their principal."""

    credentials: Credentials
    arn: str


_issued: dict[str, Issued] = {}
_moto_operations = {name: getattr(TokenResponse, name) for name in ("get_session_token", "get_federation_token")}


def install(cloud: "LocalCloud") -> None:
    """Replace the operations of moto that return constant credentials."""
    cloud.replace(
        TokenResponse, **{name: _with_random_credentials(answer) for name, answer in _moto_operations.items()}
    )
    cloud.on_stop(_issued.clear)


def issued(access_key: str) -> Issued | None:
    """Return the credentials of an access key that these operations issued, or None."""
    return _issued.get(access_key)


def _with_random_credentials(answer: Answer) -> Answer:
    @functools.wraps(answer)
    def with_random_credentials(response: Any) -> Any:
        result = answer(response)
        content: dict[str, Any] = result.result
        key = f"ASIA{secrets.token_hex(8).upper()}"  # ASIA: temporary credentials (IAM User Guide, "IAM identifiers")
        credentials = Credentials(key, secrets.token_urlsafe(30), secrets.token_urlsafe(200))
        account_id = response.current_account
        arn = content.get("FederatedUser", {}).get("Arn") or f"arn:aws:sts::{account_id}:federated-user/localcloud"
        _issued[key] = Issued(credentials, arn)
        content["Credentials"] |= {
            "AccessKeyId": key, "SecretAccessKey": credentials.secret_key, "SessionToken": credentials.token,
        }  # fmt: skip
        return result

    return with_random_credentials
