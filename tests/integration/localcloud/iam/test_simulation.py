"""SimulatePrincipalPolicy: evaluates a role's policies for each action and resource."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.localcloud.compute import document, role

Client = Callable[..., Any]


def test_policies_are_evaluated_for_every_action_and_resource(client: Client) -> None:
    iam = client("iam")
    allow = {"Effect": "Allow", "Action": "s3:*", "Resource": "arn:aws:s3:::mine/*"}
    deny = {"Effect": "Deny", "Action": "s3:Delete*", "Resource": "*"}
    arn = role(iam, "simulated", "sagemaker.amazonaws.com", allow, deny)
    answer = iam.simulate_principal_policy(
        PolicySourceArn=arn,
        ActionNames=["s3:GetObject", "s3:DeleteObject"],
        ResourceArns=["arn:aws:s3:::mine/a", "arn:aws:s3:::theirs/a"],
    )
    found = {
        (one["EvalActionName"], one["EvalResourceName"][13:]): one["EvalDecision"]
        for one in answer["EvaluationResults"]
    }
    assert found == {
        ("s3:GetObject", "mine/a"): "allowed",
        ("s3:GetObject", "theirs/a"): "implicitDeny",
        ("s3:DeleteObject", "mine/a"): "explicitDeny",
        ("s3:DeleteObject", "theirs/a"): "explicitDeny",
    }
    assert answer["IsTruncated"] is False


def test_without_a_resource_only_a_policy_for_all_resources_allows(client: Client) -> None:
    iam = client("iam")
    narrow = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::mine/*"}
    wide = {"Effect": "Allow", "Action": "logs:PutLogEvents", "Resource": "*"}
    arn = role(iam, "narrow", "sagemaker.amazonaws.com", narrow, wide)
    results = iam.simulate_principal_policy(PolicySourceArn=arn, ActionNames=["s3:GetObject", "logs:PutLogEvents"])
    assert [one["EvalDecision"] for one in results["EvaluationResults"]] == ["implicitDeny", "allowed"]


def test_the_requests_context_keys_and_policies_are_evaluated(client: Client) -> None:
    iam = client("iam")
    conditional = {
        "Effect": "Allow",
        "Action": "iam:PassRole",
        "Resource": "*",
        "Condition": {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
    }
    arn = role(iam, "conditional", "sagemaker.amazonaws.com", conditional)

    def decision(**more: Any) -> str:
        answer = iam.simulate_principal_policy(PolicySourceArn=arn, ActionNames=["iam:PassRole"], **more)
        return str(answer["EvaluationResults"][0]["EvalDecision"])

    passed = {"ContextKeyName": "iam:PassedToService", "ContextKeyType": "string"}
    assert decision() == "implicitDeny"
    assert decision(ContextEntries=[passed | {"ContextKeyValues": ["sagemaker.amazonaws.com"]}]) == "allowed"
    assert decision(ContextEntries=[passed | {"ContextKeyValues": ["ec2.amazonaws.com"]}]) == "implicitDeny"
    denied = document({"Effect": "Deny", "Action": "*", "Resource": "*"})
    assert decision(PolicyInputList=[denied]) == "explicitDeny"


def test_a_multivalued_key_requires_a_set_operator(client: Client) -> None:
    iam, source = client("iam"), {"events:source": "traingrid.builds"}
    sends = {"Effect": "Allow", "Action": "events:PutEvents", "Resource": "*"}
    plain = role(iam, "plain", "codebuild.amazonaws.com", sends | {"Condition": {"StringEquals": source}})
    every = role(iam, "every", "codebuild.amazonaws.com", sends | {"Condition": {"ForAllValues:StringEquals": source}})
    entry = {"ContextKeyName": "events:source", "ContextKeyType": "stringList", "ContextKeyValues": [*source.values()]}
    decisions = [
        iam.simulate_principal_policy(PolicySourceArn=arn, ActionNames=["events:PutEvents"], ContextEntries=[entry])
        for arn in (plain, every)
    ]
    assert [one["EvaluationResults"][0]["EvalDecision"] for one in decisions] == ["implicitDeny", "allowed"]


def test_a_principal_that_does_not_exist_is_not_found(client: Client) -> None:
    iam = client("iam")
    for source in ("role/nobody", "user/nobody"):
        with pytest.raises(iam.exceptions.NoSuchEntityException):
            iam.simulate_principal_policy(
                PolicySourceArn=f"arn:aws:iam::123456789012:{source}", ActionNames=["s3:GetObject"]
            )
