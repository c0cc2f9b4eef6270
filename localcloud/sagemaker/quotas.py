"""Service quotas on training instances: the account's quotas, and lower ones from a fault plan."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from moto.sagemaker.exceptions import SagemakerClientError

from localcloud.limits.instance_quotas import quota_name, training_quotas
from localcloud.sagemaker.job import TrainingJob
from localcloud.sagemaker.request import hosts

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud


class ResourceLimitExceeded(SagemakerClientError):  # noqa: N818 - AWS's own name
    """SageMaker's error for a request that exceeds a quota."""

    code = "ResourceLimitExceeded"


def check(
    cloud: "LocalCloud", account: str, region: str, request: Mapping[str, Any], jobs: Iterable[TrainingJob]
) -> None:
    """Check a CreateTrainingJob request against the quotas of its account and Region.

    The message is SageMaker's (text: github.com/aws/amazon-sagemaker-examples/issues/1543).

    Args:
        cloud: Provides the quotas and the fault plan.
        jobs: The account's jobs in the Region; jobs that have not ended use instances.

    Raises:
        ResourceLimitExceeded: If the job needs more instances than are available.
    """
    running_jobs = [job for job in list(jobs) if not job.progress.is_final]
    same_kind = [job for job in running_jobs if job.is_spot == _is_spot(request)]
    instances, instances_of_kind = _instances(running_jobs), _instances(same_kind)
    for kind, requested in Counter(host.instance_type for host in hosts(request)).items():
        name = quota_name(kind, spot=_is_spot(request))
        planned = cloud.faults.quota(region, kind)
        if planned is not None and instances[kind] + requested > planned:
            cloud.faults.record_refusal(region, kind)
            raise _refusal(name, planned, instances[kind], requested)
        quota = training_quotas().get(name)
        limit = int(cloud.limits.value(account, region, quota)) if quota and planned is None else None
        if limit is not None and instances_of_kind[kind] + requested > limit:
            raise _refusal(name, limit, instances_of_kind[kind], requested)


def _is_spot(request: Mapping[str, Any]) -> bool:
    return bool(request.get("EnableManagedSpotTraining"))


def _instances(jobs: Iterable[TrainingJob]) -> Counter[str]:
    return Counter(host.instance_type for job in jobs for host in hosts(job.request))


def _refusal(name: str, limit: int, used: int, requested: int) -> ResourceLimitExceeded:
    return ResourceLimitExceeded(
        f"The account-level service limit '{name}' is {limit} Instances, with current utilization of {used} Instances "
        f"and a request delta of {requested} Instances. "
        "Please contact AWS support to request an increase for this limit."
    )
