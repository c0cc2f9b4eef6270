"""The check-up asks for the quotas of the hosts that images are really built on."""

from stacks.image_build import ORCHESTRATOR, TRAINING
from traingrid.checkup.account_quotas import COMPUTE_TYPES


def test_the_check_up_knows_the_size_of_host_that_each_image_is_built_on() -> None:
    sizes = {"": ORCHESTRATOR.compute, **{target: recipe.compute for target, recipe in TRAINING.items()}}
    assert sizes == COMPUTE_TYPES
