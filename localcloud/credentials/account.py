"""The AWS account of the localcloud that runs in this process."""

import os

from moto.core import DEFAULT_ACCOUNT_ID

VARIABLE = "MOTO_ACCOUNT_ID"
"""The variable from which moto reads the calling account at every request (its docs, "Multi-account support")."""


def account() -> str:
    """Return the 12-digit account id: `Settings.account` of the running localcloud."""
    return os.environ.get(VARIABLE, str(DEFAULT_ACCOUNT_ID))
