"""CodeBuild projects whose builds do nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.resources.identity import allow

if TYPE_CHECKING:
    from conformance.aws import Aws

LOGGING = allow("logs:CreateLogGroup logs:CreateLogStream logs:PutLogEvents")
"""The permissions of a build's role."""
_NOTHING = '{"version": "0.2", "phases": {"build": {"commands": ["true"]}}}'


def project(aws: Aws, role_arn: str) -> str:
    """Create a project whose builds have a role and do nothing; return its name."""
    api, name = aws.client("codebuild"), aws.name("build")
    api.create_project(
        name=name,
        serviceRole=role_arn,
        source={"type": "NO_SOURCE", "buildspec": _NOTHING},
        artifacts={"type": "NO_ARTIFACTS"},
        environment={
            "type": "LINUX_CONTAINER",
            "image": "aws/codebuild/standard:7.0",
            "computeType": "BUILD_GENERAL1_SMALL",
        },
        tags=aws.tags("key", "value"),
    )
    aws.undo.later(f"project {name}", lambda: api.delete_project(name=name))
    logs, group = aws.client("logs"), f"/aws/codebuild/{name}"
    aws.undo.later(f"log group {group}", lambda: logs.delete_log_group(logGroupName=group))
    return name


def build(aws: Aws, role_arn: str) -> str:
    """Run a build of a new project to its end, and return its status."""
    api = aws.client("codebuild")
    started = api.start_build(projectName=project(aws, role_arn))["build"]["id"]

    def status() -> str:
        (found,) = api.batch_get_builds(ids=[started])["builds"]
        return "" if found["buildStatus"] == "IN_PROGRESS" else str(found["buildStatus"])

    return aws.wait(status, f"the end of build {started}")
