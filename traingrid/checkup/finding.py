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

GRID_FILE = "GRID-FILE"
"""Stands for the path of the grid's file in a command, until `of_grid_file` writes it."""

_OF_ALL_STACKS = re.compile(r"npx cdk (deploy|destroy) --all")


def build_again(rebuild: int) -> str:
    """Return the command that builds the images of a deployment again, one of which was deleted.

    The sources of an image are unchanged, so that neither a deployment nor one that reverts drift starts its build; and
    a build that is started by hand has another digest than the one that jobs name.

    Args:
        rebuild: The grid's present value of `rebuild`.
    """
    if rebuild:
        edit = f"sed -i.bak 's/^rebuild:.*/rebuild: {rebuild + 1}/' {GRID_FILE}"
    else:
        edit = f"printf '\\nrebuild: 1\\n' >>{GRID_FILE}"
    return f"{edit} && {DEPLOY}"


def of_grid_file(mend: str, grid_file: Path) -> str:
    """Return a command with the path of the grid's file: where it is edited, and as the context that names it.

    Without that context the CDK reads grid.yaml.
    """
    mend = mend.replace(GRID_FILE, shlex.quote(str(grid_file)))
    if grid_file == Path("grid.yaml"):
        return mend
    context = f" -c grid={shlex.quote(str(grid_file))}"
    return _OF_ALL_STACKS.sub(lambda command: command[0] + context, mend)


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
