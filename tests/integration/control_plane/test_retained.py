"""Retained: the resources that outlive a grid are listed with size, price and the command that removes them."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from localcloud.credentials.environments import user_environment
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from traingrid import names
from traingrid.aws.clients import client
from traingrid.cli.main import cli

GRID = """\
name: gone
home: us-east-1
regions: {us-east-1: , eu-west-1: }
images: {resnet: {repository: training, tag: "1"}}
job: {image: resnet, instance_type: ml.m5.large}
"""
ACCOUNT = "123456789012"
TAGS = [{"TagKey": names.TAG_GRID, "TagValue": "gone"}]

Command = Callable[[], str]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with LocalCloud(Settings(data_dir=tmp_path_factory.mktemp("gone"))) as running:
        yield running


@pytest.fixture
def retained(
    cloud: LocalCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Return a function that runs the command on this grid, and returns its output."""
    for name, value in user_environment(cloud.endpoint_url).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COLUMNS", "250")
    (tmp_path / "grid.yaml").write_text(GRID)

    def command() -> str:
        cli.main(["--grid", str(tmp_path / "grid.yaml"), "retained"], standalone_mode=False)
        return capsys.readouterr().out

    return command


def make_bucket(name: str, region: str) -> None:
    where = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    client("s3", region).create_bucket(Bucket=name, **where)


def command_for(output: str, what: str) -> str:
    """Return the command that removes a resource, from the output."""
    (line,) = [line for line in output.splitlines() if f" {what}: " in line]
    return line.split(f" {what}: ", 1)[1]


def test_a_grid_that_was_never_deployed_has_no_retained_resources(retained: Command) -> None:
    assert retained() == "no resources of gone remain\n"


def test_buckets_ledger_and_keys_are_found_without_stacks(retained: Command) -> None:
    make_bucket(names.manifest_bucket("gone", ACCOUNT, "us-east-1"), "us-east-1")
    make_bucket(names.data_bucket("gone", ACCOUNT, "eu-west-1"), "eu-west-1")
    make_bucket(names.output_bucket("gone", ACCOUNT, "ap-southeast-2"), "ap-southeast-2")  # a removed Region
    make_bucket("gone-data-of-somebody", "us-east-1")
    client("s3", "us-east-1").put_object(
        Bucket=names.manifest_bucket("gone", ACCOUNT, "us-east-1"), Key="manifests/a.csv", Body=b"x"
    )
    client("dynamodb", "us-east-1").create_table(
        TableName=names.ledger("gone"),
        BillingMode="PAY_PER_REQUEST",
        DeletionProtectionEnabled=True,
        KeySchema=[{"AttributeName": "submission", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "submission", "AttributeType": "S"}],
    )
    for region, description in (("eu-west-1", "traingrid gone: alias/gone"), ("us-east-1", "not the grid's")):
        tags = TAGS if "traingrid" in description else []
        client("kms", region).create_key(Description=description, Tags=tags)
    output = retained()
    for name in ("gone-manifests-123456789012-us-east-1", "gone-data-123456789012-eu-west-1", "gone-ledger"):
        assert name in output
    assert "ap-southeast-2 gone-output-123456789012-ap-southeast-2: " in output
    assert "somebody" not in output
    assert "not the grid's" not in output
    assert re.search(r"encryption key: traingrid gone: alias/gone +1\.00", output)
    assert output.splitlines()[-1].startswith("5 remain of gone, which is destroyed: $1.00 a month")
    assert "and 1 of unknown size" in output
    assert re.search(r"gone-manifests-123456789012-us-east-1 .* \? +\?", output)
    assert re.search(r"gone-data-123456789012-eu-west-1 .* 0\.00 +0\.00", output)


def test_a_bucket_has_the_size_from_cloudwatch_and_its_price(retained: Command) -> None:
    name = names.data_bucket("gone", ACCOUNT, "eu-west-1")
    client("cloudwatch", "eu-west-1").put_metric_data(
        Namespace="AWS/S3",
        MetricData=[
            {
                "MetricName": "BucketSizeBytes",
                "Dimensions": [
                    {"Name": "BucketName", "Value": name},
                    {"Name": "StorageType", "Value": kind},
                ],
                "Timestamp": datetime.now(UTC) - timedelta(hours=1),
                "Value": 50 * 2**30,
            }
            for kind in ("StandardStorage", "StandardIAStorage")
        ],
    )
    assert re.search(rf"{name} +uploaded data +100\.00 +2\.30", retained())


def test_while_stacks_exist_the_resources_that_destroy_keeps_are_listed(retained: Command) -> None:
    template = json.dumps({"Resources": {"H": {"Type": "AWS::CloudFormation::WaitConditionHandle"}}})
    for name, region in (("gone-control", "us-east-1"), ("gone-sa-east-1", "sa-east-1")):
        client("cloudformation", region).create_stack(StackName=name, TemplateBody=template)
    output = retained()
    assert "5 are retained when gone is destroyed" in output
    assert "deployed: gone-control, gone-sa-east-1" in output
    assert command_for(output, "stack gone-sa-east-1").startswith("aws cloudformation delete-stack --region sa-east-1")
    for name, region in (("gone-control", "us-east-1"), ("gone-sa-east-1", "sa-east-1")):
        client("cloudformation", region).delete_stack(StackName=name)


def test_the_command_for_a_bucket_removes_it_with_all_versions(retained: Command) -> None:
    name = names.manifest_bucket("gone", ACCOUNT, "us-east-1")
    s3 = client("s3", "us-east-1")
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    for body in (b"1", b"2"):
        s3.put_object(Bucket=name, Key="manifests/a.csv", Body=body)
    s3.delete_object(Bucket=name, Key="manifests/a.csv")
    program, *arguments = shlex.split(command_for(retained(), name))
    assert program == "python"
    subprocess.run([sys.executable, *arguments], check=True)
    assert name not in retained()


def test_a_key_that_is_scheduled_for_deletion_is_not_listed(retained: Command) -> None:
    kms = client("kms", "eu-west-1")
    arguments = shlex.split(command_for(retained(), _key(retained())))
    assert arguments[:3] == ["aws", "kms", "schedule-key-deletion"]
    kms.schedule_key_deletion(KeyId=arguments[-1])
    assert "arn:aws:kms" not in retained()


def _key(output: str) -> str:
    (found,) = set(re.findall(r"arn:aws:kms:[^ ]+(?=: )", output))
    return str(found)


def test_regions_in_another_account_are_listed_with_that_account(retained: Command, tmp_path: Path) -> None:
    text = GRID.replace("home:", f'account: "{ACCOUNT}"\nhome:').replace(
        "eu-west-1: ", 'eu-west-1: {account: "210987654321"}'
    )
    (tmp_path / "grid.yaml").write_text(text)
    assert "eu-west-1 is in account 210987654321: list its resources with credentials of that account" in retained()
