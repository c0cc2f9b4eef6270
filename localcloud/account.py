"""Which AWS account the localcloud of this process is."""

import os

from moto.core import DEFAULT_ACCOUNT_ID

VARIABLE = "MOTO_ACCOUNT_ID"
"""Where moto looks, at every request, for the account that calls (its documentation, "Multi-account support")."""


def account() -> str:
    """Return the twelve digits of the account: `Settings.account` of the localcloud that runs."""
    return os.environ.get(VARIABLE, str(DEFAULT_ACCOUNT_ID))
