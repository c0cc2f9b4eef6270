"""A finding: what was looked at, how it is, and the command that mends it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from collections.abc import Callable


DEPLOY = "npx cdk deploy --all"
REVERT_DRIFT = f"{DEPLOY} --revert-drift"
"""Brings resources that were changed or deleted by hand back to what their template defines; a deployment without the
option changes only what differs between two templates
(https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/drift-aware-change-sets.html)."""

_OF_ALL_STACKS = re.compile(r"npx cdk (deploy|destroy) --all")


def of_grid_file(mend: str, grid_file: Path) -> str:
    """Return a command with the context that names the grid's file, without which the CDK reads grid.yaml."""
    if grid_file == Path("grid.yaml"):
        return mend
    return _OF_ALL_STACKS.sub(rf"\g<0> -c grid={shlex.quote(str(grid_file))}", mend)


class Verdict(Enum):
    """How something is."""

    GOOD = "good"
    WRONG = "wrong"
    UNKNOWN = "not checked"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a look at one thing has found.

    Attributes:
        region: Where it is; empty for what is the account's.
        what: What was looked at.
        verdict: How it is.
        why: What was seen, as a clause.
        mend: The command, or the deed, that mends it; empty where nothing is to be mended.
    """

    region: str = ""
    what: str
    verdict: Verdict
    why: str = ""
    mend: str = ""


_NOT_ALLOWED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")


def looked(region: str, what: str, look: Callable[[], Finding], permission: str) -> Finding:
    """Return what a look finds, or that nobody knows: the caller may not look, or AWS does not answer.

    Args:
        region: Where it looks.
        what: What it looks at.
        look: The look.
        permission: The IAM action that it takes.
    """
    try:
        return look()
    except ClientError as error:
        code = error.response["Error"]["Code"]
        mend = f"let the caller do {permission}" if code in _NOT_ALLOWED else ""
        why = f"AWS answers {code}: {error.response['Error'].get('Message', '')}"
        return Finding(region=region, what=what, verdict=Verdict.UNKNOWN, why=why, mend=mend)
    except BotoCoreError as error:
        return Finding(region=region, what=what, verdict=Verdict.UNKNOWN, why=f"AWS does not answer: {error}")
