"""Uses of condition keys: every key in a template is found, and one of them can be replaced alone."""

from typing import Any

import pytest

from tests.integration.conformance.condition_uses import NO_SUCH_KEY, Use, of_statement, of_templates, without

CONDITION = {"StringEquals": {"kms:ViaService": ["s3.us-east-1.amazonaws.com", "sqs.us-east-1.amazonaws.com"]}}
STATEMENT = {"Effect": "Allow", "Action": ["kms:Decrypt", "kms:Encrypt"], "Resource": "*", "Condition": CONDITION}
DECRYPT = Use("Allow", "", "kms:Decrypt", "StringEquals", "kms:ViaService", "s3")


def a_template(**properties: Any) -> dict[str, Any]:
    return {"stack": {"Resources": {"Rule": {"Type": "AWS::Events::Rule"}, "It": {"Properties": properties}}}}


def test_a_new_key_of_any_policy_is_found() -> None:
    arn = {"Fn::GetAtt": ["Rule", "Arn"]}
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Condition": {"ArnEquals": {"aws:SourceArn": arn}, "Bool": {"a:New": True}},
    }
    found = of_templates(a_template(Policies=[{"Document": {"Statement": [statement]}}]))
    assert {(use.principal, use.key, use.about) for use in found} == {
        ("events", "aws:SourceArn", "events:rule"),
        ("events", "a:New", ""),
    }


def test_a_policy_in_a_text_is_not_overlooked() -> None:
    with pytest.raises(AssertionError, match="a policy as text"):
        of_templates(a_template(Policy='{"Statement": [{"Effect": "Allow"}]}'))


def test_each_action_and_kind_of_value_is_a_use() -> None:
    assert {(use.action, use.about) for use in of_statement(STATEMENT)} == {
        (action, service) for action in ("kms:Decrypt", "kms:Encrypt") for service in ("s3", "sqs")
    }


def test_a_key_is_replaced_for_one_action() -> None:
    changed, rest = without(STATEMENT, DECRYPT)
    assert (changed["Action"], list(changed["Condition"]["StringEquals"])) == (["kms:Decrypt"], [NO_SUCH_KEY])
    assert (rest["Action"], rest["Condition"]) == (["kms:Encrypt"], CONDITION)
    assert without(STATEMENT, DECRYPT._replace(key="another")) == [STATEMENT]


def test_a_claim_about_an_action_covers_a_pattern() -> None:
    assert DECRYPT.covers(DECRYPT._replace(action="kms:*"))
    assert not DECRYPT.covers(DECRYPT._replace(action="s3:*"))
    assert not DECRYPT.covers(DECRYPT._replace(about="sqs"))
