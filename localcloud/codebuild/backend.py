"""The CodeBuild backend: moto's projects, and builds that run."""

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

from moto.codebuild import urls
from moto.codebuild.models import CodeBuildBackend, codebuild_backends
from moto.codebuild.responses import CodeBuildResponse
from moto.core.exceptions import JsonRESTError
from moto.core.responses import ActionResult

from localcloud.codebuild.build import Build
from localcloud.credentials.arn import name_of_arn
from localcloud.iam.resource_policies import allows_service
from localcloud.iam.roles import trust_of
from localcloud.limits.quota import BUILDS

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud


def install(cloud: "LocalCloud") -> None:
    """Replace moto's CodeBuild backend with ours."""
    Builds.cloud = cloud
    cloud.replace(codebuild_backends, backend=Builds)


class AccountLimitExceededError(JsonRESTError):
    """StartBuild exceeds the quota; the message is CodeBuild's.

    AWS documents that builds wait in a queue of five times the quota
    (https://docs.aws.amazon.com/codebuild/latest/userguide/builds-working.html). Accounts with a quota of 1 or 0 get
    this error instead (https://github.com/awslabs/landing-zone-accelerator-on-aws/issues/249,
    https://github.com/aws-ia/terraform-aws-control_tower_account_factory/issues/100), so localcloud always raises it.
    """

    code = 400

    def __init__(self, limit: int) -> None:
        super().__init__(
            "AccountLimitExceededException", f"Cannot have more than {limit} builds in queue for the account"
        )


class UntrustedError(JsonRESTError):
    """CodeBuild may not assume the role of a project.

    CreateProject (https://github.com/hashicorp/terraform-provider-aws/issues/4233) and StartBuild refuse it with this
    code.
    """

    code = 400

    def __init__(self) -> None:
        text = "CodeBuild is not authorized to perform: sts:AssumeRole on service role"
        super().__init__("InvalidInputException", text)


class BuildResponse(CodeBuildResponse):
    """Passes StartBuild's variables, which moto 5.2.5 ignores, and accepts NO_SOURCE without a location."""

    def _get_param(self, param_name: str, if_none: Any = None) -> Any:
        value = super()._get_param(param_name, if_none)
        if param_name == "source" and value and value.get("type") == "NO_SOURCE":
            return {"location": "NO_SOURCE", **value}
        return value

    def start_build(self) -> ActionResult:
        """StartBuild."""
        self.codebuild_backend.overrides = self._get_param("environmentVariablesOverride") or []
        return super().start_build()


class Builds(CodeBuildBackend):
    """moto's backend with builds that run and report their status."""

    cloud: ClassVar["LocalCloud"]
    _url_module = SimpleNamespace(url_bases=urls.url_bases, url_paths={"{0}/$": BuildResponse.dispatch})

    def __init__(self, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.overrides: list[dict[str, Any]] = []
        self.builds: dict[str, Build] = {}
        self._start_lock = threading.Lock()

    def create_project(self, project_name: str, *details: Any, **more: Any) -> dict[str, Any]:
        """Create a project, whose role must trust CodeBuild.

        Raises:
            UntrustedError: If CodeBuild may not assume the role.
        """
        project: dict[str, Any] = super().create_project(project_name, *details, **more)
        try:
            self._check_trust(project_name)
        except UntrustedError:
            del self.codebuild_projects[project_name]
            raise
        return project

    def _check_trust(self, project_name: str) -> None:
        """Refuse a role that CodeBuild may not assume for the project.

        The source of its calls is the project
        (https://docs.aws.amazon.com/codebuild/latest/userguide/setting-up-service-role.html).
        """
        project = self.codebuild_projects[project_name].project_metadata
        account, role = project["serviceRole"].split(":", 5)[4:]
        trust = trust_of(name_of_arn(role), account)
        if not allows_service(trust, "sts:AssumeRole", "codebuild.amazonaws.com", project["arn"]):
            raise UntrustedError

    def start_build(
        self,
        project_name: str,
        source_version: str | None = None,  # noqa: ARG002 - moto's signature
        artifact_override: dict[str, Any] | None = None,  # noqa: ARG002  # as above
    ) -> dict[str, Any]:
        """Start a build in its own process.

        Raises:
            AccountLimitExceededError: If the account's quota of concurrent builds of this type is used up.
            UntrustedError: If CodeBuild may no longer assume the project's role.
        """
        self._check_trust(project_name)
        build = Build(self.cloud, self.codebuild_projects[project_name].project_metadata, self.overrides)
        with self._start_lock:
            running = [
                other_build
                for other_build in self.builds.values()
                if other_build.compute == build.compute and other_build.runs
            ]
            limit = int(self.cloud.limits.value(self.account_id, self.region_name, BUILDS[build.compute]))
            if len(running) >= limit:
                raise AccountLimitExceededError(limit)
            self.builds[build.id] = build
        self.build_history[project_name].append(build.id)
        build.start()
        return build.described()

    def batch_get_builds(self, ids: list[str]) -> list[dict[str, Any]]:
        """Return the current state of the builds."""
        return [self.builds[identifier].described() for identifier in ids if identifier in self.builds]

    def stop_build(self, build_id: str) -> dict[str, Any] | None:
        """Stop a running build."""
        self.builds[build_id].stop()
        return self.builds[build_id].described()
