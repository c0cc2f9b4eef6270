"""Amazon ECR: immutable tags and replication."""

from conformance.aws import Aws, refused
from conformance.claim import claim, documented
from conformance.resources.storage import IMAGE_TAG, image, repository
from conformance.sources import model, page

_LATER = "https://docs.aws.amazon.com/AmazonECR/latest/userguide/replication.html#replication-considerations"


@claim(
    model("ecr", "ImageTagAlreadyExistsException", "The repository is configured for tag immutability"),
    used_by="stacks/registry.py stacks/image_build.sh",
)
def immutable_tag_cannot_be_moved(aws: Aws) -> None:
    """If tags are immutable, PutImage refuses another manifest with an existing tag."""
    ecr, name = aws.client("ecr"), repository(aws, immutable=True)
    aws.place.copy_image(ecr, name, "first")
    reply = ecr.batch_get_image(repositoryName=name, imageIds=[{"imageTag": "first"}])["images"][0]
    other = reply["imageManifest"].replace("{", "{ ", 1)  # the same layers with a different digest
    kind = reply.get("imageManifestMediaType", "")
    with refused("ImageTagAlreadyExistsException"):
        ecr.put_image(repositoryName=name, imageTag="first", imageManifest=other, imageManifestMediaType=kind)


@claim(
    model("ecr", "DescribeImages", "ImageNotFoundException"),
    used_by="stacks/image_build.sh traingrid/deploy/checkup/deployed.py",
)
def missing_image_and_repository_differ(aws: Aws) -> None:
    """DescribeImages distinguishes a missing tag, ImageNotFoundException, from a missing repository."""
    ecr, missing = aws.client("ecr"), [{"imageTag": "missing"}]
    name = image(aws).partition("/")[2].partition(":")[0]
    with refused("ImageNotFoundException"):
        ecr.describe_images(repositoryName=name, imageIds=missing)
    with refused("RepositoryNotFoundException"):
        ecr.describe_images(repositoryName=aws.name("missing"), imageIds=missing)


@claim(model("ecr", "DeleteRepository", "If the repository isn't empty"), used_by="stacks/registry.py")
def repository_with_images_stays(aws: Aws) -> None:
    """DeleteRepository refuses a repository that contains images with RepositoryNotEmptyException."""
    ecr, name = aws.client("ecr"), repository(aws)
    aws.place.copy_image(ecr, name, IMAGE_TAG)
    with refused("RepositoryNotEmptyException"):
        ecr.delete_repository(repositoryName=name)


@claim(
    page(_LATER, "Only images pushed to a repository after replication is configured are copied"),
    used_by="stacks/replication.py stacks/image_build.sh docs/images.md",
)
def only_later_pushes_are_replicated(aws: Aws) -> None:
    """An image is replicated to another Region only if it was pushed after the replication rule was created."""
    ecr, there, name = aws.client("ecr"), aws.client("ecr", aws.away), aws.name("replicated")
    repository(aws, name=name)
    repository(aws, aws.away, name=name)
    aws.place.copy_image(ecr, name, "before")
    earlier = ecr.describe_registry()["replicationConfiguration"]  # restores the account's own rules
    ours = {
        "destinations": [{"region": aws.away, "registryId": aws.account}],
        "repositoryFilters": [{"filter": name, "filterType": "PREFIX_MATCH"}],
    }
    aws.undo.later("our replication rule", lambda: ecr.put_replication_configuration(replicationConfiguration=earlier))
    ecr.put_replication_configuration(replicationConfiguration={"rules": [*earlier["rules"], ours]})
    aws.place.copy_image(ecr, name, "after")

    def tags() -> list[str]:
        found = there.describe_images(repositoryName=name)["imageDetails"]
        return [tag for each in found for tag in each.get("imageTags", [])]

    aws.wait(tags, "the replicated image")
    assert tags() == ["after"]


@documented(
    page(
        "https://docs.aws.amazon.com/AmazonECR/latest/userguide/replication.html",
        "The majority of images replicate in less than 30 minutes",
    ),
    used_by="stacks/image_build.py stacks/image_build.sh",
    why="the duration has no upper bound, and differs between images",
    not_modelled="the duration of a replication: it is 0.2 seconds",
)
def replication_takes_minutes(aws: Aws) -> None:
    """Most images are replicated in less than 30 minutes; in rare cases replication takes longer."""
