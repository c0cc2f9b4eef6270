"""ECR: replication, immutable tags, content digests and access across accounts, which moto lacks."""

import hashlib
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from moto.core.exceptions import ServiceException
from moto.ecr import urls
from moto.ecr.exceptions import ImageAlreadyExistsException, RepositoryNotFoundException
from moto.ecr.models import ECRBackend, Image, ecr_backends

from localcloud.ecr.pulls import allows_account

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud


def install(cloud: "LocalCloud") -> None:
    """Replace moto's ECR backend with ours."""
    Registry.cloud = cloud
    cloud.replace(ecr_backends, backend=Registry)


class ImageTagAlreadyExistsError(ServiceException):
    """An immutable tag belongs to another image (API reference, PutImage); moto 5.2.5 returns a different error."""

    code = "ImageTagAlreadyExistsException"

    def __init__(self, repository: str, tag: str) -> None:
        super().__init__(
            f"The image tag '{tag}' already exists in the '{repository}' repository and cannot be overwritten because "
            "the tag is immutable."
        )


class Registry(ECRBackend):
    """moto's registry with replication and real digests.

    moto 5.2.5 also returns an internal error for a push to a missing repository.
    """

    cloud: ClassVar["LocalCloud"]
    _url_module = urls

    def put_image(
        self,
        repository_name: str,
        image_manifest: str,
        image_tag: str,
        image_manifest_mediatype: str | None = None,
        digest: str | None = None,
    ) -> Image:
        """PutImage; after a delay, it also puts the image into the destinations of the registry's rules.

        Raises:
            RepositoryNotFoundException: If the repository does not exist.
            ImageTagAlreadyExistsError: If the tag has another image, and the repository's tags are immutable.
        """
        repository = self._get_repository(repository_name)
        digest = digest or f"sha256:{hashlib.sha256(image_manifest.encode()).hexdigest()}"
        tagged = [image for image in repository.images if image_tag in image.image_tags]
        if repository.image_tag_mutability == "IMMUTABLE" and any(image.image_digest != digest for image in tagged):
            raise ImageTagAlreadyExistsError(repository_name, image_tag)
        image = super().put_image(repository_name, image_manifest, image_tag, image_manifest_mediatype, digest)
        for place in self._destinations(repository_name):
            arguments = (place, repository_name, image_manifest, image_tag, image_manifest_mediatype, digest)
            later = threading.Timer(self.cloud.settings.replication_seconds, self._replicate, arguments)
            later.daemon = True
            self.cloud.on_stop(later.cancel)
            later.start()
        return image

    def describe_images(
        self, repository_name: str, registry_id: str | None = None, image_ids: list[dict[str, str]] | None = None
    ) -> Iterable[Image]:
        """DescribeImages; in another account's registry, if the repository's policy allows this account."""
        owner = self if registry_id in (None, self.account_id) else ecr_backends[registry_id][self.region_name]
        repository = owner.repositories.get(repository_name)
        if owner is not self and not (
            repository and allows_account(repository.policy, "ecr:DescribeImages", self.account_id)
        ):
            raise RepositoryNotFoundException(repository_name, registry_id)
        images: Iterable[Image] = ECRBackend.describe_images(owner, repository_name, registry_id, image_ids)
        return images

    def _destinations(self, repository_name: str) -> set[tuple[str, str]]:
        """Return account and Region of every registry to which an image pushed here is replicated."""
        destinations = set[tuple[str, str]]()
        for rule in self.replication_config["rules"]:
            prefixes = [repository_filter["filter"] for repository_filter in rule.get("repositoryFilters") or []]
            if not prefixes or repository_name.startswith(tuple(prefixes)):
                destinations |= {(entry["registryId"], entry["region"]) for entry in rule["destinations"]}
        return destinations

    def _replicate(self, place: tuple[str, str], repository_name: str, *image: str | None) -> None:
        """Put an image into another Region; create the repository, with mutable tags, if it is missing.

        In another account, the policy of its registry must allow this account, and a missing repository is not created.
        Replicated images are not replicated again (Amazon ECR User Guide, "Private image replication").
        """
        account_id, region = place
        destination = ecr_backends[account_id][region]
        if account_id != self.account_id and not (
            repository_name in destination.repositories
            and allows_account(destination.registry_policy, "ecr:ReplicateImage", self.account_id)
        ):
            return
        if repository_name not in destination.repositories:
            destination.create_repository(repository_name, self.account_id, None, None, "MUTABLE", [])
        try:
            ECRBackend.put_image(destination, repository_name, *image)
        except (ImageAlreadyExistsException, ImageTagAlreadyExistsError):  # the image was pushed there
            return
