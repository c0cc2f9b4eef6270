"""Model registry: the rules of AWS that moto's model groups and model packages lack.

moto 5.2.5 replaces an existing group, creates a second version for the same ClientToken, and checks neither a request
against the service model nor the model in S3.
"""

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from moto.s3.models import FakeDeleteMarker, s3_backends
from moto.sagemaker.exceptions import AWSValidationException

from localcloud.sagemaker.request import S3Uri

_ECR_REGISTRY = re.compile(r"\d{12}\.dkr[.-]ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.[^/]+")


class ModelRegistry:
    """The rules of the model registry of one account and Region."""

    def __init__(self, account: str, region: str) -> None:
        self._account, self._region = account, region
        self._by_token: dict[str, str] = {}
        self._lock = threading.Lock()

    def refuse_existing_group(self, name: str, groups: Mapping[str, Any]) -> None:
        """Refuse a second group of a name.

        AWS's code and the words "already exists" are those that the SageMaker Python SDK expects (`_create_resource` in
        src/sagemaker/session.py of https://github.com/aws/sagemaker-python-sdk/tree/v2.232.0).
        """
        if name in groups:
            raise AWSValidationException(f"Model Package Group already exists: {groups[name].arn}")

    def delete_group(self, name: str, groups: dict[str, Any], packages: Iterable[Any]) -> None:
        """Delete a group, which must have no versions.

        The rule is AWS's (https://docs.aws.amazon.com/sagemaker/latest/dg/model-registry-delete-model-group.html),
        the texts are ours.
        """
        if name not in groups:
            raise AWSValidationException(f"Model Package Group {name} does not exist.")
        if any(package.model_package_group_name == name for package in packages):
            raise AWSValidationException(f"Model Package Group {name} still has model packages.")
        del groups[name]

    def once(self, request: Mapping[str, Any], create: Callable[[], str]) -> str:
        """Create a version, unless a request with the same ClientToken has created one; return its ARN."""
        self._check(request)
        token = request.get("ClientToken", "")
        with self._lock:
            if token and token in self._by_token:
                return self._by_token[token]
            arn = create()
            if token:
                self._by_token[token] = arn
            return arn

    def _check(self, request: Mapping[str, Any]) -> None:
        """Check the rules that the documentation of CreateModelPackage states beyond the service model."""
        if request.get("ModelPackageGroupName") and request.get("Tags"):
            # The rule is in the description of the member Tags of CreateModelPackageInput.
            raise AWSValidationException("Tags cannot be specified for a versioned model package")
        inference = request.get("InferenceSpecification") or {}
        source = request.get("SourceAlgorithmSpecification") or {}
        for container in inference.get("Containers", []):
            if image := container.get("Image"):
                self._check_image(image)
        for source_or_container in (*inference.get("Containers", []), *source.get("SourceAlgorithms", [])):
            if uri := source_or_container.get("ModelDataUrl"):
                self._check_archive(uri)
            if data := (source_or_container.get("ModelDataSource") or {}).get("S3DataSource"):
                self._check_data(data)
        instances = ("SupportedTransformInstanceTypes", "SupportedRealtimeInferenceInstanceTypes")
        if inference and not request.get("ModelPackageGroupName"):
            for name in instances:  # "required for unversioned models", in the members of InferenceSpecification
                if not inference.get(name):
                    raise AWSValidationException(f"{name} is required for an unversioned model package")

    def _check_image(self, image: str) -> None:
        """Require an image in ECR in this Region.

        ModelPackageContainerDefinition describes Image as an ECR path, and ContainerDefinition requires the image in
        the Region of the model that is created from the package.
        """
        match = _ECR_REGISTRY.fullmatch(image.partition("/")[0])
        if not match:
            raise AWSValidationException(f"Image {image} is not a path in Amazon ECR")
        if match["region"] != self._region:
            text = f"Image {image} is in {match['region']}; it must be in the Region of the model package"
            raise AWSValidationException(f"{text}, {self._region}")

    def _check_archive(self, uri: str) -> None:
        """Require an archive in S3 (ModelPackageContainerDefinition, ModelDataUrl)."""
        if not uri.endswith(".tar.gz"):
            raise AWSValidationException(f"Model data {uri} must have the suffix .tar.gz")
        self._check_stored(uri, S3Uri.parse(uri).key)

    def _check_data(self, source: Mapping[str, Any]) -> None:
        """Require the object, or objects under a prefix that ends with a slash (S3ModelDataSource, S3DataType)."""
        uri = source["S3Uri"]
        if source["S3DataType"] == "S3Prefix" and not uri.endswith("/"):
            raise AWSValidationException(f"Model data {uri} is a prefix and must end with a slash")
        self._check_stored(uri, None if source["S3DataType"] == "S3Prefix" else S3Uri.parse(uri).key)

    def _check_stored(self, uri: str, key: str | None) -> None:
        """Require an object, or without a key objects under the URI, in a bucket of this Region."""
        place = S3Uri.parse(uri)
        bucket = s3_backends[self._account]["global"].buckets.get(place.bucket)
        stored_keys: list[object] = []
        if bucket is not None:
            names = [key] if key else [name for name in bucket.keys if name.startswith(place.key)]
            stored_keys = [bucket.keys.get(name) for name in names]
        if not any(stored_key and not isinstance(stored_key, FakeDeleteMarker) for stored_key in stored_keys):
            raise AWSValidationException(f"Could not find model data at {uri}.")
        if bucket.region_name != self._region:
            text = f"Model data {uri} is in {bucket.region_name}; it must be in the Region of the model package"
            raise AWSValidationException(f"{text}, {self._region}")
