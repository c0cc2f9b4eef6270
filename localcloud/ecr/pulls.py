"""Pulls: finds the process of an image in the registry of its account and Region."""

import json

from moto.ecr.exceptions import ImageNotFoundException, RepositoryNotFoundException
from moto.ecr.models import ecr_backends

from localcloud.ecr import process_images
from localcloud.ecr.process_images import ImageUri, ProcessImage
from localcloud.iam.resource_policies import allows_principal


class ImageNotFoundError(LookupError):
    """The repository, tag or digest does not exist in the URI's account and Region.

    Attributes:
        repository_exists: True if the repository exists.
    """

    def __init__(self, message: str, *, repository_exists: bool) -> None:
        super().__init__(message)
        self.repository_exists = repository_exists


def resolve(account: str, image_uri: str) -> ProcessImage:
    """Return the process of an image URI.

    Args:
        account: Calling account; a repository of another account must allow it to pull.
        image_uri: ECR URI with a tag, a digest, both or neither.

    Raises:
        InvalidImageError: If the URI is not an ECR URI.
        ImageNotFoundError: If the image does not exist, or is not a process image.
    """
    uri = ImageUri.parse(image_uri)
    if uri.account != account and not _may_pull(account, uri):
        message = f"{image_uri}: registry {uri.account} has no such repository from which {account} may pull"
        raise ImageNotFoundError(message, repository_exists=False)
    try:
        reply = ecr_backends[uri.account][uri.region].batch_get_image(
            uri.repository, uri.account, [{"imageDigest": uri.digest} if uri.digest else {"imageTag": uri.tag}]
        )["images"]
    except RepositoryNotFoundException as error:
        message = f"{image_uri}: not found"
        raise ImageNotFoundError(message, repository_exists=False) from error
    except (ImageNotFoundException, KeyError) as error:  # KeyError: the Region does not exist
        message = f"{image_uri}: not found"
        raise ImageNotFoundError(message, repository_exists=False) from error
    if not reply:
        message = f"{image_uri}: not found"
        raise ImageNotFoundError(message, repository_exists=True)
    return _process(image_uri, reply[0].image_manifest)


def _may_pull(account: str, uri: ImageUri) -> bool:
    """Return True if another account's repository allows an account to pull (ECR, "Private repository policies")."""
    if uri.account not in ecr_backends or uri.region not in ecr_backends[uri.account]:
        return False
    repository = ecr_backends[uri.account][uri.region].repositories.get(uri.repository)
    return bool(repository) and allows_account(repository.policy, "ecr:BatchGetImage", account)


def allows_account(policy: str | None, action: str, account_id: str) -> bool:
    """Return True if a policy allows an account; conditions are ignored, because the caller's role is unknown."""
    statements = json.loads(policy or "{}").get("Statement", [])
    plain = [{**statement, "Condition": {}} for statement in statements]
    return allows_principal({"Statement": plain}, action, f"arn:aws:iam::{account_id}:root")


def _process(image_uri: str, manifest: str) -> ProcessImage:
    process = json.loads(manifest).get("process")
    if process is None:
        message = (
            f"{image_uri}: this image has layers; localcloud runs only images pushed by {process_images.__name__}.push"
        )
        raise ImageNotFoundError(message, repository_exists=True)
    return ProcessImage(
        command=tuple(process["command"]),
        environment=dict(process["environment"]),
        working_directory=process["working_directory"],
        source=process["source"],
        opt_ml=dict(process["opt_ml"]),
    )
