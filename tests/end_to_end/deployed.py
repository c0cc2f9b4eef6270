"""A grid of two Regions in a localcloud, as a user of it finds it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from localcloud.deploy import deploy
from localcloud.isolation import user_environment
from localcloud.processes import Spawn
from localcloud.programs import Program
from localcloud.server import LocalCloud
from localcloud.settings import Settings
from traingrid.cli.status import ControlPlane

GRID = """\
name: traingrid
home: us-east-1
regions:
  us-east-1:
  eu-west-1:
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
def two_regions(work: Path, children: Spawn = Program, grid: str = GRID) -> Iterator[LocalCloud]:
    """A localcloud with a grid of two Regions in it, deployed by the real CDK CLI; `children` starts Batch's."""
    settings = Settings(
        data_dir=work,
        lambda_retry_delays_seconds=(0.5, 0.5),
        batch_stop_grace_seconds=10,
        training_stop_grace_seconds=10,
    )
    with LocalCloud(settings) as running:
        running.spawn = children
        (work / "grid.yaml").write_text(grid)
        deploy(running.endpoint_url, work / "grid.yaml", work)
        yield running


@contextmanager
def control_plane(cloud: LocalCloud) -> Iterator[ControlPlane]:
    """The control plane as the CLI sees it, with a user's environment."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in user_environment(cloud.endpoint_url).items():
            patch.setenv(name, value)
        yield ControlPlane.of(Path(cloud.data_dir) / "grid.yaml")
