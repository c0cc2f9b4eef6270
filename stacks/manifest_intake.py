"""Manifest intake: turns every object under manifests/ into a submission, or into a report of its errors."""

from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.event_function import EventFunction, Runtime
from traingrid import names

WHOLE_CPU_MIB = 1769
"""Memory with which a function gets one full vCPU
(https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html). A manifest of 50,000 lines and 32 MiB takes
20 s of it, and 370 MiB."""


class ManifestIntake(Construct):
    """lambda/accept_manifest, invoked for every new object under manifests/ in the manifest bucket."""

    def __init__(
        self,
        scope: Construct,
        identifier: str,
        *,
        bucket: s3.Bucket,
        runtime: Runtime,
    ) -> None:
        super().__init__(scope, identifier)
        intake = EventFunction(
            self,
            "Accept",
            handler="lambda.accept_manifest.handler",
            description="Turns a manifest into a submission, or writes a report of its errors",
            runtime=runtime,
            memory_mib=WHOLE_CPU_MIB,
            pattern=events.EventPattern(
                source=["aws.s3"],
                detail_type=["Object Created"],
                detail={
                    "bucket": {"name": [bucket.bucket_name]},
                    "object": {"key": [{"prefix": names.MANIFEST_PREFIX}]},
                },
            ),
        )
        self.function = intake.function
        self.role: iam.Role = intake.role
        self.dead_letters: sqs.Queue = intake.dead_letters
