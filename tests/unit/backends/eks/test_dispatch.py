"""Dispatch: each Region has the backends of grid.yaml, and a grid without a cluster does not load their modules."""

import subprocess
import sys

import pytest

from tests.support.eks_jobs import REGION, eks_deployment
from traingrid.backends import describing, inventory_of, launching, logs_of
from traingrid.backends.eks.backend import Eks
from traingrid.backends.eks.log import EksLogs
from traingrid.backends.joint_inventory import JointInventory
from traingrid.backends.sagemaker.backend import SageMaker
from traingrid.backends.sagemaker.inventory import SageMakerInventory
from traingrid.backends.sagemaker.log import SageMakerLogs
from traingrid.errors import UsageError

pytestmark = pytest.mark.usefixtures("aws")
_LOADS = """
import sys
import traingrid.child.main, traingrid.reconciler.reconciler
from tests.support.sample_deployment import sample_deployment
from traingrid.backends import inventory_of, launching
inventory_of(sample_deployment(), "us-east-1")
launching(sample_deployment(), "us-east-1", "sagemaker", "direct")
print(*(name for name in sys.modules if name.startswith(("traingrid.kubernetes", "traingrid.backends.eks"))))
"""


def test_the_backend_of_a_name_is_returned() -> None:
    deployment = eks_deployment()
    assert type(launching(deployment, REGION, "eks", "direct")) is Eks
    assert type(launching(deployment, REGION, "sagemaker", "direct")) is SageMaker
    assert type(describing(deployment, REGION, "eks")) is Eks
    assert type(logs_of(deployment, REGION, "sagemaker")) is SageMakerLogs
    assert type(logs_of(deployment, REGION, "eks")) is EksLogs


@pytest.mark.parametrize("region", ["us-east-1", "us-west-2"])
def test_a_region_without_a_cluster_has_no_such_backend(region: str) -> None:
    with pytest.raises(UsageError, match=f"{region} has no cluster of Amazon EKS"):
        describing(eks_deployment(), region, "eks")


def test_a_region_with_a_cluster_has_both_inventories() -> None:
    assert isinstance(inventory_of(eks_deployment(), REGION), JointInventory)
    assert isinstance(inventory_of(eks_deployment(), "us-east-1"), SageMakerInventory)


def test_a_grid_without_a_cluster_loads_no_module_of_kubernetes() -> None:
    done = subprocess.run([sys.executable, "-c", _LOADS], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == ""
