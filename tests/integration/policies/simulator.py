"""IAM simulator: a package that evaluates policies with conditions (docs/decisions/iam-simulator.md)."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PACKAGE = HERE / "node_modules" / "@cloud-copilot" / "iam-simulate"


class NoVerdictError(Exception):
    """The simulator is not installed, or does not know an element of the request."""


def verdicts(policies: Mapping[str, Sequence[Any]], asked: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return Allowed, ImplicitlyDenied or ExplicitlyDenied for each request.

    Args:
        policies: Policy documents by name.
        asked: Requests with `policies` (a name), `principal`, `action`, `resource`, `account`, `context`, and `trust`
            if a role's trust decides.

    Raises:
        NoVerdictError: An action, resource or condition key is unknown; the verdict on such a case would be the same
            under any policies.
    """
    if not PACKAGE.is_dir():
        raise NoVerdictError(f"{PACKAGE} is not installed. Run `make setup` once.")
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
            what = answer["error"] or f"the action has no condition keys {answer['ignored']}"
            raise NoVerdictError(f"{request['action']} on {request['resource']}: {what}")
    return [str(answer["result"]) for answer in answers]
