"""Build project: a CodeBuild project that runs one shell script, and reports when it ends."""

import json
from collections.abc import Mapping
from pathlib import Path

from aws_cdk import Aws, Duration
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.grants import acknowledge, grant, same_account
from traingrid import names

BUILD_TIMEOUT = Duration.minutes(50)
QUEUE_TIMEOUT = Duration.minutes(5)

_ENDING = Path(__file__).with_name("build_ending.sh")


class BuildProject(Construct):
    """A CodeBuild project, and the role of its builds.

    The role may write the log and send an event. CodeBuild delivers its own events on a best-effort basis
    (https://docs.aws.amazon.com/eventbridge/latest/ref/events-ref-codebuild.html), so at its end a build sends an event
    with the source `names.BUILD_EVENTS` and the status ENDING. The commands of a `finally` block run even if one before
    them failed (https://docs.aws.amazon.com/codebuild/latest/userguide/build-spec-ref.html).

    Attributes:
        compute: Compute type of its hosts.
        repository_name: The repository in the home Region that a build pushes to or reads.
    """

    def __init__(
        self,
        scope: Construct,
        identifier: str,
        *,
        description: str,
        script: Path,
        variables: Mapping[str, str],
        repository_name: str,
        log_group: str,
        compute: str = "BUILD_GENERAL1_SMALL",
        privileged: bool = False,
        role_name: str | None = None,
    ) -> None:
        super().__init__(scope, identifier)
        self.repository_name, self.compute, self._log_group = repository_name, compute, log_group
        # https://docs.aws.amazon.com/codebuild/latest/userguide/cross-service-confused-deputy-prevention.html
        builds = same_account(f"arn:aws:codebuild:{Aws.REGION}:{Aws.ACCOUNT_ID}:project/*")
        trust = iam.ServicePrincipal("codebuild.amazonaws.com", conditions=builds)
        self.role = iam.Role(self, "Role", role_name=role_name, assumed_by=trust, description=description)
        self._grant()
        # The L1 resource, because the L2 construct lets the role write reports and other logs.
        self.project = codebuild.CfnProject(
            self,
            "Project",
            description=description,
            artifacts=codebuild.CfnProject.ArtifactsProperty(type="NO_ARTIFACTS"),
            source=codebuild.CfnProject.SourceProperty(type="NO_SOURCE", build_spec=_buildspec(script)),
            environment=codebuild.CfnProject.EnvironmentProperty(
                type="LINUX_CONTAINER",
                compute_type=compute,
                image=codebuild.LinuxBuildImage.STANDARD_7_0.image_id,
                image_pull_credentials_type="CODEBUILD",
                privileged_mode=privileged,
                environment_variables=[
                    codebuild.CfnProject.EnvironmentVariableProperty(name=name, value=value)
                    for name, value in {**variables, "EVENT_SOURCE": names.BUILD_EVENTS}.items()
                    if value
                ],
            ),
            service_role=self.role.role_arn,
            logs_config=codebuild.CfnProject.LogsConfigProperty(
                cloud_watch_logs=codebuild.CfnProject.CloudWatchLogsConfigProperty(
                    status="ENABLED", group_name=log_group, stream_name=identifier
                )
            ),
            timeout_in_minutes=int(BUILD_TIMEOUT.to_minutes()),
            queued_timeout_in_minutes=int(QUEUE_TIMEOUT.to_minutes()),
        )
        self.project.node.add_dependency(self.role)
        acknowledge(
            self.project, "AwsSolutions-CB4", "It has no artifacts that a key would encrypt; ECR encrypts images"
        )

    @property
    def repository_arn(self) -> str:
        """Return the ARN of the repository in the home Region."""
        return f"arn:aws:ecr:{Aws.REGION}:{Aws.ACCOUNT_ID}:repository/{self.repository_name}"

    def _grant(self) -> None:
        stream = f"arn:aws:logs:{Aws.REGION}:{Aws.ACCOUNT_ID}:log-group:{self._log_group}:log-stream:{self.node.id}/*"
        because = "CodeBuild derives the name of each build's log stream from its id"
        grant(self.role, ["logs:CreateLogStream", "logs:PutLogEvents"], [stream], because=because)
        grant(
            self.role,
            ["events:PutEvents"],
            [f"arn:aws:events:{Aws.REGION}:{Aws.ACCOUNT_ID}:event-bus/default"],
            # The key has one value for each entry of the call, hence ForAllValues. Null excludes calls without entries
            # (https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazoneventbridge.html).
            conditions={
                "ForAllValues:StringEquals": {"events:source": [names.BUILD_EVENTS]},
                "Null": {"events:source": "false"},
            },
        )


def _buildspec(script: Path) -> str:
    build = {
        "commands": [f"(\n{script.read_text()})"],  # in a subshell, which may exit at the first error
        "finally": [f"(\n{_ENDING.read_text()})"],
    }
    return json.dumps({"version": "0.2", "env": {"shell": "bash"}, "phases": {"build": build}}, indent=1)
