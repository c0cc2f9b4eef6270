"""Replication wait: waits until an image that was pushed at home is replicated to every training Region."""

from collections.abc import Sequence
from pathlib import Path

from aws_cdk import Aws
from constructs import Construct

from stacks.build_project import BuildProject
from stacks.grants import grant
from traingrid import names

SCRIPT = Path(__file__).with_name("replication_wait.sh")


class ReplicationWait(BuildProject):
    """A CodeBuild project that polls the other Regions and accounts until all of them have an image.

    It is separate from the build that pushes the image, because CloudFormation waits an hour for a custom resource, and
    "the majority of images replicate in less than 30 minutes"
    (https://docs.aws.amazon.com/AmazonECR/latest/userguide/replication.html). It uses the smallest host, an
    unprivileged container, and the variable TAG that StartBuild sets.

    Args:
        role_name: Name of its role, which the repositories of other accounts allow.
        repository_name: Name of the repository, the same in every Region.
        replicas: The Regions, in the format of `replication.places`.
    """

    def __init__(
        self,
        scope: Construct,
        identifier: str,
        *,
        role_name: str,
        repository_name: str,
        replicas: Sequence[str],
        log_group: str,
    ) -> None:
        super().__init__(
            scope,
            identifier,
            description=f"Waits until {repository_name} of traingrid is replicated",
            script=SCRIPT,
            variables={
                "REGISTRY": names.registry_uri(Aws.ACCOUNT_ID, Aws.REGION),
                "REPOSITORY": repository_name,
                "REGIONS": " ".join(replicas),
            },
            repository_name=repository_name,
            log_group=log_group,
            role_name=role_name,
        )
        resources = [self.repository_arn]
        for place in replicas:
            region, _, account = place.partition("/")
            resources.append(f"arn:aws:ecr:{region}:{account or Aws.ACCOUNT_ID}:repository/{repository_name}")
        grant(self.role, ["ecr:DescribeImages"], resources)
