"""Grids in a localcloud, deployed without the CDK CLI."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from examples.digits.clusters import create_cluster
from localcloud.credentials.environments import user_environment
from localcloud.processes.process_group import Spawn
from localcloud.processes.program import Program
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from tests.support.deployment import deploy
from traingrid.api.control_plane import ControlPlane
from traingrid.aws.clients import client, renew
from traingrid.grid.file import load_grid

ACCOUNT = "123456789012"
GRID = """\
name: traingrid
home: us-east-1
regions:
  us-east-1:
  eu-west-1:
moves: true
on_dataset:
  - name: night
    match: {campaign: digits}
    line:
      source: s3://traingrid-data-123456789012-{region}/source/train.tar.gz
      entry_point: train.py
      launcher: none
      tags: {set: "{dataset}-{version}"}
images:
  resnet: {repository: training, tag: "1"}
job:
  image: resnet
  instance_type: ml.m5.large
  volume_gb: 10
  max_runtime: 10m
  hyperparameters:
    {model: resnet8, image_size: 16, classes: 10, first_label: 0, augmentation: none, epochs: 1, warmup_epochs: 0}
"""


@contextmanager
def empty_cloud(work: Path, home: str = "us-east-1", **variables: str) -> Iterator[LocalCloud]:
    """Start a localcloud without a grid; meanwhile this process has a user's environment and these variables."""
    try:
        settings = Settings(data_dir=work, lambda_retry_delays_seconds=(0.5, 0.5))
        with LocalCloud(settings) as cloud, pytest.MonkeyPatch.context() as patch:
            for name, value in (user_environment(cloud.endpoint_url, home) | variables).items():
                patch.setenv(name, value)
            renew()
            yield cloud
    finally:
        renew()


@contextmanager
def two_regions(
    work: Path,
    children: Spawn = Program,
    grid: str = GRID,
    prepare: Callable[[LocalCloud], object] = lambda _cloud: None,
) -> Iterator[LocalCloud]:
    """Start a localcloud with a grid of two Regions.

    Args:
        work: The folder of the localcloud.
        children: Runs Batch's children.
        grid: The content of grid.yaml, a file in the folder.
        prepare: Prepares the account before the deployment.
    """
    settings = Settings(
        data_dir=work,
        lambda_retry_delays_seconds=(0.5, 0.5),
        batch_stop_grace_seconds=10,
        training_stop_grace_seconds=10,
    )
    with LocalCloud(settings) as running:
        running.spawn = children
        (work / "grid.yaml").write_text(grid)
        prepare(running)
        deploy(running.endpoint_url, work / "grid.yaml", work)
        yield running


def clusters_in(cloud: LocalCloud, *, operators: tuple[str, ...] = (), account: str = "") -> dict[str, str]:
    """Create the cluster of each Region with `eks` as its owner does, and give the grid access to it.

    Args:
        cloud: The localcloud, with a grid that is not deployed yet.
        operators: The Regions whose cluster has the MPI operator.
        account: The account of the clusters, if it is not the localcloud's.

    Returns:
        The ARNs of the clusters, by Region.
    """
    grid = load_grid(Path(cloud.data_dir) / "grid.yaml")
    return {
        region: create_cluster(cloud, grid, region, with_operator=region in operators, account=account)
        for region, settings in grid.regions.items()
        if settings.eks
    }


@contextmanager
def control_plane(cloud: LocalCloud) -> Iterator[ControlPlane]:
    """Yield the control plane as the CLI accesses it, with a user's environment."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in user_environment(cloud.endpoint_url).items():
            patch.setenv(name, value)
        yield ControlPlane.of(Path(cloud.data_dir) / "grid.yaml")


@contextmanager
def forbidden(role: str, action: str, unless: str = "") -> Iterator[None]:
    """Remove the statement that allows an action from the inline policy of a role, during the block.

    Args:
        role: Name of the role.
        action: The action.
        unless: A statement that contains this text is kept.
    """
    iam = client("iam", "us-east-1")
    (policy,) = iam.list_role_policies(RoleName=role)["PolicyNames"]
    document = iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
    kept = [
        statement
        for statement in document["Statement"]
        if action not in statement["Action"] or (unless and unless in str(statement))
    ]
    assert len(kept) == len(document["Statement"]) - 1
    weak = {**document, "Statement": kept}
    iam.put_role_policy(RoleName=role, PolicyName=policy, PolicyDocument=json.dumps(weak))
    try:
        yield
    finally:
        iam.put_role_policy(RoleName=role, PolicyName=policy, PolicyDocument=json.dumps(document))
