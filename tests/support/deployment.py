"""Deployment of a grid without the CDK CLI, which takes most of the time of a deployment into a localcloud.

The stacks are synthesized in this process, and each is deployed by the requests of `cdk deploy`;
tests/e2e/test_deploy_and_destroy.py compares them with those of the real CLI.
"""

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from app import LAYER
from localcloud.credentials.environments import user_environment
from tests.integration.stacks.templates import ROOT, an_app
from traingrid.errors import TraingridError
from traingrid.grid.file import load_grid
from traingrid.grid.model import GridSettings
from verification.checkout.image_pushes import push_images
from verification.deployed_grid import until

BOOTSTRAP = ROOT / "node_modules/aws-cdk/lib/api/bootstrap/bootstrap-template.yaml"
TRUSTED = "arn:aws:iam::aws:policy/AdministratorAccess"
OF_THE_CLI = {
    "aws:cdk:enable-path-metadata": True,
    "aws:cdk:enable-asset-metadata": True,
    "aws:cdk:disable-version-reporting": True,
}
"""The context that the CLI adds to that of cdk.json and that changes templates."""
CAPABILITIES = ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"]
PATIENCE_SECONDS = 600
_archives = dict[str, bytes]()
"""The archives of assets: each deployment of a process has the same layer, of 20 MB."""


def deploy(endpoint: str, grid_file: Path, work: Path) -> None:
    """Deploy the stacks of this checkout and push their images, as `verification.checkout.deploy.deploy` does.

    Args:
        endpoint: Address of the localcloud, which runs in this process.
        grid_file: The grid file.
        work: Folder for cdk.out.

    Raises:
        TraingridError: If a stack cannot be deployed.
    """
    grid = load_grid(grid_file)
    stacks = Stacks(endpoint, grid, work / "cdk.out")
    stacks.bootstrap()
    stacks.deploy()
    for _ in push_images(endpoint, grid):
        pass


@dataclass(frozen=True, kw_only=True)
class Stack:
    """A stack and where it is deployed.

    Attributes:
        name: Its name.
        account: Its account.
        region: Its Region.
        request: The parameters of CreateChangeSet that differ between stacks.
    """

    name: str
    account: str
    region: str
    request: dict[str, Any] = field(default_factory=dict)


class Stacks:
    """The stacks of a grid, synthesized in this process.

    Args:
        endpoint: Address of the localcloud.
        grid: The grid.
        folder: Folder for the templates and assets.
    """

    def __init__(self, endpoint: str, grid: GridSettings, folder: Path) -> None:
        self._endpoint, self.folder = endpoint, folder
        self._session, self._clients = boto3.Session(), dict[tuple[str, str, str], Any]()
        self._home = str(self._client("sts", "", grid.home).get_caller_identity()["Account"])
        self._stacks = [self._stack(artifact) for artifact in an_app(grid, LAYER, folder, OF_THE_CLI).synth().stacks]

    def bootstrap(self) -> None:
        """Deploy the stack of `cdk bootstrap` into each Region; other accounts than the first one trust it."""
        for account, region in sorted({(stack.account, stack.region) for stack in self._stacks}):
            trust, policies = ("", "") if account == self._home else (self._home, TRUSTED)
            values = {
                "TrustedAccounts": trust,
                "TrustedAccountsForLookup": "",
                "CloudFormationExecutionPolicies": policies,
                "FileAssetsBucketKmsKeyId": "AWS_MANAGED_KEY",
                "PublicAccessBlockConfiguration": "true",
            }
            parameters = [{"ParameterKey": name, "ParameterValue": value} for name, value in values.items()]
            request = {"TemplateBody": BOOTSTRAP.read_text(), "Parameters": parameters, "ImportExistingResources": True}
            self._deploy(Stack(name="CDKToolkit", account=account, region=region, request=request))

    def deploy(self, last: str = "") -> None:
        """Deploy each stack after those that it depends on.

        Args:
            last: The last stack to deploy; by default, all are deployed.

        Raises:
            TraingridError: If a stack cannot be deployed; the message has the reasons in the stack's events.
        """
        for stack in self._stacks:
            self._upload(stack)
            self._deploy(stack)
            if stack.name == last:
                return

    def _stack(self, artifact: Any) -> Stack:
        account, region = artifact.environment.account, artifact.environment.region
        account = account if account.isdigit() else self._home  # unknown for a grid without an account
        template = artifact.stack_template_asset_object_url.replace("s3:/", self._endpoint)
        request = {
            "TemplateURL": _filled(template, account),
            "RoleARN": _filled(artifact.cloud_formation_execution_role_arn, account),
            "Parameters": [{"ParameterKey": k, "ParameterValue": v} for k, v in artifact.parameters.items()],
            "Tags": [{"Key": key, "Value": value} for key, value in artifact.tags.items()],
            "ImportExistingResources": False,
        }
        return Stack(name=artifact.stack_name, account=account, region=region, request=request)

    def _client(self, service: str, account: str, region: str) -> Any:
        """Return a client of a user of an account; "" is the localcloud's own."""
        found = self._clients.get((service, account, region))
        if found is None:
            keys = user_environment(self._endpoint, account_id=account)
            create: Any = self._session.client
            found = self._clients[service, account, region] = create(
                service,
                region_name=region,
                endpoint_url=self._endpoint,
                aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
                aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
                # A request that executes a change set is answered after the deployment.
                config=Config(read_timeout=PATIENCE_SECONDS, retries={"total_max_attempts": 1}),
            )
        return found

    def _upload(self, stack: Stack) -> None:
        """Upload the template and the other assets of a stack."""
        s3 = self._client("s3", stack.account, stack.region)
        assets = json.loads((self.folder / f"{stack.name}.assets.json").read_text())["files"]
        for asset in assets.values():
            path = self.folder / asset["source"]["path"]
            content = _zipped(path) if asset["source"]["packaging"] == "zip" else path.read_bytes()
            for place in asset["destinations"].values():
                s3.put_object(Bucket=_filled(place["bucketName"], stack.account), Key=place["objectKey"], Body=content)

    def _deploy(self, stack: Stack) -> None:
        """Create or update a stack; do nothing if it would not change."""
        cloudformation, name = self._client("cloudformation", stack.account, stack.region), stack.name
        before = _status(cloudformation, name)
        if before == "ROLLBACK_COMPLETE":  # CloudFormation only deletes it
            cloudformation.delete_stack(StackName=name)
            until(lambda: not _status(cloudformation, name), f"{name} is deleted", PATIENCE_SECONDS)
            before = ""
        made = cloudformation.create_change_set(
            StackName=name,
            ChangeSetName="without-cli",
            ChangeSetType="UPDATE" if before else "CREATE",
            Capabilities=CAPABILITIES,
            IncludeNestedStacks=True,
            **stack.request,
        )
        if cloudformation.describe_change_set(ChangeSetName=made["Id"])["Status"] == "FAILED":
            cloudformation.delete_change_set(ChangeSetName=made["Id"])
            return
        cloudformation.execute_change_set(ChangeSetName=made["Id"])
        until(lambda: not _status(cloudformation, name).endswith("PROGRESS"), f"{name} is deployed", PATIENCE_SECONDS)
        if (status := _status(cloudformation, name)) not in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
            reasons = "\n".join(_reasons(cloudformation, name))
            raise TraingridError(f"{name} cannot be deployed ({status}):\n{reasons}", "Correct it.")


def _filled(text: str, account: str) -> str:
    """Return a text of the assembly with its placeholders replaced."""
    return text.replace("${AWS::AccountId}", account).replace("${AWS::Partition}", "aws")


def _zipped(folder: Path) -> bytes:
    """Return the archive of an asset, whose folder is named after its hash."""
    if found := _archives.get(folder.name):
        return found
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            archive.write(file, file.relative_to(folder))
    return _archives.setdefault(folder.name, content.getvalue())


def _status(cloudformation: Any, name: str) -> str:
    """Return the status of a stack, or an empty text if it does not exist."""
    try:
        return str(cloudformation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"])
    except ClientError as error:
        if "does not exist" not in str(error):
            raise
        return ""


def _reasons(cloudformation: Any, name: str) -> Iterator[str]:
    for event in cloudformation.describe_stack_events(StackName=name)["StackEvents"]:
        if event["ResourceStatus"].endswith("FAILED"):
            yield str(event.get("ResourceStatusReason", ""))
