import json
from collections.abc import Callable
from typing import Any

import pytest

from localcloud.ecr import process_images
from localcloud.ecr.process_images import ProcessImage
from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import ACCOUNT, wait_until
from traingrid.errors import TraingridError
from traingrid.grid.model import GridSettings
from verification.checkout.image_pushes import push_images


@pytest.fixture
def pushed_by_hand() -> GridSettings:
    """Return a grid that references its image by a tag."""
    return GridSettings.model_validate(
        {
            "name": "pushed",
            "home": "us-east-1",
            "regions": {"us-east-1": {}, "eu-west-1": {}},
            "images": {"resnet": {"repository": "training", "tag": "1"}},
            "job": {"image": "resnet", "instance_type": "ml.m5.large"},
        }
    )


def test_a_push_to_a_missing_repository_is_refused(client: Callable[..., Any]) -> None:
    ecr = client("ecr")
    with pytest.raises(ecr.exceptions.RepositoryNotFoundException, match="'nowhere' does not exist"):
        process_images.push(ecr, "nowhere", "1", ProcessImage(command=("true",)))


def test_the_image_digest_is_the_manifests_digest(client: Callable[..., Any]) -> None:
    ecr = client("ecr")
    ecr.create_repository(repositoryName="digests")
    first = process_images.push(ecr, "digests", "1", ProcessImage(command=("true",)))
    assert process_images.push(ecr, "digests", "2", ProcessImage(command=("true",))) == first
    assert process_images.push(ecr, "digests", "1", ProcessImage(command=("true",))) == first, "docker accepts it too"
    assert process_images.push(ecr, "digests", "3", ProcessImage(command=("false",))) != first


def test_images_pushed_after_a_replication_rule_are_replicated(client: Callable[..., Any]) -> None:
    ecr, there = client("ecr", "eu-west-2"), client("ecr", "eu-west-3")
    for name in ("grid/training", "grid/other"):
        ecr.create_repository(repositoryName=name, imageTagMutability="IMMUTABLE")
    there.create_repository(repositoryName="grid/training", imageTagMutability="IMMUTABLE")
    process_images.push(ecr, "grid/training", "before", ProcessImage(command=("true",)))
    rule = {
        "destinations": [{"region": "eu-west-3", "registryId": ACCOUNT}],
        "repositoryFilters": [{"filter": "grid/tr", "filterType": "PREFIX_MATCH"}],
    }
    ecr.put_replication_configuration(replicationConfiguration={"rules": [rule]})
    digest = process_images.push(ecr, "grid/training", "after", ProcessImage(command=("false",)))
    process_images.push(ecr, "grid/other", "after", ProcessImage(command=("false",)))

    def arrived() -> Any:
        return there.describe_images(repositoryName="grid/training")["imageDetails"]

    (image,) = wait_until(arrived)
    assert (image["imageDigest"], image["imageTags"]) == (digest, ["after"])
    assert [each["repositoryName"] for each in there.describe_repositories()["repositories"]] == ["grid/training"]


def test_a_registry_with_replication_rules_refuses_a_second_set(client: Callable[..., Any]) -> None:
    stacks = client("cloudformation", "sa-east-1")

    def rules(region: str) -> str:
        rule = {"Destinations": [{"Region": region, "RegistryId": ACCOUNT}]}
        made = {"Type": "AWS::ECR::ReplicationConfiguration"}
        made |= {"Properties": {"ReplicationConfiguration": {"Rules": [rule]}}}  # type: ignore[dict-item]  # templates have no type
        return json.dumps({"Resources": {"R": made}})

    stacks.create_stack(StackName="first", TemplateBody=rules("eu-west-1"))
    stacks.create_stack(StackName="second", TemplateBody=rules("eu-west-1"))
    assert "already exists" in stacks.describe_stacks(StackName="second")["Stacks"][0]["StackStatusReason"]
    stacks.update_stack(StackName="first", TemplateBody=rules("eu-west-2"))
    found = client("ecr", "sa-east-1").describe_registry()["replicationConfiguration"]["rules"]
    assert found[0]["destinations"][0]["region"] == "eu-west-2"
    stacks.delete_stack(StackName="first")
    assert not client("ecr", "sa-east-1").describe_registry()["replicationConfiguration"]["rules"]


def test_pushing_the_checkouts_images_requires_a_deployed_grid(cloud: LocalCloud, pushed_by_hand: GridSettings) -> None:
    with pytest.raises(TraingridError, match=r"not deployed there\. Deploy it first: npx cdk deploy"):
        list(push_images(cloud.endpoint_url, pushed_by_hand))


def test_the_checkouts_images_are_pushed_to_every_region_only_once(
    cloud: LocalCloud, client: Callable[..., Any], pushed_by_hand: GridSettings
) -> None:
    grid = pushed_by_hand
    for region in grid.regions:
        client("ecr", region).create_repository(repositoryName=f"{grid.name}/training")
    pushed = list(push_images(cloud.endpoint_url, grid))
    assert [line.split()[0] for line in pushed] == [*grid.regions]
    assert list(push_images(cloud.endpoint_url, grid)) == pushed
    for region in grid.regions:
        assert len(client("ecr", region).list_images(repositoryName=f"{grid.name}/training")["imageIds"]) == 1


def test_an_immutable_tag_is_not_moved_to_another_image(client: Callable[..., Any]) -> None:
    ecr = client("ecr")
    ecr.create_repository(repositoryName="immutable", imageTagMutability="IMMUTABLE")
    process_images.push(ecr, "immutable", "1", ProcessImage(command=("true",)))
    with pytest.raises(ecr.exceptions.ImageTagAlreadyExistsException):
        process_images.push(ecr, "immutable", "1", ProcessImage(command=("false",)))
