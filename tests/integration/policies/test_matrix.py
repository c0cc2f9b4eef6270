"""Required calls are allowed, and calls that break exactly one rule are denied because of that rule."""

import copy
import json
from collections.abc import Iterator, Mapping

import pytest

from localcloud.iam.evaluation import verdict as localcloud_verdict
from tests.integration.policies.case import ACTION, ALLOWED, EXPLICITLY, RESOURCE, Case
from tests.integration.policies.child_cases import CREATE, asked, training_job
from tests.integration.policies.derivation import PACKAGE
from tests.integration.policies.grid import FREE, HOME, INSIDE, ROLES, Document, every_template, roles
from tests.integration.policies.matrix import CASES, deciding, evaluated, of_pairs
from tests.integration.policies.relaxed import EVERYTHING, without
from tests.integration.policies.simulator import NoVerdictError
from tests.integration.stacks.templates import as_list
from tests.support.rows import each_row

Policies = Mapping[str, list[Document]]
DENIED = [case for case in CASES if case.expected != ALLOWED]


@each_row("case", ((str(case), case) for case in CASES))
def test_iam_returns_the_expected_verdict(case: Case, verdict: Mapping[Case, str]) -> None:
    assert verdict[case] == case.expected


@pytest.fixture(scope="module")
def corrected(policies: Policies) -> dict[Case, str]:
    """Return IAM's verdict on each denied case under policies without the rule that it breaks."""
    pairs = [(case, without(policies[deciding(case)], case)) for case in DENIED]
    return dict(zip(DENIED, of_pairs(pairs), strict=True))


@each_row("case", ((str(case), case) for case in DENIED))
def test_a_denial_depends_only_on_the_rule_that_the_case_breaks(
    case: Case, corrected: Mapping[Case, str], policies: Policies
) -> None:
    assert without(policies[deciding(case)], case) != policies[deciding(case)], "the policies do not contain the rule"
    assert corrected[case] == ALLOWED


def test_explicit_denials_override_every_allow(policies: Policies) -> None:
    forbidden = [case for case in CASES if case.expected == EXPLICITLY]
    found = of_pairs([(case, [*policies[case.role], EVERYTHING]) for case in forbidden])
    assert forbidden
    assert set(found) == {EXPLICITLY}


def test_the_cases_cover_exactly_the_granted_actions(policies: Policies) -> None:
    taken = {(case.role, case.action) for case in CASES if case.expected == ALLOWED and not case.by}
    granted = {
        (role, action)
        for role in ROLES
        for statement in _statements(policies[role])
        for action in as_list(statement["Action"])
        if statement["Effect"] == "Allow"
    }
    assert granted == taken


def test_some_case_breaks_every_condition(policies: Policies) -> None:
    broken = {(deciding(case), case.breaks) for case in DENIED if case.breaks not in (ACTION, RESOURCE)}
    stated = {
        (name, f"{operator} {key}")
        for name, documents in policies.items()
        for statement in _statements(documents)
        for operator, compared in statement.get("Condition", {}).items()
        for key in compared
    }
    assert len(stated) > 15
    assert stated - broken == set()


def test_every_condition_on_a_multivalued_key_has_a_set_operator(policies: Policies) -> None:
    """IAM requires a set operator for such keys; the Service Authorization Reference gives them a type ArrayOf..."""
    paths = sorted((PACKAGE / "data" / "conditionKeys").glob("*.json"))
    known = [key for path in paths for key in json.loads(path.read_text()).values()]
    multivalued = {key["key"].lower() for key in known if key["type"].startswith("ArrayOf")}
    stated = {
        (operator, key.lower())
        for documents in policies.values()
        for statement in _statements(documents)
        for operator, compared in statement.get("Condition", {}).items()
        for key in compared
    }
    found = {operator.partition(":")[0] for operator, key in stated if key in multivalued}
    assert found == {"ForAllValues", "ForAnyValue", "Null"}


def test_some_case_breaks_the_resources_of_every_role(policies: Policies) -> None:
    broken = {case.role for case in DENIED if case.breaks == RESOURCE}
    assert broken == set(ROLES)


def test_every_role_of_the_templates_is_in_the_matrix(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("roles")
    (folder / "layer" / "python").mkdir(parents=True)
    (folder / "layer" / "catalog" / "python").mkdir(parents=True)
    made = every_template(folder / "layer")
    here = {name for stack in made if stack != f"traingrid-{FREE}" for name in roles(made[stack])}
    assert here == {place.prefix for place in ROLES.values()}
    assert set(roles(made[f"traingrid-{FREE}"])) <= here


def test_the_cases_are_distinct_and_numerous() -> None:
    asked_for = {(case.role, case.action, case.resource, json.dumps(dict(case.context)), case.by) for case in CASES}
    assert len(asked_for) == len(CASES), "two cases are equal"
    assert len(CASES) >= 60


@pytest.mark.parametrize(
    ("action", "resource", "context"),
    [
        ("sagemaker:CreateTrainingJobs", training_job(INSIDE), {}),
        ("sagemaker:CreateTrainingJob", f"arn:aws:s3:::{HOME}", {}),
        ("sagemaker:CreateTrainingJob", training_job(INSIDE), {"sagemaker:RootAccess": "Enabled"}),
        ("sagemaker:CreateTrainingJob", "arn:aws:sagemaker:us-east-1:123456789012:training-job/*", {}),
    ],
)
def test_a_request_unknown_to_the_simulator_has_no_verdict(
    policies: Policies, action: str, resource: str, context: dict[str, str]
) -> None:
    case = Case(role="child", phrase="", action=action, resource=resource, context=context)
    with pytest.raises(NoVerdictError, match=action):
        evaluated([case], policies)


def test_a_policy_without_a_null_condition_allows_the_violation(policies: Policies) -> None:
    """ForAllValues matches a missing key: without the Null condition, a job could have no visible instance type."""
    without_type = {key: value for key, value in asked(INSIDE).items() if key != "sagemaker:InstanceTypes"}
    case = Case(role="child", phrase="", action=CREATE, resource=training_job(INSIDE), context=without_type)
    weak = copy.deepcopy(policies["child"])
    for statement in _statements(weak):
        statement.get("Condition", {}).get("Null", {}).pop("sagemaker:InstanceTypes", None)
    assert of_pairs([(case, weak)]) == [ALLOWED]


def test_localcloud_returns_the_same_verdicts(policies: Policies, verdict: Mapping[Case, str]) -> None:
    """The two evaluators share only the code that derives a request's condition keys."""
    found = {
        case: localcloud_verdict(policies[case.role], case.action, case.resource, dict(case.context))
        for case in CASES
        if not case.by
    }
    assert {str(case): decision for case, decision in found.items() if decision != verdict[case]} == {}


def _statements(documents: list[Document]) -> Iterator[Document]:
    for document in documents:
        yield from document["Statement"]
