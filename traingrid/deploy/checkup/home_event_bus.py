"""Home event bus: checks that the bus of a deployed grid takes the state changes of all training Regions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from traingrid import names
from traingrid.aws.clients import client
from traingrid.deploy.checkup.finding import REVERT_DRIFT, Finding, Verdict, run_check
from traingrid.strict_json import json_object

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.grid.model import GridSettings


def home_event_bus(grid: GridSettings, account: str) -> Iterator[Finding]:
    """Check the bus and its policy, which names each account with training Regions (stacks/home_event_bus.py)."""
    region, name = grid.home, names.event_bus(grid.name)

    def finding(reason: str) -> Finding:
        verdict, fix = (Verdict.WRONG, REVERT_DRIFT) if reason else (Verdict.GOOD, "")
        return Finding(region=region, subject=f"event bus {name}", verdict=verdict, reason=reason, fix=fix)

    def look() -> Finding:
        try:
            policy = client("events", region).describe_event_bus(Name=name).get("Policy", "")
        except ClientError as error:
            if error.response["Error"]["Code"] != "ResourceNotFoundException":
                raise
            return finding("does not exist: only passes record the ends of training jobs whose child has died")
        statements = json_object(policy or "{}", f"the policy of {name}").get("Statement", [])
        senders = sorted({account, *grid.other_accounts().values()})
        lacking = [sender for sender in senders if not _is_allowed(sender, statements)]
        return finding(f"its policy lacks {', '.join(lacking)}: no events arrive from there" if lacking else "")

    yield run_check(region, f"event bus {name}", look, "events:DescribeEventBus")


def _is_allowed(account: str, statements: list[dict[str, Any]]) -> bool:
    """Return True if a statement lets an account put events; AWS accepts an account's id and the ARN of its root."""
    return any(
        statement["Effect"] == "Allow"
        and "events:PutEvents" in _listed(statement["Action"])
        and any(account in principal.split(":") for principal in _principals(statement))
        for statement in statements
    )


def _principals(statement: dict[str, Any]) -> list[str]:
    principal = statement.get("Principal", {})
    return _listed(principal.get("AWS", []) if isinstance(principal, dict) else principal)


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
