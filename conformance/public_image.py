"""Public image: copies an image with Python into an ECR repository without a container engine.

The registry implements https://github.com/opencontainers/distribution-spec. Amazon ECR receives layers through its own
API (https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_InitiateLayerUpload.html).
"""

from __future__ import annotations

import json
import urllib.request
from typing import Any

REGISTRY = "https://public.ecr.aws"
NAME, TAG = "docker/library/python", "3.11-slim-bookworm"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_KINDS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    MANIFEST,
    "application/vnd.docker.distribution.manifest.v2+json",
)
_ARCHITECTURE = {"os": "linux", "architecture": "amd64"}
_PART = 10 * 1024 * 1024  # all parts but the last must have at least 5 MiB (UploadLayerPart)


class PublicImage:
    """The public image; each part is downloaded once for all repositories of a run."""

    def __init__(self, registry: str = REGISTRY) -> None:
        self._registry = registry
        self._read: dict[str, bytes] = {}
        self._token = ""

    def copy(self, ecr: Any, repository: str, tag: str) -> None:
        """Copy the image into a repository under a tag.

        Args:
            ecr: Client of Amazon ECR.
        """
        manifest = self._manifest(TAG)
        described = json.loads(manifest)
        for part in (described["config"], *described["layers"]):
            self._copy_layer(ecr, repository, part["digest"])
        kind = described.get("mediaType", MANIFEST)
        ecr.put_image(
            repositoryName=repository, imageTag=tag, imageManifest=manifest.decode(), imageManifestMediaType=kind
        )

    def _manifest(self, reference: str) -> bytes:
        """Return the image's manifest for linux/amd64, resolving an index if necessary."""
        content = self._get(f"manifests/{reference}")
        entries = json.loads(content).get("manifests")
        if entries is None:
            return content
        digest = next(entry["digest"] for entry in entries if _ARCHITECTURE.items() <= entry["platform"].items())
        return self._get(f"manifests/{digest}")

    def _copy_layer(self, ecr: Any, repository: str, digest: str) -> None:
        asked = ecr.batch_check_layer_availability(repositoryName=repository, layerDigests=[digest])
        if any(layer.get("layerAvailability") == "AVAILABLE" for layer in asked.get("layers", [])):
            return
        content = self._get(f"blobs/{digest}")
        upload = ecr.initiate_layer_upload(repositoryName=repository)["uploadId"]
        for start in range(0, len(content), _PART):
            part = content[start : start + _PART]
            ecr.upload_layer_part(
                repositoryName=repository,
                uploadId=upload,
                partFirstByte=start,
                partLastByte=start + len(part) - 1,
                layerPartBlob=part,
            )
        ecr.complete_layer_upload(repositoryName=repository, uploadId=upload, layerDigests=[digest])

    def _get(self, path: str) -> bytes:
        if path not in self._read:
            if not self._token:
                scope = f"service=public.ecr.aws&scope=repository:{NAME}:pull"
                self._token = json.loads(self._open(f"{self._registry}/token/?{scope}"))["token"]
            self._read[path] = self._open(f"{self._registry}/v2/{NAME}/{path}")
        return self._read[path]

    def _open(self, url: str) -> bytes:
        headers = {"Accept": ", ".join(_KINDS)} | ({"Authorization": f"Bearer {self._token}"} if self._token else {})
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the registry's own address
        with urllib.request.urlopen(request, timeout=120) as reply:  # noqa: S310 - as above
            content: bytes = reply.read()
        return content
