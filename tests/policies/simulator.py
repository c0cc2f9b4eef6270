"""IAM, as a simulator that knows conditions evaluates it (docs/decisions/iam-simulator.md)."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PACKAGE = HERE / "node_modules" / "@cloud-copilot" / "iam-simulate"


class NoVerdictError(Exception):
    """The simulator is not there, or does not know what it was asked."""


def verdicts(policies: Mapping[str, Sequence[Any]], asked: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return Allowed, ImplicitlyDenied or ExplicitlyDenied for each request.

    Args:
        policies: Policy documents by name.
        asked: Each with `policies` (a name), `principal`, `action`, `resource`, `account`, `context`, and, where it is
            a role's trust that decides, `trust`.

    Raises:
        NoVerdictError: An action, resource or condition key is unknown: such a case would be denied, or allowed,
            whatever the policies say.
    """
    if not PACKAGE.is_dir():
        raise NoVerdictError(f"{PACKAGE} is not there. Run `make setup` once.")
    ended = subprocess.run(
        ["node", str(HERE / "evaluate.mjs")],
        input=json.dumps({"policies": policies, "cases": list(asked)}),
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise NoVerdictError(ended.stderr)
    answers = json.loads(ended.stdout)
    for request, answer in zip(asked, answers, strict=True):
        if answer["error"] or answer["ignored"] or not answer["result"]:
            what = answer["error"] or f"{answer['ignored']} are no condition keys of it"
            raise NoVerdictError(f"{request['action']} on {request['resource']}: {what}")
    return [str(answer["result"]) for answer in answers]
