"""Service quotas on training instances, where a plan of faults sets some."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from moto.sagemaker.exceptions import SagemakerClientError

from localcloud.faults import Faults
from localcloud.training.job import TrainingJob
from localcloud.training.request import hosts


class ResourceLimitExceeded(SagemakerClientError):  # type: ignore[misc] # noqa: N818 - moto is untyped; AWS's own name
    """SageMaker's answer to a request beyond a quota."""

    code = "ResourceLimitExceeded"


def check(faults: Faults, region: str, request: Mapping[str, Any], jobs: Iterable[TrainingJob]) -> None:
    """Check a CreateTrainingJob request against the Region's quotas.

    The words are SageMaker's (text: github.com/aws/amazon-sagemaker-examples/issues/1543).

    Args:
        faults: Says which quotas there are.
        region: The Region.
        request: The request.
        jobs: The Region's jobs; those that have not ended hold their instances.

    Raises:
        ResourceLimitExceeded: The job asks for more than is left.
    """
    asked = Counter(host.instance_type for host in hosts(request))
    limits = {name: limit for name in asked if (limit := faults.quota(region, name)) is not None}
    if not limits:
        return
    used = Counter(host.instance_type for job in list(jobs) if not job.progress.is_final for host in hosts(job.request))
    for name, limit in limits.items():
        if used[name] + asked[name] > limit:
            faults.refused(region, name)
            raise ResourceLimitExceeded(
                f"The account-level service limit '{name} for training job usage' is {limit} Instances, with current "
                f"utilization of {used[name]} Instances and a request delta of {asked[name]} Instances. Please contact "
                "AWS support to request an increase for this limit."
            )
