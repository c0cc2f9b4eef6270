"""Algorithm resources: CreateAlgorithm, DescribeAlgorithm and DeleteAlgorithm, which moto lacks, and their rules.

An algorithm is Completed at once: its validation jobs are not run. Subscriptions to AWS Marketplace do not exist here,
so an ARN of another account is not found.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from moto.sagemaker.exceptions import AWSValidationException

from localcloud.credentials.arn import name_of_arn
from localcloud.sagemaker.algorithm_rules import problem
from localcloud.sagemaker.algorithms import published


class Algorithms:
    """The algorithm resources of one account and Region."""

    def __init__(self, account: str, region: str) -> None:
        self._account, self._region = account, region
        self._algorithms: dict[str, dict[str, Any]] = {}

    def create(self, request: Mapping[str, Any]) -> str:
        """CreateAlgorithm; return the ARN.

        Raises:
            AWSValidationException: The name is taken, or the image does not exist.
        """
        name = str(request["AlgorithmName"])
        if name in self._algorithms:
            message = f"Algorithm already exists: {self._arn(name)}"
            raise AWSValidationException(message)
        image = request["TrainingSpecification"]["TrainingImage"]
        try:
            published.resolve(self._account, image)
        except (LookupError, ValueError):
            message = f"Cannot find the requested image: {image}"
            raise AWSValidationException(message) from None
        members = ("AlgorithmName", "AlgorithmDescription", "TrainingSpecification", "InferenceSpecification")
        self._store(self._arn(name), {member: request[member] for member in members if member in request})
        return self._arn(name)

    def add(self, name_or_arn: str, training: Mapping[str, Any]) -> None:
        """Create an algorithm without checks; with the ARN of another account, as a subscription.

        Args:
            name_or_arn: The name of an algorithm of this account and Region, or an ARN.
            training: Its TrainingSpecification.
        """
        name = name_of_arn(name_or_arn)
        arn = name_or_arn if name_or_arn.startswith("arn:") else self._arn(name)
        self._store(arn, {"AlgorithmName": name, "TrainingSpecification": dict(training)})

    def _store(self, arn: str, description: dict[str, Any]) -> None:
        self._algorithms[str(description["AlgorithmName"])] = {
            **description,
            "AlgorithmArn": arn,
            "CreationTime": datetime.now(UTC),
            "AlgorithmStatus": "Completed",
            "AlgorithmStatusDetails": {"ValidationStatuses": [], "ImageScanStatuses": []},
        }

    def describe(self, name_or_arn: str) -> dict[str, Any]:
        """DescribeAlgorithm.

        Raises:
            AWSValidationException: It does not exist. The text is that of a missing training job.
        """
        for name, algorithm in self._algorithms.items():
            if name_or_arn in (name, algorithm["AlgorithmArn"]):
                return algorithm
        message = "Requested resource not found."
        raise AWSValidationException(message)

    def delete(self, name: str) -> None:
        """DeleteAlgorithm.

        Raises:
            AWSValidationException: It does not exist.
        """
        del self._algorithms[self.describe(name)["AlgorithmName"]]

    def resolved(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the AlgorithmSpecification of a CreateTrainingJob request with the algorithm's image and metrics.

        Raises:
            AWSValidationException: The algorithm does not exist, or the request breaks one of its rules.
        """
        specification = dict(request.get("AlgorithmSpecification") or {})
        if not specification.get("AlgorithmName"):
            return specification
        if specification.get("TrainingImage"):
            message = "Invalid AlgorithmSpecification. AlgorithmName excludes TrainingImage"
            raise AWSValidationException(message)
        if specification.get("MetricDefinitions"):
            message = "Invalid MetricDefinitions. The algorithm defines its own metrics"
            raise AWSValidationException(message)
        algorithm = self.describe(specification["AlgorithmName"])
        if text := problem(algorithm, request):
            raise AWSValidationException(text)
        training = algorithm["TrainingSpecification"]
        image = {"TrainingImage": training["TrainingImage"], "TrainingInputMode": specification["TrainingInputMode"]}
        return image | {"MetricDefinitions": training.get("MetricDefinitions") or []}

    def _arn(self, name: str) -> str:
        return f"arn:aws:sagemaker:{self._region}:{self._account}:algorithm/{name}"
