"""A first deployment with the real CDK CLI that fails: it leaves no resources, and the second deployment succeeds.

The tests depend on each other, in this order.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from localcloud.limits.quota import VPCS
from localcloud.server.local_cloud import LocalCloud
from tests.e2e.deployed import ACCOUNT, empty_cloud
from traingrid.aws.clients import client
from traingrid.errors import TraingridError
from verification.checkout.deploy import run_cdk

HOME = "us-east-1"
GRID = """\
name: traingrid
home: us-east-1
regions:
  us-east-1:
orchestrator: {image_tag: "1"}
images:
  resnet: {repository: training, tag: "1"}
job: {image: resnet, instance_type: ml.m5.large}
encryption: kms
"""


class Deployment:
    """All stacks of a grid with one Region, in a localcloud whose VPC quota is used up."""

    def __init__(self, cloud: LocalCloud) -> None:
        self.cloud, self.work = cloud, Path(cloud.data_dir)
        self.folder = self.work / "cdk.out"
        (self.work / "grid.yaml").write_text(GRID)
        context = ("-c", f"grid={self.work / 'grid.yaml'}")
        run_cdk(cloud.endpoint_url, self.work, "synth", "--quiet", *context, "-o", str(self.folder))
        run_cdk(cloud.endpoint_url, self.work, "bootstrap", "--app", str(self.folder), f"aws://{ACCOUNT}/{HOME}")
        self.allow_vpcs(0)

    def __call__(self) -> None:
        yes = ("--require-approval", "never", "--app", str(self.folder))
        run_cdk(self.cloud.endpoint_url, self.work, "deploy", "--all", *yes)

    def allow_vpcs(self, more: int) -> None:
        """Set the account's VPC quota to this many more than it has."""
        there = len(client("ec2", HOME).describe_vpcs()["Vpcs"])
        self.cloud.limits.set(ACCOUNT, VPCS, there + more)


@pytest.fixture(scope="module")
def deploy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with empty_cloud(tmp_path_factory.mktemp("first")) as cloud:
        yield Deployment(cloud)


def control_stack() -> str:
    """Return the status of the control stack."""
    found = client("cloudformation", HOME).describe_stacks(StackName="traingrid-control")["Stacks"][0]
    return str(found["StackStatus"])


def test_a_failed_first_deployment_rolls_back_and_leaves_no_ledger(deploy: Deployment) -> None:
    with pytest.raises(TraingridError, match="The maximum number of VPCs has been reached"):
        deploy()
    assert control_stack() == "ROLLBACK_COMPLETE"
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        client("dynamodb", HOME).describe_table(TableName="traingrid-ledger")
    assert not [bucket for bucket in client("s3", HOME).list_buckets()["Buckets"] if "traingrid" in bucket["Name"]]


def test_a_stack_whose_creation_failed_cannot_be_updated(deploy: Deployment) -> None:
    template = json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}})
    with pytest.raises(ClientError, match="is in ROLLBACK_COMPLETE state and can not be updated"):
        client("cloudformation", HOME).create_change_set(
            StackName="traingrid-control",
            ChangeSetName="again",
            ChangeSetType="UPDATE",
            TemplateBody=template,
            Capabilities=["CAPABILITY_NAMED_IAM"],
        )


def test_the_second_deployment_creates_the_protected_ledger(deploy: Deployment) -> None:
    deploy.allow_vpcs(1)
    deploy()
    assert control_stack() == "CREATE_COMPLETE"
    table = client("dynamodb", HOME).describe_table(TableName="traingrid-ledger")["Table"]
    assert table["DeletionProtectionEnabled"] is True
