"""Image builder: the function that starts builds for CloudFormation, and the custom resources that request them."""

from collections.abc import Sequence

from aws_cdk import CustomResource, Duration
from aws_cdk import aws_events as events
from constructs import Construct

from stacks.build_project import BuildProject
from stacks.event_function import EventFunction, Runtime
from stacks.grants import grant
from stacks.image_build import BuiltImage, ImageBuild
from stacks.replication_wait import ReplicationWait
from traingrid import names

ANSWER_TIMEOUT = Duration.minutes(59)
"""CloudFormation waits up to an hour for a custom resource
(https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-cloudformation-customresource.html).
Every build has ended by then, even if it had to wait for a host."""


class ImageBuilder(Construct):
    """lambda/build_image: starts builds for CloudFormation, and returns the images' digests when they have ended.

    Each request depends on the previous one, so that builds run one after the other. CloudFormation creates independent
    resources concurrently, but a new account may run only one build at a time
    (https://github.com/aws-samples/aws-gateway-load-balancer-suricata-ids-ips-nsm/issues/12).
    """

    def __init__(
        self, scope: Construct, identifier: str, *, projects: Sequence[BuildProject], runtime: Runtime
    ) -> None:
        super().__init__(scope, identifier)
        project_names = [project.project.ref for project in projects]
        end_pattern = {
            "project-name": project_names,
            "build-status": ["ENDING", "SUCCEEDED", "FAILED", "FAULT", "STOPPED", "TIMED_OUT"],
        }
        self.function = EventFunction(
            self,
            "Build",
            handler="lambda.build_image.handler",
            description="Starts image builds for a deployment, and responds to it when they have ended",
            runtime=runtime,
            pattern=events.EventPattern(
                source=["aws.codebuild", names.BUILD_EVENTS],
                detail_type=["CodeBuild Build State Change", "Build Ending"],
                detail=end_pattern,
            ),
        )
        arns = [project.project.attr_arn for project in projects]
        grant(self.function.role, ["codebuild:StartBuild", "codebuild:BatchGetBuilds"], arns)
        repositories = sorted({project.repository_arn for project in projects})
        grant(self.function.role, ["ecr:DescribeImages"], repositories)
        self._last_request: CustomResource | None = None

    def image(self, build: ImageBuild) -> BuiltImage:
        """Return the image of a build. A deployment that changes its tag starts the build and waits for it."""
        request = self._request(build, "Image", build, "Custom::ContainerImage", build.tag)
        return BuiltImage(tag=build.tag, digest=request.get_att_string("Digest"))

    def wait_for_replication(self, wait: ReplicationWait, build: ImageBuild) -> None:
        """Make the deployment wait, up to an hour, until the image of a build is replicated to every Region."""
        self._request(build, "Replicated", wait, "Custom::ReplicatedImage", build.tag)

    def _request(self, image_build: ImageBuild, name: str, runs: BuildProject, kind: str, tag: str) -> CustomResource:
        request = CustomResource(
            image_build,
            name,
            service_token=self.function.function.function_arn,
            resource_type=kind,
            service_timeout=ANSWER_TIMEOUT,
            properties={
                "Project": runs.project.ref,
                "Repository": runs.repository_name,
                "Tag": tag,
                "Compute": runs.compute,
            },
        )
        request.node.add_dependency(self.function, runs.project, runs.role)
        if self._last_request:
            request.node.add_dependency(self._last_request)
        self._last_request = request
        return request
