"""docs/security.md agrees with the templates on permissions, conditions and trust."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.integration.policies.grid import ROLES, Document
from tests.integration.stacks.templates import as_list

PAGE = Path(__file__).parents[3] / "docs" / "security.md"
Policies = Mapping[str, list[Document]]


def rows(heading: str) -> Iterator[list[str]]:
    """Yield the cells of each row of the table below a heading."""
    section = PAGE.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_page_lists_exactly_the_granted_permissions(policies: Policies) -> None:
    written = {
        (who, action) for whos, may, *_ in rows("Who may do what") for who in whos.split(", ") for action in quoted(may)
    }
    granted = {
        (role, action)
        for role in ROLES
        for document in policies[role]
        for statement in document["Statement"]
        for action in as_list(statement["Action"])
        if statement["Effect"] == "Allow"
    }
    assert written == granted


def test_the_page_lists_exactly_the_conditions(policies: Policies) -> None:
    written = {
        (who, action, key)
        for whos, may, _, only_if, _ in rows("Who may do what")
        for who in whos.split(", ")
        for action in quoted(may)
        for key in quoted(only_if)
        if ":" in key
    }
    stated = {
        (role, action, key)
        for role in ROLES
        for document in policies[role]
        for statement in document["Statement"]
        for action in as_list(statement["Action"])
        for compared in statement.get("Condition", {}).values()
        for key in compared
    }
    assert written == stated


def test_the_page_lists_explicit_denials(policies: Policies) -> None:
    forbidden = {
        action
        for role in ROLES
        for document in policies[role]
        for statement in document["Statement"]
        for action in as_list(statement["Action"])
        if statement["Effect"] == "Deny" and "Condition" not in statement
    }
    (sentence,) = [line for line in PAGE.read_text().split("\n\n") if "is also forbidden" in line]
    assert forbidden
    assert {action for action in quoted(sentence) if action.startswith("sagemaker:")} == forbidden


def test_the_page_lists_every_trust_with_its_conditions(policies: Policies) -> None:
    written = [
        (role, *quoted(service), frozenset(key for key in quoted(whom) if key.startswith("aws:")))
        for role, service, whom in rows("Who can assume each role")
    ]
    stated = []
    for role in ROLES:
        (document,) = policies[f"trust: {role}"]
        for statement in document["Statement"]:
            keys = frozenset(key for compared in statement.get("Condition", {}).values() for key in compared)
            stated.append((role, statement["Principal"]["Service"], keys))
    assert len(written) == len(stated)
    assert set(written) == set(stated)
