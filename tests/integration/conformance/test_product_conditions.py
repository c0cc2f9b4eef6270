"""The conditions in the claims are those of the product's policies."""

import json

from conformance.resources import product
from stacks.grants import same_account
from stacks.training_job_permissions import TAGS_OF_A_LINE, creation_conditions, never
from tests.integration.stacks.templates import a_grid


def test_the_trust_in_a_service_has_the_conditions_of_the_stacks() -> None:
    arn = "arn:aws:sagemaker:us-east-1:123456789012:*"
    ours = same_account(arn)
    assert product.trust_conditions(ours["StringEquals"]["aws:SourceAccount"], arn) == ours


def test_a_creation_has_the_conditions_of_the_stacks() -> None:
    grid = a_grid(1, name=product.GRID)
    ours = creation_conditions(grid, list(grid.regions))
    claimed = product.creation_conditions(grid.job.instance_type, grid.training.max_runtime)
    assert json.loads(json.dumps(claimed)) == json.loads(json.dumps(ours))
    assert product.TAGS_OF_A_LINE == TAGS_OF_A_LINE
    denied = [where for actions, where in never(grid) if "sagemaker:CreateTrainingJob" in actions]
    assert [entry["Condition"] for entry in product.denied_creations()] == denied
