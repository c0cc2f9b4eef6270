"""A Region in another account: its trust policies for the home account's roles, and their permissions."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from localcloud.iam.evaluation import verdict as localcloud_verdict
from localcloud.iam.resource_policies import allows_principal
from tests.integration.policies.account_cases import AT_HOME, CASES, HOME_ROLES, HOMES, acting_role, two_accounts
from tests.integration.policies.case import ACTION, ALLOWED, IMPLICITLY, RESOURCE, Case
from tests.integration.policies.grid import ACCOUNT, INSIDE, PARTS, Document, roles, the_templates
from tests.integration.policies.matrix import of_pairs
from tests.integration.policies.relaxed import EVERYTHING, without
from tests.integration.policies.simulator import verdicts
from tests.integration.policies.test_security_page import quoted, rows
from tests.integration.stacks.templates import Template, as_list
from tests.integration.stacks.templates import policies as all_policies
from tests.support.rows import each_row


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Template]:
    folder = tmp_path_factory.mktemp("accounts")
    (folder / "layer" / "python").mkdir(parents=True)
    return the_templates(folder / "layer", two_accounts())


def of_role(template: Template, role: str) -> list[Document]:
    found = (policy["Properties"] for policy in all_policies(template))
    return [policy["PolicyDocument"] for policy in found if role in policy["Roles"]]


@pytest.fixture(scope="module")
def granted(templates: Mapping[str, Template]) -> dict[str, list[Document]]:
    """Return the permission policies of each role in the Region's account."""
    return {part: of_role(templates[f"traingrid-{INSIDE}"], f"Acting{part.capitalize()}") for part in PARTS}


@pytest.fixture(scope="module")
def deciding(templates: Mapping[str, Template], granted: Mapping[str, list[Document]]) -> dict[str, list[Document]]:
    """Return the policies of each role in the cases: those in the Region's account, and those that assume them."""
    at_home = {HOME_ROLES[part]: of_role(templates["traingrid-control"], AT_HOME[part]) for part in HOME_ROLES}
    return {**granted, **at_home}


@pytest.fixture(scope="module")
def trusts(templates: Mapping[str, Template]) -> dict[str, Document]:
    made = roles(templates[f"traingrid-{INSIDE}"])
    return {part: made[f"Acting{part.capitalize()}"]["AssumeRolePolicyDocument"] for part in PARTS}


DENIED = [case for case in CASES if case.expected != ALLOWED]


@pytest.fixture(scope="module")
def decisions(deciding: Mapping[str, list[Document]]) -> dict[Case, str]:
    return dict(zip(CASES, of_pairs([(case, deciding[case.role]) for case in CASES]), strict=True))


@each_row("case", ((str(case), case) for case in CASES))
def test_iam_returns_the_expected_verdict(case: Case, decisions: Mapping[Case, str]) -> None:
    assert decisions[case] == case.expected


@pytest.fixture(scope="module")
def corrected(deciding: Mapping[str, list[Document]]) -> dict[Case, str]:
    pairs = [(case, without(deciding[case.role], case)) for case in DENIED]
    return dict(zip(DENIED, of_pairs(pairs), strict=True))


@each_row("case", ((str(case), case) for case in DENIED))
def test_a_denial_depends_only_on_the_rule_that_the_case_breaks(case: Case, corrected: Mapping[Case, str]) -> None:
    assert corrected[case] == ALLOWED


def test_localcloud_returns_the_same_verdicts(
    deciding: Mapping[str, list[Document]], decisions: Mapping[Case, str]
) -> None:
    found = {
        case: localcloud_verdict(deciding[case.role], case.action, case.resource, dict(case.context)) for case in CASES
    }
    assert {str(case): one for case, one in found.items() if one != decisions[case]} == {}


def test_the_cases_cover_exactly_the_granted_actions(granted: Mapping[str, list[Document]]) -> None:
    taken = {(case.role, case.action) for case in CASES if case.expected == ALLOWED and case.role in PARTS}
    assert _granted(granted) == taken


def _granted(granted: Mapping[str, list[Document]]) -> set[tuple[str, str]]:
    return {
        (role, action)
        for role, documents in granted.items()
        for document in documents
        for statement in document["Statement"]
        for action in as_list(statement["Action"])
        if statement["Effect"] == "Allow"
    }


def _becoming(principal: str, part: str, policies: str, trust: Document) -> dict[str, Any]:
    """Return the simulator's request for a principal that assumes a role."""
    account, name = principal.split(":")[4], principal.rpartition("/")[2]
    return {
        "policies": policies,
        "principal": f"arn:aws:sts::{account}:assumed-role/{name}/session",
        "action": "sts:AssumeRole",
        "resource": acting_role(part),
        "account": ACCOUNT,
        "context": {"aws:PrincipalArn": principal},
        "trust": trust,
    }


def test_only_the_right_role_of_the_control_plane_can_assume_each_role(
    templates: Mapping[str, Template], trusts: Mapping[str, Document]
) -> None:
    control = templates["traingrid-control"]
    own = {f"own {part}": of_role(control, role) for part, role in AT_HOME.items()}
    named = {**own, "everything": [EVERYTHING], "nothing": []}
    asked, expected = [], []
    for part, who in HOME_ROLES.items():
        for other, by in HOME_ROLES.items():
            right = f"arn:aws:iam::{HOMES}:role/traingrid-{by}"
            for policies, allowed in ((f"own {other}", other == part), ("everything", by == who), ("nothing", False)):
                asked.append(_becoming(right, part, policies, trusts[part]))
                expected.append(ALLOWED if allowed else IMPLICITLY)
        for stranger in (f"arn:aws:iam::{HOMES}:role/Admin", f"arn:aws:iam::999999999999:role/traingrid-{who}"):
            asked.append(_becoming(stranger, part, "everything", trusts[part]))
            expected.append(IMPLICITLY)
    assert verdicts(named, asked) == expected
    principals = [one["context"]["aws:PrincipalArn"] for one in asked]
    pairs = list(zip(asked, principals, strict=True))
    by_localcloud = [allows_principal(one["trust"], "sts:AssumeRole", principal) for one, principal in pairs]
    trusted = [principal.endswith(f":role/traingrid-{HOME_ROLES[_part(one)]}") for one, principal in pairs]
    ours = [HOMES in principal for principal in principals]
    assert by_localcloud == [a and b for a, b in zip(trusted, ours, strict=True)]


def _part(one: Mapping[str, Any]) -> str:
    return re.split("[/-]", one["resource"])[2]


def test_users_can_assume_the_role_if_the_home_account_allows_it(trusts: Mapping[str, Document]) -> None:
    person, stranger = f"arn:aws:iam::{HOMES}:role/Researcher", "arn:aws:iam::999999999999:role/Researcher"
    asked = [
        _becoming(person, "use", "everything", trusts["use"]),
        _becoming(person, "use", "nothing", trusts["use"]),
        _becoming(stranger, "use", "everything", trusts["use"]),
    ]
    assert verdicts({"everything": [EVERYTHING], "nothing": []}, asked) == [ALLOWED, IMPLICITLY, IMPLICITLY]


def test_the_security_page_lists_permissions_in_another_account(granted: Mapping[str, list[Document]]) -> None:
    written = {
        (who, action)
        for whos, may, *_ in rows("Who may do what in another account")
        for who in whos.split(", ")
        for action in quoted(may)
    }
    assert written == _granted(granted)


def test_the_matrix_has_denied_calls_for_every_role() -> None:
    assert {case.role for case in DENIED if case.breaks in (ACTION, RESOURCE)} == {*PARTS, *HOME_ROLES.values()}
    assert len(CASES) >= 100
