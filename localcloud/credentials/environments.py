"""Environments of processes, isolated from the real AWS: programs do not read the user's AWS profile, files or keys."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from moto.sts.models import sts_backends

from localcloud.credentials.account import VARIABLE, account
from localcloud.credentials.secret import DUMMY_KEY, server_secret

_NO_AWS_FILES = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}
_NO_PROXY = {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}  # programs read one or the other
_SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SESSION_SECONDS = 3600
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


def user_environment(
    endpoint_url: str, region: str = "us-east-1", account_id: str = "", *, secret: str = ""
) -> dict[str, str]:
    """Return AWS variables with which any SDK or tool uses this server and no other endpoint.

    Args:
        region: Default Region of the client.
        account_id: Account of the user, if it is not the server's account.
        secret: Secret of a server in another process; by default, of the server in this process.

    Returns:
        Variables to set, which also bypass the user's proxy. The caller must unset `AWS_PROFILE` and
        `AWS_SESSION_TOKEN`.
    """
    return {
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "false",
        "AWS_ACCESS_KEY_ID": f"{DUMMY_KEY}-{account_id}" if account_id else DUMMY_KEY,
        "AWS_SECRET_ACCESS_KEY": secret or server_secret(),
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        **_NO_AWS_FILES,
        **_NO_PROXY,
    }


def keyless_environment(endpoint_url: str, region: str) -> dict[str, str]:
    """Return the variables of `user_environment` without keys, so that every call of an SDK fails."""
    variables = user_environment(endpoint_url, region)
    return {name: value for name, value in variables.items() if name not in _KEYS}


def child_environment(
    endpoint_url: str, home: Path, region: str, role_arn: str | None, extra: Mapping[str, str]
) -> dict[str, str]:
    """Return the complete environment of a child process, which inherits no other variables.

    Args:
        home: `HOME` of the child, a folder of the server.
        role_arn: Role whose temporary credentials the child gets; None gives it the user's keys.
        extra: Additional variables, which override the others.

    Returns:
        All variables of the child.
    """
    environment = {
        "PATH": os.environ.get("PATH", _SEARCH_PATH),
        "LANG": "C.UTF-8",
        "HOME": str(home),
        **user_environment(endpoint_url, region),
    }
    if role_arn:
        environment |= temporary_credentials(region, role_arn)
    return environment | dict(extra)


def temporary_credentials(region: str, role_arn: str) -> dict[str, str]:
    """Return temporary credentials of a role in the SDKs' variables, as the service that runs its process does."""
    assumed = sts_backends[account()]["aws"].assume_role(
        region_name=region,
        role_session_name="localcloud",
        role_arn=role_arn,
        policy=None,
        duration=_SESSION_SECONDS,
        external_id=None,
    )
    return {
        "AWS_ACCESS_KEY_ID": str(assumed.access_key_id),
        "AWS_SECRET_ACCESS_KEY": str(assumed.secret_access_key),
        "AWS_SESSION_TOKEN": str(assumed.session_token),
    }


@contextmanager
def closed_environment(account_id: str) -> Iterator[None]:
    """Remove all AWS, moto and proxy settings of the user from this process while a server runs in it.

    moto asks boto3 for the list of Regions, which would otherwise read the user's profile; and CloudFormation here
    calls the other services over HTTP, which no proxy could reach.
    """
    before = dict(os.environ)
    for name in before:
        if name.startswith(("AWS_", "MOTO_")) or name.lower().endswith("_proxy"):
            del os.environ[name]
    os.environ.update(_NO_AWS_FILES)
    os.environ[VARIABLE] = account_id
    os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"  # the CDK's bootstrap stack attaches policies of AWS
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
