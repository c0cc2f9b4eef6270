"""Relaxed policies without the one rule that a case breaks: they must allow the call, or the case proves nothing."""

import copy
from collections.abc import Iterator
from typing import Any

from tests.integration.policies.case import ACTION, RESOURCE, Case
from tests.integration.policies.grid import Document
from tests.integration.policies.trust_cases import PRINCIPAL
from tests.integration.stacks.templates import as_list

EVERYTHING: Document = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
}


def statements(documents: list[Document], effect: str, action: str) -> Iterator[dict[str, Any]]:
    """Yield the statements with an effect that name an action."""
    for document in documents:
        for statement in document["Statement"]:
            if statement["Effect"] == effect and action in as_list(statement["Action"]):
                yield statement


def without(documents: list[Document], case: Case) -> list[Document]:
    """Return a copy of a role's policies, or its trust, without the rule that the case breaks."""
    relaxed = copy.deepcopy(documents)
    if case.breaks == ACTION:
        allow = {"Effect": "Allow", "Action": case.action, "Resource": "*"}
        denials = statements(relaxed, "Deny", case.action)
        _forget(relaxed, [statement for statement in denials if "Condition" not in statement])
        return [*relaxed, {"Version": "2012-10-17", "Statement": [allow]}]
    for statement in statements(relaxed, "Allow", case.action):
        if case.breaks == RESOURCE:
            statement["Resource"] = "*"
        elif case.breaks == PRINCIPAL:
            statement["Principal"] = {"Service": case.by}
        else:
            _drop(statement, *case.breaks.split(" "))
    operator, _, key = case.breaks.partition(" ")
    _forget(
        relaxed,
        [
            statement
            for statement in statements(relaxed, "Deny", case.action)
            if key in statement.get("Condition", {}).get(operator, {})
        ],
    )
    return relaxed


def _drop(statement: dict[str, Any], operator: str, key: str) -> None:
    compared = statement.get("Condition", {}).get(operator, {})
    compared.pop(key, None)
    if not compared and operator in statement.get("Condition", {}):
        del statement["Condition"][operator]
    if not statement.get("Condition", True):
        del statement["Condition"]


def _forget(documents: list[Document], forgotten: list[dict[str, Any]]) -> None:
    for document in documents:
        document["Statement"] = [kept for kept in document["Statement"] if kept not in forgotten]
    documents[:] = [document for document in documents if document["Statement"]]
