"""ECR: what moto's repositories leave out."""

from typing import TYPE_CHECKING, Any

from moto.ecr import urls
from moto.ecr.models import ECRBackend, Image, ecr_backends

if TYPE_CHECKING:
    from localcloud.server import LocalCloud


def install(cloud: "LocalCloud") -> None:  # noqa: ARG001 - every feature is installed alike
    """Put our backend in moto's place."""
    ecr_backends.backend = Registry


class Registry(ECRBackend):  # type: ignore[misc] # moto is untyped to us
    """moto 5.2.5 answers a push to a repository that does not exist with an internal error."""

    _url_module = urls

    def put_image(self, repository_name: str, *arguments: Any, **options: Any) -> Image:
        """PutImage.

        Raises:
            RepositoryNotFoundException: There is no such repository.
        """
        self._get_repository(repository_name)
        return super().put_image(repository_name, *arguments, **options)
