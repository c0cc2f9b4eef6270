"""Findings: the result of one check, with the command that fixes the problem."""

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as UnreachableError

DEPLOY = "npx cdk deploy --all"
REVERT_DRIFT = f"{DEPLOY} --revert-drift"
"""Restores resources that were changed or deleted by hand to the state in their template. Without the option, a
deployment only applies differences between two templates
(https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/drift-aware-change-sets.html)."""

GRID_FILE = "GRID-FILE"
"""The placeholder for the path of the grid's file in a reason or a command; `with_grid_file` replaces it."""

DIFFERS = f"the deployed grid differs from {GRID_FILE}"
DEPLOY_THIS_FILE = f"{DEPLOY}, unless another file was deployed; to compare with that one: traingrid --grid FILE doctor"
"""The fix where the deployed grid may be that of another file, which a deployment of this one would replace."""

_OF_ALL_STACKS = re.compile(r"npx cdk (deploy|destroy) --all")
_OF_THE_GRID = re.compile(r"traingrid (?=doctor|eks access)")


def build_again(rebuild: int) -> str:
    """Return the command that rebuilds the images of a deployment after one was deleted.

    The image's sources are unchanged, so that no deployment, with or without --revert-drift, starts its build. A build
    that is started by hand has another digest than the one in the jobs.

    Args:
        rebuild: The grid's current value of `rebuild`.
    """
    if rebuild:
        edit = f"sed -i.bak 's/^rebuild:.*/rebuild: {rebuild + 1}/' {GRID_FILE}"
    else:
        edit = f"printf '\\nrebuild: 1\\n' >>{GRID_FILE}"
    return f"{edit} && {DEPLOY}"


def with_grid_file(fix: str, grid_file: Path) -> str:
    """Return a reason or a command with the path of the grid's file, where the file is edited and as an option.

    Without the option, traingrid and the CDK read grid.yaml.
    """
    fix = fix.replace(GRID_FILE, shlex.quote(str(grid_file)))
    if grid_file == Path("grid.yaml"):
        return fix
    path = shlex.quote(str(grid_file))
    fix = _OF_THE_GRID.sub(lambda _: f"traingrid --grid {path} ", fix)
    return _OF_ALL_STACKS.sub(lambda command: f"{command[0]} -c grid={path}", fix)


class Verdict(Enum):
    """The verdict of a check."""

    GOOD = "good"
    WRONG = "wrong"
    UNKNOWN = "not checked"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one check.

    Attributes:
        region: The Region of the checked resource; empty for the account.
        reason: A clause that explains the verdict.
        fix: The command or action that fixes the problem; empty without a problem.
    """

    region: str = ""
    subject: str
    verdict: Verdict
    reason: str = ""
    fix: str = ""


_NOT_ALLOWED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")


def run_check(region: str, subject: str, look: Callable[[], Finding], permission: str) -> Finding:
    """Return the finding of a check, or UNKNOWN if the caller lacks a permission or AWS does not answer.

    Args:
        permission: The IAM action that the check needs.
    """
    try:
        return look()
    except ClientError as error:
        code = error.response["Error"]["Code"]
        fix = f"allow the caller {permission}" if code in _NOT_ALLOWED else ""
        reason = f"AWS returned {code}: {error.response['Error'].get('Message', '')}"
        return Finding(region=region, subject=subject, verdict=Verdict.UNKNOWN, reason=reason, fix=fix)
    except BotoCoreError as error:
        is_silent = isinstance(error, HTTPClientError | UnreachableError)  # others occur before any request
        reason = f"AWS {'does not answer' if is_silent else 'cannot be called'}: {error}"
        return Finding(region=region, subject=subject, verdict=Verdict.UNKNOWN, reason=reason)
