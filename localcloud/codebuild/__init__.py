"""CodeBuild: a build runs its buildspec's own commands, on this machine, with stand-ins for `docker` and the AWS CLI.

moto 5.2.5 keeps projects and calls every build a success. Here a build is a process: the commands of the buildspec's
phases in one shell, with the project's variables and those of StartBuild, and the service role's keys. It ends in the
state that the shell ends in, with its log in CloudWatch and an event on the default bus.

An account runs so many builds of a size at the same time as its quotas allow (`localcloud.limits`).

`docker buildx build` looks for everything that the Dockerfile copies, and makes an image that is a process of this
checkout (`programs`, `checkout_images`). Not built: sources other than NO_SOURCE, artifacts, reports, batch builds,
webhooks, queues of builds, phases after one that failed, and the time limits.
"""

from typing import TYPE_CHECKING

from moto.codebuild.models import codebuild_backends

from localcloud.codebuild.backend import Builds

if TYPE_CHECKING:
    from localcloud.server import LocalCloud


def install(cloud: "LocalCloud") -> None:
    """Put our backend in moto's place."""
    Builds.cloud = cloud
    codebuild_backends.backend = Builds
