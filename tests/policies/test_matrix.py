"""Every call that a role makes is allowed, and every one that is wrong in one thing is denied, for that thing alone."""

import copy
import json
from collections.abc import Iterator, Mapping

import pytest

from localcloud.iam.evaluation import verdict as localcloud_verdict
from tests.policies.case import ACTION, ALLOWED, EXPLICITLY, RESOURCE, Case
from tests.policies.child_cases import CREATE, asked, training_job
from tests.policies.derivation import PACKAGE
from tests.policies.grid import FREE, HOME, INSIDE, ROLES, Document, roles, the_templates
from tests.policies.matrix import CASES, deciding, evaluated, of_pairs
from tests.policies.mending import EVERYTHING, without
from tests.policies.simulator import NoVerdictError
from tests.stacks.templates import as_list

Policies = Mapping[str, list[Document]]
DENIED = [case for case in CASES if case.expected != ALLOWED]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_iam_says(case: Case, verdict: Mapping[Case, str]) -> None:
    assert verdict[case] == case.expected


@pytest.fixture(scope="module")
def mended(policies: Policies) -> dict[Case, str]:
    """What IAM would say to each case that is denied if the policies lacked the one thing that it breaks."""
    pairs = [(case, without(policies[deciding(case)], case)) for case in DENIED]
    return dict(zip(DENIED, of_pairs(pairs), strict=True))


@pytest.mark.parametrize("case", DENIED, ids=str)
def test_it_hangs_on_the_one_thing_that_it_breaks(case: Case, mended: Mapping[Case, str], policies: Policies) -> None:
    assert without(policies[deciding(case)], case) != policies[deciding(case)], "there is no such thing in the policies"
    assert mended[case] == ALLOWED


def test_what_is_forbidden_stays_so_whatever_else_is_allowed(policies: Policies) -> None:
    forbidden = [case for case in CASES if case.expected == EXPLICITLY]
    found = of_pairs([(case, [*policies[case.role], EVERYTHING]) for case in forbidden])
    assert forbidden
    assert set(found) == {EXPLICITLY}


def test_every_action_that_a_role_is_granted_is_one_that_it_takes(policies: Policies) -> None:
    taken = {(case.role, case.action) for case in CASES if case.expected == ALLOWED and not case.by}
    granted = {
        (role, action)
        for role in ROLES
        for statement in _statements(policies[role])
        for action in as_list(statement["Action"])
        if statement["Effect"] == "Allow"
    }
    assert granted == taken


def test_some_case_hangs_on_every_condition(policies: Policies) -> None:
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
    """IAM matches no other operator with such a key; the Service Authorization Reference has its type ArrayOf..."""
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


def test_some_case_hangs_on_the_resources_of_every_role_that_has_any(policies: Policies) -> None:
    broken = {case.role for case in DENIED if case.breaks == RESOURCE}
    assert broken == set(ROLES)


def test_every_role_of_the_templates_is_in_the_matrix(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("roles")
    (folder / "layer" / "python").mkdir(parents=True)
    made = the_templates(folder / "layer", folder / "assembly")
    here = {name for stack in made if stack != f"traingrid-{FREE}" for name in roles(made[stack])}
    assert here == {place.prefix for place in ROLES.values()}
    assert set(roles(made[f"traingrid-{FREE}"])) <= here


def test_the_matrix_is_no_smaller_than_it_was_meant_to_be() -> None:
    asked_for = {(case.role, case.action, case.resource, json.dumps(dict(case.context)), case.by) for case in CASES}
    assert len(asked_for) == len(CASES), "two cases ask the same"
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
def test_a_case_that_the_simulator_does_not_understand_is_no_denial(
    policies: Policies, action: str, resource: str, context: dict[str, str]
) -> None:
    case = Case(role="child", says="", action=action, resource=resource, context=context)
    with pytest.raises(NoVerdictError, match=action):
        evaluated([case], policies)


def test_a_policy_that_lost_a_guard_lets_the_violation_through(policies: Policies) -> None:
    """ForAllValues is true of a key that is not there: without its Null a job could be of no type that IAM sees."""
    without_type = {key: value for key, value in asked(INSIDE).items() if key != "sagemaker:InstanceTypes"}
    case = Case(role="child", says="", action=CREATE, resource=training_job(INSIDE), context=without_type)
    weak = copy.deepcopy(policies["child"])
    for statement in _statements(weak):
        statement.get("Condition", {}).get("Null", {}).pop("sagemaker:InstanceTypes", None)
    assert of_pairs([(case, weak)]) == [ALLOWED]


def test_iam_in_localcloud_says_the_same(policies: Policies, verdict: Mapping[Case, str]) -> None:
    """Two evaluators that share nothing, but for how the keys of a request are read."""
    found = {
        case: localcloud_verdict(policies[case.role], case.action, case.resource, dict(case.context))
        for case in CASES
        if not case.by
    }
    assert {str(case): said for case, said in found.items() if said != verdict[case]} == {}


def _statements(documents: list[Document]) -> Iterator[Document]:
    for document in documents:
        yield from document["Statement"]
