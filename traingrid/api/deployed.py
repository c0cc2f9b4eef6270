"""Deployed grid: finds the deployment of grid.yaml's grid by the outputs of its control stack."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as UnreachableError

from traingrid import names
from traingrid.aws.clients import client
from traingrid.aws.error_codes import concerns_credentials
from traingrid.errors import TraingridError
from traingrid.grid.deployment import Deployment
from traingrid.grid.file import load_grid
from traingrid.grid.model import GridSettings

logger = logging.getLogger(__name__)
_ADDRESS = "Check the network and AWS_ENDPOINT_URL; a local AWS must still run (traingrid local status)."
_CREDENTIALS = (
    "Set AWS credentials as for the AWS CLI; for a local AWS, those that it printed when it started "
    '(eval "$(traingrid local up)").'
)


def find_deployment(grid_file: Path) -> Deployment:
    """Return the deployment of a grid from the environment of its intake function, which shows the deployed state.

    Args:
        grid_file: Path of grid.yaml; only its name and home Region are used.

    Raises:
        GridError: grid.yaml is invalid.
        TraingridError: The grid is not deployed, or AWS does not answer.
    """
    grid = load_grid(grid_file)
    outputs = _outputs(grid)
    with _answers(grid):
        intake = client("lambda", grid.home).get_function_configuration(FunctionName=outputs["IntakeFunction"])
    return Deployment.from_environment(intake["Environment"]["Variables"])


def find_cluster(grid: GridSettings) -> str:
    """Return the endpoint of the cluster of Aurora DSQL that the deployment of `catalog: dsql` created.

    Raises:
        TraingridError: The grid is not deployed with `catalog: dsql`, or AWS does not answer.
    """
    endpoint = _outputs(grid).get("CatalogEndpoint")
    if endpoint is None:
        text = f"The grid {grid.name} was deployed without `catalog: dsql`, so its catalog does not exist."
        raise TraingridError(text, "Deploy it again: npx cdk deploy --all.")
    return endpoint


def _outputs(grid: GridSettings) -> dict[str, str]:
    """Return the outputs of the control stack."""
    stack = names.control_stack(grid.name)
    logger.info("reading the deployment of grid %s from stack %s in %s", grid.name, stack, grid.home)
    with _answers(grid):
        description = client("cloudformation", grid.home).describe_stacks(StackName=stack)["Stacks"][0]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in description.get("Outputs", [])}
    if "IntakeFunction" not in outputs:
        text = f"The stack {stack} in {grid.home} is incomplete: {description['StackStatus']}."
        raise TraingridError(text, "Deploy it again: npx cdk deploy --all.")
    return outputs


@contextmanager
def _answers(grid: GridSettings) -> Iterator[None]:
    """Convert the errors of AWS requests in the home Region."""
    try:
        yield
    except ClientError as error:
        message = error.response["Error"].get("Message", "")
        if "does not exist" in message:
            stack = names.control_stack(grid.name)
            text = f"The grid {grid.name} is not deployed: the stack {stack} does not exist in {grid.home}."
            raise TraingridError(text, "Deploy it: npx cdk deploy --all.") from error
        step = (
            _CREDENTIALS if concerns_credentials(error.response) else "Correct this cause, and run the command again."
        )
        raise TraingridError(f"AWS request in {grid.home} failed: {message.rstrip('.')}.", step) from error
    except (HTTPClientError, UnreachableError) as error:
        raise TraingridError(f"AWS in {grid.home} does not answer: {error}.", _ADDRESS) from error
    except ValueError as error:  # botocore has no class for an address that is none
        if not str(error).startswith("Invalid endpoint"):
            raise
        raise TraingridError(f"The address of AWS is not valid: {error}.", "Correct AWS_ENDPOINT_URL.") from error
    except BotoCoreError as error:  # before any request, for example because there are no credentials
        raise TraingridError(f"AWS in {grid.home} cannot be called: {error}.", _CREDENTIALS) from error
