"""`traingrid eks access` prints objects that kubectl can apply, and nothing else."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from traingrid.cli.main import cli
from traingrid.deploy.cluster_access import access_objects
from traingrid.errors import UsageError
from traingrid.grid.file import load_grid

GRID = """\
name: grid
home: us-east-1
regions:
  us-east-1:
  eu-west-1: {eks: {cluster: research, namespace: training}}
images: {resnet: {repository: training, tag: "1"}}
job: {image: resnet, instance_type: ml.m5.large}
"""


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    path = tmp_path / "grid.yaml"
    path.write_text(GRID)
    return path


def test_the_output_is_a_yaml_document_for_each_object(grid: Path) -> None:
    result = CliRunner().invoke(cli, ["--grid", str(grid), "eks", "access", "eu-west-1"], catch_exceptions=False)
    settings = load_grid(grid).regions["eu-west-1"].eks
    assert settings
    assert list(yaml.safe_load_all(result.stdout)) == list(access_objects("grid", settings))


def test_the_help_names_the_objects_and_who_applies_them() -> None:
    text = " ".join(CliRunner().invoke(cli, ["eks", "access", "--help"]).stdout.split())
    assert "Print Kubernetes RBAC objects for a cluster." in text
    assert "the EKS cluster of REGION" in text
    assert "An administrator of the cluster applies them once" in text


def test_anchors_and_aliases_do_not_confuse_readers(grid: Path) -> None:
    result = CliRunner().invoke(cli, ["--grid", str(grid), "eks", "access", "eu-west-1"])
    assert "&id" not in result.stdout


@pytest.mark.parametrize("region", ["us-east-1", "us-west-2"])
def test_a_region_without_a_cluster_is_refused(grid: Path, region: str) -> None:
    with pytest.raises(UsageError, match="Regions with a cluster: eu-west-1") as refused:
        cli.main(["--grid", str(grid), "eks", "access", region], standalone_mode=False)
    assert f"to {region} in" in refused.value.next_step
