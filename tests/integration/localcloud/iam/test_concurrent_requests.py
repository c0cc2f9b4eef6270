"""IAM's requests from many threads, as a deployment of several stacks sends them."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from localcloud.iam.roles import trust_of
from tests.integration.localcloud.compute import ACCOUNT

ROLES = 120
TRUST = {"Statement": {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}}


@pytest.mark.usefixtures("frequent_thread_switches")
def test_roles_are_created_and_read_at_the_same_time(client: Callable[..., Any]) -> None:
    iam = client("iam")

    def create(number: int) -> dict[str, Any]:
        iam.create_role(RoleName=f"busy-{number}", AssumeRolePolicyDocument=json.dumps(TRUST))
        assert iam.get_role(RoleName=f"busy-{number}")["Role"]["RoleName"] == f"busy-{number}"
        return trust_of(f"busy-{number}", ACCOUNT)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(create, range(ROLES))) == [TRUST] * ROLES
