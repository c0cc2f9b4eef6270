"""ECR: what moto's repositories leave out."""

import hashlib
import threading
from typing import TYPE_CHECKING, ClassVar

from moto.ecr import urls
from moto.ecr.exceptions import ImageAlreadyExistsException
from moto.ecr.models import ECRBackend, Image, ecr_backends

if TYPE_CHECKING:
    from localcloud.server import LocalCloud


def install(cloud: "LocalCloud") -> None:
    """Put our backend in moto's place."""
    Registry.cloud = cloud
    ecr_backends.backend = Registry


class Registry(ECRBackend):  # type: ignore[misc] # moto is untyped to us
    """moto 5.2.5 answers a push to a repository that does not exist with an internal error, makes digests up, and
    replicates nothing."""

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
        """PutImage, and after a while the same in the Regions that the registry's rules name.

        Raises:
            RepositoryNotFoundException: There is no such repository.
        """
        self._get_repository(repository_name)
        digest = digest or f"sha256:{hashlib.sha256(image_manifest.encode()).hexdigest()}"
        image = super().put_image(repository_name, image_manifest, image_tag, image_manifest_mediatype, digest)
        for region in self._destinations(repository_name):
            arguments = (region, repository_name, image_manifest, image_tag, image_manifest_mediatype, digest)
            later = threading.Timer(self.cloud.settings.replication_seconds, self._replicate, arguments)
            later.daemon = True
            self.cloud.on_stop(later.cancel)
            later.start()
        return image

    def _destinations(self, repository_name: str) -> set[str]:
        """Regions that an image pushed here is replicated to; destinations in other accounts are not modelled."""
        return {
            destination["region"]
            for rule in self.replication_config["rules"]
            if not (filters := rule.get("repositoryFilters"))
            or any(repository_name.startswith(each["filter"]) for each in filters)
            for destination in rule["destinations"]
            if destination["registryId"] == self.account_id
        }

    def _replicate(self, region: str, repository_name: str, *image: str | None) -> None:
        """Put an image into another Region, whose repository is made if there is none, with tags that move.

        What was replicated is not replicated again (Amazon ECR User Guide, "Private image replication").
        """
        there = ecr_backends[self.account_id][region]
        if repository_name not in there.repositories:
            there.create_repository(repository_name, self.account_id, None, None, "MUTABLE", [])
        try:
            ECRBackend.put_image(there, repository_name, *image)
        except ImageAlreadyExistsException:  # somebody pushed it there
            return
