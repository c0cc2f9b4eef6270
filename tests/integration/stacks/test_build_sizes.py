"""The checkup's quotas match the compute types of the image builds."""

from stacks.image_build import ORCHESTRATOR, TRAINING
from traingrid.deploy.checkup.account_quotas import COMPUTE_TYPES


def test_the_checkup_knows_the_compute_type_of_each_build() -> None:
    sizes = {"": ORCHESTRATOR.compute, **{target: recipe.compute for target, recipe in TRAINING.items()}}
    assert sizes == COMPUTE_TYPES
