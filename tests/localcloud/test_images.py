from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localcloud import images
from localcloud.checkout_images import push_images
from localcloud.images import ProcessImage
from localcloud.server import LocalCloud
from traingrid.errors import TraingridError
from traingrid.grid import load_grid

GRID = Path(__file__).resolve().parents[2] / "grid.yaml"


def test_a_push_to_a_repository_that_does_not_exist_is_refused(client: Callable[..., Any]) -> None:
    ecr = client("ecr")
    with pytest.raises(ecr.exceptions.RepositoryNotFoundException, match="'nowhere' does not exist"):
        images.push(ecr, "nowhere", "1", ProcessImage(command=("true",)))


def test_the_checkouts_images_need_a_deployed_grid(cloud: LocalCloud) -> None:
    with pytest.raises(TraingridError, match=r"not deployed there\. Deploy it first: npx cdk deploy"):
        list(push_images(cloud.endpoint_url, load_grid(GRID)))


def test_the_checkouts_images_are_pushed_to_every_region_and_a_second_push_changes_nothing(
    cloud: LocalCloud, client: Callable[..., Any]
) -> None:
    grid = load_grid(GRID)
    for region in grid.regions:
        client("ecr", region).create_repository(repositoryName=f"{grid.name}/training")
    pushed = list(push_images(cloud.endpoint_url, grid))
    assert [line.split()[0] for line in pushed] == [*grid.regions]
    assert list(push_images(cloud.endpoint_url, grid)) == pushed
    for region in grid.regions:
        assert len(client("ecr", region).list_images(repositoryName=f"{grid.name}/training")["imageIds"]) == 1
