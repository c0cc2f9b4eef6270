"""Deployment of the faulty grid: its grid.yaml, its stacks in a localcloud, and placeholder images and data."""

import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localcloud.ecr import process_images
from localcloud.ecr.process_images import ProcessImage
from localcloud.limits.quota import AccountProfile
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from traingrid import names
from traingrid.aws.clients import client
from verification.deployed_grid import deployed
from verification.faults.account import ACCOUNT, grant_instances, prepare
from verification.faults.clusters import CLUSTER, create_clusters, grant_access
from verification.faults.engine import ENGINES, EngineName
from verification.faults.faulty_grid import GRID_FILE, FaultyGrid
from verification.faults.submissions import REGIONS, data_folder

_STUB_TAG = "stub"
_GRID = f"""\
name: grid
home: us-east-1
regions:
  us-east-1: {{engine}}
  eu-west-1: {{engine}}
moves: true
on_dataset:
  - name: all
images:
  resnet: {{{{uri: "{ACCOUNT}.dkr.ecr.{{{{region}}}}.amazonaws.com/grid/training:{_STUB_TAG}"}}}}
job:
  image: resnet
  instance_type: {{instance_type}}
  processes_per_host: 8
  volume_gb: 100
  max_runtime: 24h
"""
_REGION_OF: dict[EngineName, str] = {"sagemaker": "", "eks": f"{{backend: eks, eks: {{cluster: {CLUSTER}}}}}"}


@contextmanager
def faulty_grid(
    work: Path, seed: int, account: AccountProfile = "young", engine: EngineName = "sagemaker"
) -> Iterator[FaultyGrid]:
    """Deploy a grid in two Regions with the real CDK CLI, once for any number of experiments.

    This process has a user's environment for the localcloud during the block.

    Args:
        work: Folder for the localcloud's data and logs.
        seed: Seed of every random choice.
        account: Profile of the account (`localcloud.limits`).
    """
    settings = Settings(
        data_dir=work,
        seed=seed,
        account_profile=account,
        lambda_retry_delays_seconds=(0.5, 1.0),
        batch_stop_grace_seconds=10.0,
        training_stop_grace_seconds=2.0,
        batch_max_processes=24,
    )
    file = work / GRID_FILE
    work.mkdir(parents=True, exist_ok=True)
    file.write_text(_GRID.format(engine=_REGION_OF[engine], instance_type=ENGINES[engine].instance_type))

    def prepared(cloud: LocalCloud) -> None:
        prepare(cloud)
        if engine == "eks":
            create_clusters(cloud, REGIONS)

    first = "verification.faults.disabled_safeguards:apply"
    with deployed(file, settings, first=first, prepare=prepared) as deployment:
        grant_instances(deployment.cloud, "", ENGINES[engine].instance_type)
        grant_access(deployment.cloud, deployment.plane.deployment)
        _put_data_and_images()
        yield FaultyGrid(
            cloud=deployment.cloud,
            plane=deployment.plane,
            fork_client=deployment.fork_client,
            seed=seed,
            engine=ENGINES[engine],
        )


def _put_data_and_images() -> None:
    """Push a placeholder image and data: SageMaker refuses jobs without them, although the stubs do not read them."""
    for region in REGIONS:
        nothing = ProcessImage(command=(sys.executable, "-c", ""), working_directory="/")
        process_images.push(client("ecr", region), names.training_repository("grid"), _STUB_TAG, nothing)
        bucket, _, key = data_folder(region).removeprefix("s3://").partition("/")
        for channel, part in itertools.product(("train", "validation"), range(2)):
            client("s3", region).put_object(Bucket=bucket, Key=f"{key}/{channel}/part-{part}", Body=b"x")
