"""One build: runs the commands of its buildspec in a shell, and describes itself for CodeBuild's API."""

import json
import os
import shutil
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from localcloud.log_streams import LogStream, ensure_group
from localcloud.processes.process_group import ProcessGroup

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

PHASES = ("install", "pre_build", "build", "post_build")
PROGRAMS = ("aws", "docker")
"""Programs of a build's host that this machine may lack; each is a module of `localcloud.codebuild`."""
_CHECKOUT = Path(__file__).resolve().parents[2]


class Build:
    """A build of a project."""

    def __init__(
        self,
        cloud: "LocalCloud",
        project: Mapping[str, Any],
        overrides: Sequence[Mapping[str, Any]],
    ) -> None:
        self._cloud = cloud
        self._project = project
        self.id = f"{project['name']}:{uuid.uuid4()}"
        self._region, self._account = project["arn"].split(":")[3:5]
        self.arn = f"arn:aws:codebuild:{self._region}:{self._account}:build/{self.id}"
        environment = dict(project["environment"])
        merged = {entry["name"]: entry for entry in [*environment.get("environmentVariables", []), *overrides]}
        self._environment = {**environment, "environmentVariables": list(merged.values())}
        self._status = "IN_PROGRESS"
        self._is_stopped = False
        self._started_at = time.time()
        self._group: ProcessGroup | None = None
        self._folder = cloud.data_dir / "codebuild" / self.id.replace(":", "-")
        logs = project.get("logsConfig", {}).get("cloudWatchLogs", {})
        self._log_group = logs.get("groupName") or f"/aws/codebuild/{project['name']}"
        self._log_stream = "/".join(filter(None, (logs.get("streamName"), self.id.partition(":")[2])))
        self._log_link = f"{cloud.endpoint_url}/localcloud/status#{self._log_group}"

    @property
    def runs(self) -> bool:
        """Return True until the build has ended."""
        return self._status == "IN_PROGRESS"

    @property
    def compute(self) -> str:
        """Return the compute type of the build's host."""
        return str(self._environment["computeType"])

    def start(self) -> None:
        """Run the build in its own thread."""
        threading.Thread(target=self._run, name=f"codebuild-{self.id}", daemon=True).start()

    def stop(self) -> None:
        """Kill the build."""
        self._is_stopped = True
        if self._group:
            self._group.kill()

    def described(self) -> dict[str, Any]:
        """Return the build in the form of the API."""
        return {
            "id": self.id,
            "arn": self.arn,
            "projectName": self._project["name"],
            "buildStatus": self._status,
            "buildComplete": not self.runs,
            "startTime": self._started_at,
            "environment": self._environment,
            "serviceRole": self._project["serviceRole"],
            "logs": {"groupName": self._log_group, "streamName": self._log_stream, "deepLink": self._log_link},
        }

    def _run(self) -> None:
        self._folder.mkdir(parents=True)
        ensure_group(self._account, self._region, self._log_group)
        log = LogStream(self._account, self._region, self._log_group, self._log_stream)
        self._group = ProcessGroup(
            [shutil.which("bash") or "bash", "-c", self._script()],
            environment=self._variables(),
            working_directory=self._folder,
            on_line=log.write,
            label=f"codebuild/{self.id}",
        )
        self._cloud.on_stop(self._group.kill)
        code = self._group.wait()
        log.flush()
        self._status = "FAILED" if code else "SUCCEEDED"
        if self._is_stopped:
            self._status = "STOPPED"
        self._send_event()

    def _script(self) -> str:
        """Return the commands of all phases as one shell script.

        A failed command ends its phase, whose `finally` commands still run, and then the build
        (https://docs.aws.amazon.com/codebuild/latest/userguide/build-spec-ref.html).
        """
        phases = yaml.safe_load(self._project["source"]["buildspec"])["phases"]
        lines = ["_code=0"]
        for phase in PHASES:
            commands = phases.get(phase, {}).get("commands", [])
            lines += [f"if [ $_code = 0 ]; then\n{command}\n_code=$?\nfi" for command in commands]
            lines += [f"{command}\n[ $? = 0 ] || _code=1" for command in phases.get(phase, {}).get("finally", [])]
            lines.append("[ $_code = 0 ] || exit 1")
        return "\n".join(lines)

    def _variables(self) -> dict[str, str]:
        programs = self._folder / "bin"
        programs.mkdir()
        for name in PROGRAMS:
            script = f'#!/bin/sh\nexec "{sys.executable}" -m localcloud.codebuild.{name} "$@"\n'
            (programs / name).write_text(script)
            (programs / name).chmod(0o755)
        project_variables = {entry["name"]: entry["value"] for entry in self._environment["environmentVariables"]}
        build_variables = {"CODEBUILD_BUILD_ID": self.id, "PYTHONPATH": str(_CHECKOUT), "TMPDIR": str(self._folder)}
        environment = self._cloud.environment_for(
            self._region, self._project["serviceRole"], {**project_variables, **build_variables}
        )
        return {**environment, "PATH": f"{programs}{os.pathsep}{environment['PATH']}"}

    def _send_event(self) -> None:
        """Send the event of the build's end (AWS CodeBuild User Guide, "Build notifications input format")."""
        environment = self._environment
        variables = [{"type": "PLAINTEXT", **entry} for entry in environment["environmentVariables"]]
        event = {
            "source": "aws.codebuild",
            "detail-type": "CodeBuild Build State Change",
            "resources": [self.arn],
            "detail": {
                "build-status": self._status,
                "project-name": self._project["name"],
                "build-id": self.arn,
                "current-phase": "COMPLETED",
                "additional-information": {
                    "environment": {
                        "image": environment["image"],
                        "compute-type": environment["computeType"],
                        "type": environment["type"],
                        "privileged-mode": environment.get("privilegedMode", False),
                        "environment-variables": variables,
                    },
                    "build-complete": True,
                    "logs": {"group-name": self._log_group, "deep-link": self._log_link},
                },
            },
        }
        self._cloud.put_event(self._region, json.loads(json.dumps(event)))
