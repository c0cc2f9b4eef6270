"""The deployed grid as the CLI finds it: grid.yaml says which, CloudFormation says where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from traingrid import names
from traingrid.clients import client
from traingrid.deployment import Deployment
from traingrid.errors import TraingridError
from traingrid.grid import load_grid

if TYPE_CHECKING:
    from pathlib import Path


def find_deployment(grid_file: Path) -> Deployment:
    """Return the deployment of a grid, as the outputs of its control stack tell.

    Args:
        grid_file: Path of grid.yaml.

    Raises:
        GridError: grid.yaml is wrong.
        TraingridError: The grid is not deployed, or AWS does not answer.
    """
    grid = load_grid(grid_file)
    stack = names.control_stack(grid.name)
    try:
        found = client("cloudformation", grid.home).describe_stacks(StackName=stack)["Stacks"][0]
    except ClientError as error:
        message = error.response["Error"].get("Message", "")
        if "does not exist" in message:
            text = f"The grid {grid.name} is not deployed: there is no stack {stack} in {grid.home}."
            raise TraingridError(text, "Deploy it: npx cdk deploy --all.") from error
        raise TraingridError(f"CloudFormation in {grid.home} answers: {message}.", _CREDENTIALS) from error
    except BotoCoreError as error:
        raise TraingridError(f"AWS in {grid.home} does not answer: {error}.", _CREDENTIALS) from error
    outputs = {output["OutputKey"]: output["OutputValue"] for output in found.get("Outputs", [])}
    return Deployment(
        grid=grid,
        account=found["StackId"].split(":")[4],
        table=outputs["LedgerTable"],
        manifest_bucket=outputs["ManifestBucket"],
        job_queue=outputs["JobQueue"],
        job_definition=outputs["JobDefinition"],
    )


_CREDENTIALS = 'Set AWS credentials as for the AWS CLI; for a local AWS: eval "$(traingrid local up)".'
