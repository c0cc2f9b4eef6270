"""AWS account of the experiments: a new account with the quota increases that a grid requires."""

from localcloud.limits.instance_quotas import UNLIMITED, quota_name, training_quotas
from localcloud.limits.linked_roles import SERVICES
from localcloud.server.local_cloud import LocalCloud
from traingrid.aws.clients import client

ACCOUNT = "123456789012"
OPERATORS = "operators"
"""The role of the persons who run commands."""
DEFAULT_ACCOUNT = "young"
"""Profile whose quotas apply by default."""
INSTANCE_TYPE = "ml.p3.16xlarge"
FEW_INSTANCES = 4
"""Training instances per Region in experiments that tolerate so few."""

_SHORT_TRAININGS = ("E1 children: fresh", "E3", "E10", "E11 10,000 lines", "E13")
# Training jobs end immediately here, so that a line without an instance waits for another job, not for a timeout.


def prepare(cloud: LocalCloud) -> None:
    """Create the service-linked roles, as `traingrid doctor` recommends.

    6 vCPUs, one concurrent build and 10 concurrent executions are sufficient.
    """
    if cloud.limits.profile == "young":
        for service in SERVICES.values():
            client("iam", "us-east-1").create_service_linked_role(AWSServiceName=service)


def grant_instances(cloud: LocalCloud, experiment: str, instance_type: str = INSTANCE_TYPE) -> None:
    """Set the quota of training instances in a new account to the number that an experiment tolerates."""
    if cloud.limits.profile == "young":
        quota = training_quotas()[quota_name(instance_type, spot=False)]
        few = experiment.removeprefix("without ").startswith(_SHORT_TRAININGS)
        cloud.limits.set(ACCOUNT, quota, FEW_INSTANCES if few else UNLIMITED)
        cloud.limits.set(ACCOUNT, training_quotas()[quota_name(instance_type, spot=True)], UNLIMITED)
