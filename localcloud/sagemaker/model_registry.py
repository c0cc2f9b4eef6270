"""Model registry: the rules of AWS that moto's model groups and model packages lack.

moto 5.2.5 replaces an existing group, creates a second version for the same ClientToken, and checks neither a request
against the service model nor the model in S3.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from moto.s3.models import FakeDeleteMarker, s3_backends
from moto.sagemaker.exceptions import AWSValidationException

from localcloud.sagemaker.request import S3Uri


class ModelRegistry:
    """The rules of the model registry of one account and Region.

    Args:
        account: The account.
        region: The Region.
    """

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
        named = [*inference.get("Containers", []), *source.get("SourceAlgorithms", [])]
        for one in named:
            if uri := one.get("ModelDataUrl"):
                self._check_model(uri)

    def _check_model(self, uri: str) -> None:
        """Require an archive in S3, in a bucket of this Region (ModelPackageContainerDefinition, ModelDataUrl)."""
        if not uri.endswith(".tar.gz"):
            raise AWSValidationException(f"Model data {uri} must have the suffix .tar.gz")
        place = S3Uri.parse(uri)
        bucket = s3_backends[self._account]["global"].buckets.get(place.bucket)
        stored = bucket.keys.get(place.key) if bucket else None
        if bucket is None or stored is None or isinstance(stored, FakeDeleteMarker):
            raise AWSValidationException(f"Could not find model data at {uri}.")
        if bucket.region_name != self._region:
            text = f"Model data {uri} is in {bucket.region_name}; it must be in the Region of the model package"
            raise AWSValidationException(f"{text}, {self._region}")
