"""One mixed grid for all tests of this folder: lines train on two clusters of EKS and on SageMaker.

A person's kubectl is the real one. The cluster of the second Region has no MPI operator.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.credentials.environments import user_environment
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from tests.e2e.deployed import ACCOUNT, clusters_in, control_plane
from tests.e2e.kubernetes.world import JOBS, MPI, NOWHERE, REGIONS, SCRIPT, World
from tests.support.deployment import deploy
from traingrid import names
from traingrid.aws.clients import client

EXAMPLES = Path(__file__).resolve().parents[3] / "examples/launchers/source"
LAST = Path(__file__).with_name("test_destroyed.py")
"""The file that destroys the grid."""
GRID = f"""\
name: traingrid
home: us-east-1
regions:
  {MPI}:
    eks: {{cluster: research, kind: mpijob}}
  {JOBS}:
    backend: eks
    eks: {{cluster: research, namespace: training, service_account: trainer}}
training: {{encrypt_traffic: false}}
instance_types: [ml.m5.large, ml.m5.xlarge, {NOWHERE}]
images:
  resnet: {{repository: training, tag: "1"}}
job:
  image: resnet
  instance_type: ml.m5.large
  volume_gb: 10
  max_runtime: 10m
"""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the tests of `LAST` after all others of this folder, in every order of files."""
    last = [item for item in items if item.path == LAST]
    before = [item for item in items if item.path != LAST]
    place = max((number for number, item in enumerate(before, start=1) if item.path.parent == LAST.parent), default=0)
    items[:] = [*before[:place], *last, *before[place:]]


def network() -> str:
    """Return the section of a grid whose children and reconciler run in existing subnets."""
    subnets = client("ec2", MPI).describe_subnets()["Subnets"][:2]
    ids = ", ".join(subnet["SubnetId"] for subnet in subnets)
    return f"network: {{kind: existing, vpc: {subnets[0]['VpcId']}, subnets: [{ids}], reconciler: true}}\n"


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A localcloud with one grid for all tests of this folder, and data in each Region."""
    work = tmp_path_factory.mktemp("kubernetes")
    settings = Settings(
        data_dir=work,
        lambda_retry_delays_seconds=(0.5, 0.5),
        batch_stop_grace_seconds=10,
        training_stop_grace_seconds=10,
    )
    grid_file = work / "grid.yaml"
    (work / "code").mkdir()
    (work / "code/train.py").write_text(SCRIPT)
    shutil.copy(EXAMPLES / "count_records.py", work / "code")
    with LocalCloud(settings) as cloud, pytest.MonkeyPatch.context() as patch:
        for name, value in user_environment(cloud.endpoint_url).items():
            patch.setenv(name, value)
        patch.chdir(work)  # sources of lines must be below the current folder
        grid_file.write_text(GRID + network())
        made = World(cloud, grid_file, clusters_in(cloud, operators=(MPI,)))
        deploy(cloud.endpoint_url, grid_file, work)
        with control_plane(cloud) as made.plane:
            for region in REGIONS:
                for channel in ("train", "validation"):
                    bucket = names.data_bucket("traingrid", ACCOUNT, region)
                    client("s3", region).put_object(Bucket=bucket, Key=f"x/{channel}/a", Body=b"a")
            yield made
