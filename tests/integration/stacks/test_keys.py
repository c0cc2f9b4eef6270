"""Encryption with KMS keys: of all data at rest, with permissions limited to services."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.stacks.templates import Template, a_grid, flat, resources, statements, synthesise

YOURS = {
    region: f"arn:aws:kms:{region}:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    for region in ("us-east-1", "us-west-2")
}

Grid = Callable[..., dict[str, Template]]


@pytest.fixture(scope="module")
def grid_with(layer: Path) -> Grid:
    def of(encryption: str | dict[str, Any], regions: Any = 2) -> dict[str, Template]:
        made = synthesise(a_grid(regions, encryption=encryption), layer)
        # Images contain code, not data, and ECR cannot change a repository's encryption: they use AWS's keys.
        # The guard stack, which is destroyed first, contains only a custom resource.
        return {name: it for name, it in made.items() if "-registry-" not in name and name != "traingrid-guard"}

    return of


@pytest.fixture(scope="module")
def made(grid_with: Grid) -> dict[str, Template]:
    """A grid whose stacks create their keys."""
    return grid_with("kms")


@pytest.fixture(scope="module")
def yours(grid_with: Grid) -> dict[str, Template]:
    """A grid with keys from grid.yaml."""
    return grid_with({"kind": "kms", "keys": YOURS})


def keys_used(template: Template) -> dict[str, str]:
    """Return the key of every resource that stores data, by logical id; "" for a resource without a key."""
    return {
        name: flat(_key_of(resource["Type"], resource["Properties"]))
        for name, resource in template["Resources"].items()
        if resource["Type"] in ("AWS::S3::Bucket", "AWS::DynamoDB::Table", "AWS::SQS::Queue", "AWS::Logs::LogGroup")
    }


def _key_of(kind: str, properties: dict[str, Any]) -> Any:
    match kind:
        case "AWS::S3::Bucket":
            (rule,) = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
            assert rule.get("BucketKeyEnabled"), "without a bucket key every object is a call to KMS"
            return rule["ServerSideEncryptionByDefault"].get("KMSMasterKeyID", "")
        case "AWS::DynamoDB::Table":
            return properties["SSESpecification"].get("KMSMasterKeyId", "")
        case "AWS::SQS::Queue":
            return properties.get("KmsMasterKeyId", "")
    return properties.get("KmsKeyId", "")


def test_all_data_is_encrypted_with_the_key_of_its_stack(made: dict[str, Template]) -> None:
    for name, template in made.items():
        if name == "traingrid-builds":  # the log of its builds, and its key, are in the images stack
            (key,) = set(keys_used(template).values())
            assert key.startswith("<traingrid-images.")
            assert not resources(template, "AWS::KMS::Key")
        else:
            (key,) = resources(template, "AWS::KMS::Key")
            assert set(keys_used(template).values()) == {f"<{key}.Arn>"}


def test_keys_from_grid_yaml_are_used_and_none_is_created(yours: dict[str, Template]) -> None:
    for name, template in yours.items():
        assert not resources(template, "AWS::KMS::Key")
        region = "us-west-2" if name.endswith("us-west-2") else "us-east-1"
        assert set(keys_used(template).values()) == {YOURS[region]}


def test_a_key_is_rotated_retained_and_has_an_alias(made: dict[str, Template]) -> None:
    aliases = {}
    for name, template in made.items():
        if name == "traingrid-builds":
            continue
        ((logical, key),) = resources(template, "AWS::KMS::Key").items()
        assert key["Properties"]["EnableKeyRotation"] is True
        assert (key["DeletionPolicy"], key["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
        (alias,) = resources(template, "AWS::KMS::Alias").values()
        assert flat(alias["Properties"]["TargetKeyId"]) == f"<{logical}.Arn>"
        aliases[name] = alias["Properties"]["AliasName"]
    assert aliases == {
        "traingrid-control": "alias/traingrid-control",
        "traingrid-images": "alias/traingrid-images",
        "traingrid-us-east-1": "alias/traingrid",
        "traingrid-us-west-2": "alias/traingrid",
    }


def test_a_key_policy_allows_its_account_and_three_services(made: dict[str, Template]) -> None:
    for key in [key for template in made.values() for key in resources(template, "AWS::KMS::Key").values()]:
        account, *services = key["Properties"]["KeyPolicy"]["Statement"]
        assert flat(account["Principal"]["AWS"]) == "arn:aws:iam::<AWS::AccountId>:root"
        assert {statement["Principal"]["Service"].partition(".")[0] for statement in services} == {
            "logs",
            "events",
            "cloudwatch",
        }
        for statement in services:
            of_alarms = statement["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
            # AWS documents no condition for CloudWatch, and with one that does not match, alarms are lost.
            condition = flat_condition(statement.get("Condition", {}))
            assert condition == "" if of_alarms else "<AWS::AccountId>" in condition


def flat_condition(condition: dict[str, dict[str, Any]]) -> str:
    return " ".join(flat(value) for found in condition.values() for value in found.values())


@pytest.mark.parametrize("kind", ["made", "yours"])
def test_a_role_uses_keys_through_its_services_only(kind: str, request: pytest.FixtureRequest) -> None:
    templates = request.getfixturevalue(kind)
    used = [
        (name, statement)
        for name, template in templates.items()
        for statement in statements(template)
        if any(action.startswith("kms:") for action in statement["Action"])
    ]
    assert len(used) == 13, "six functions, a child and the registrar in the Regions, two execution roles twice"
    only_reading = 0
    for name, statement in used:
        if "kms:Encrypt" in statement["Action"]:
            assert (set(statement["Action"]), "Condition" in statement) == ({"kms:Encrypt", "kms:DescribeKey"}, False)
            assert name in ("traingrid-us-east-1", "traingrid-us-west-2")
            continue
        reads = set(statement["Action"]) == {"kms:Decrypt"}
        assert reads or set(statement["Action"]) == {"kms:Decrypt", "kms:GenerateDataKey"}
        only_reading += reads
        assert statement["Condition"]["StringEquals"]["kms:ViaService"]
        if any("*" in resource for resource in statement["Resource"]):
            assert statement["Condition"]["ForAnyValue:StringEquals"] == {"kms:ResourceAliases": "alias/traingrid"}
    assert only_reading == 1  # the registrar, in the Regions


def test_a_training_job_uses_the_key_of_its_region_and_not_of_the_control_plane(made: dict[str, Template]) -> None:
    for region in ("us-east-1", "us-west-2"):
        template = made[f"traingrid-{region}"]
        (key,) = resources(template, "AWS::KMS::Key")
        (statement,) = [it for it in statements(template, "ExecutionRole") if "kms:Decrypt" in it["Action"]]
        assert statement["Resource"] == [f"<{key}.Arn>"]
        assert statement["Condition"] == {"StringEquals": {"kms:ViaService": [f"s3.{region}.amazonaws.com"]}}


def test_a_training_job_may_decrypt_with_data_keys(grid_with: Grid) -> None:
    west = {"data_buckets": ["campaigns-pdx"], "data_keys": [YOURS["us-west-2"]]}
    template = grid_with("s3", {"us-west-2": west})["traingrid-us-west-2"]
    (statement,) = [it for it in statements(template) if any(action.startswith("kms:") for action in it["Action"])]
    assert (statement["Action"], statement["Resource"]) == (["kms:Decrypt"], [YOURS["us-west-2"]])
    assert statement["Condition"] == {"StringEquals": {"kms:ViaService": "s3.us-west-2.amazonaws.com"}}
