"""The AWS account that experiments run in: a young one, after the increases that a grid cannot do without."""

from localcloud.limits.instance_quotas import UNLIMITED, training_quotas
from localcloud.limits.linked_roles import SERVICES
from localcloud.server import LocalCloud
from traingrid.clients import client

ACCOUNT = "123456789012"
DEFAULT_ACCOUNT = "young"
"""The profile whose quotas hold where no other is asked for."""
INSTANCE_TYPE = "ml.p3.16xlarge"
FEW_INSTANCES = 4
"""Training instances per Region, where an experiment allows it."""

_SHORT_TRAININGS = ("E1 children: fresh", "E3", "E10", "E11 10,000 lines", "E13")
# Experiments in which trainings end at once: a line that finds no instance waits for another one, not for a deadline.


def prepare(cloud: LocalCloud) -> None:
    """Create the service-linked roles, as `traingrid doctor` advises; 6 vCPUs, 1 build and 10 executions suffice."""
    if cloud.limits.profile == "young":
        for service in SERVICES.values():
            client("iam", "us-east-1").create_service_linked_role(AWSServiceName=service)


def grant_instances(cloud: LocalCloud, experiment: str) -> None:
    """Give a young account as many training instances as an experiment allows for."""
    if cloud.limits.profile == "young":
        quota = training_quotas()[f"{INSTANCE_TYPE} for training job usage"]
        few = experiment.removeprefix("without ").startswith(_SHORT_TRAININGS)
        cloud.limits.set(ACCOUNT, quota, FEW_INSTANCES if few else UNLIMITED)
