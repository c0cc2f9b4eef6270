"""Registry: the ECR repositories of a grid's images."""

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_ecr as ecr
from constructs import Construct

from stacks.grants import KEYS_OF_AWS, skip_in_checkov
from traingrid import names


def registry(scope: Construct, identifier: str, *, name: str) -> ecr.Repository:
    """Return a new ECR repository with immutable tags. It is deleted with its stack, including its images.

    Its lifecycle rules remove untagged images after 14 days, and all but the last 20 images that deployments built.
    """
    repository = ecr.Repository(
        scope,
        identifier,
        repository_name=name,
        image_scan_on_push=True,
        image_tag_mutability=ecr.TagMutability.IMMUTABLE,
        lifecycle_rules=[
            ecr.LifecycleRule(
                description="Older builds",
                tag_status=ecr.TagStatus.TAGGED,
                tag_prefix_list=[f"{names.BUILT_TAG}-"],
                max_image_count=20,
            ),
            ecr.LifecycleRule(
                description="Untagged images", tag_status=ecr.TagStatus.UNTAGGED, max_image_age=Duration.days(14)
            ),
        ],
        empty_on_delete=True,
        removal_policy=RemovalPolicy.DESTROY,
    )
    skip_in_checkov(repository, "CKV_AWS_136", KEYS_OF_AWS)
    return repository
