"""Principal: the ARN with which an access entry of EKS can name the caller of doctor."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from traingrid.deploy.checkup import account
from traingrid.deploy.checkup.account import UNKNOWN_PRINCIPAL, principal

ACCOUNT = "123456789012"
SESSION = f"arn:aws:sts::{ACCOUNT}:assumed-role/AWSReservedSSO_Research_0123456789abcdef/ada@example.org"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/aws-reserved/sso.amazonaws.com/AWSReservedSSO_Research_0123456789abcdef"


class Aws:
    """The replies of STS and IAM; None if they refuse the call."""

    def __init__(self, arn: str | None, role: str | None) -> None:
        self.arn, self.role = arn, role

    def get_caller_identity(self) -> dict[str, Any]:
        return {"Account": ACCOUNT, "Arn": _reply(self.arn)}

    def get_role(self, *, RoleName: str) -> dict[str, Any]:  # noqa: N803 - the name of IAM
        assert RoleName == "AWSReservedSSO_Research_0123456789abcdef"
        return {"Role": {"Arn": _reply(self.role)}}


def _reply(arn: str | None) -> str:
    if arn is None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "GetRole")
    return arn


@pytest.mark.parametrize(
    ("arn", "role", "expected"),
    [
        pytest.param(SESSION, ROLE, ROLE, id="a session has the ARN of its role, with its path"),
        pytest.param(SESSION, None, UNKNOWN_PRINCIPAL, id="IAM does not show the role"),
        pytest.param(f"arn:aws:iam::{ACCOUNT}:user/research/ada", None, f"arn:aws:iam::{ACCOUNT}:user/research/ada"),
        pytest.param(f"arn:aws:iam::{ACCOUNT}:root", None, UNKNOWN_PRINCIPAL, id="an account"),
        pytest.param(f"arn:aws:sts::{ACCOUNT}:federated-user/ada", None, UNKNOWN_PRINCIPAL, id="a federated user"),
        pytest.param(None, None, UNKNOWN_PRINCIPAL, id="STS does not accept the credentials"),
    ],
)
def test_the_caller_is_named_as_a_role_or_a_user(
    monkeypatch: pytest.MonkeyPatch, arn: str | None, role: str | None, expected: str
) -> None:
    monkeypatch.setattr(account, "client", lambda *_: Aws(arn, role))
    assert principal("us-east-1") == expected
