import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest

from localcloud.credentials.secret import DUMMY_KEY
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from tests.integration.localcloud.compute import role, wait_until

ROOT = Path(__file__).resolve().parents[3]
REGION, NAME = "us-east-1", "grid-0123abcd-0-1"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with LocalCloud(Settings(data_dir=tmp_path_factory.mktemp("localcloud"))) as running:
        yield running


@pytest.fixture(scope="module")
def client(cloud: LocalCloud) -> Callable[[str], Any]:
    session: Any = boto3.Session(aws_access_key_id=DUMMY_KEY, aws_secret_access_key=cloud.secret)
    return lambda service: session.client(service, region_name=REGION, endpoint_url=cloud.endpoint_url)


class Pod:
    """A pod with one host, as processes that share a folder and have the credentials of a role.

    Attributes:
        base: The folder that is /opt/ml in all containers.
    """

    def __init__(self, folder: Path, request: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self.base, self._folder = folder / "ml", folder
        self._started: list[subprocess.Popen[bytes]] = []
        (folder / "files").mkdir()
        (folder / "files/request.json").write_text(json.dumps(request))
        self.environment = {
            **environment,
            "AWS_REGION": REGION,
            "HOSTNAME": f"{NAME}-0",
            "PYTHONPATH": str(ROOT),
            "SAGEMAKER_BASE_DIR": str(self.base),
            "TRAINGRID_HOSTS": f"{NAME}-0.{NAME}",
            "TRAINGRID_POD_FILES": str(folder / "files"),
        }

    def prepare(self) -> int:
        """Run `prepare`, and return its exit code."""
        return self._start("prepare").wait(timeout=120)

    def results(self) -> "subprocess.Popen[bytes]":
        """Start `results`, and return it after its first line."""
        process = self._start("results")
        wait_until(lambda: self.log("results"))
        return process

    def log(self, command: str) -> str:
        """Return the log of a command."""
        return (self._folder / f"{command}.log").read_text()

    def end(self) -> None:
        """Kill the processes that a failed test has left."""
        for process in self._started:
            process.kill()
            process.wait()

    def message(self, command: str) -> str:
        """Return the termination message of a command."""
        return (self._folder / f"{command}.termination-log").read_text()

    def _start(self, command: str) -> "subprocess.Popen[bytes]":
        message = self._folder / f"{command}.termination-log"
        message.touch()
        with (self._folder / f"{command}.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "traingrid.pod", command],
                env={**self.environment, "TRAINGRID_TERMINATION_LOG": str(message)},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._started.append(process)
        return process

    def run(self, *command: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run a program of the training container."""
        environment = {**self.environment, **variables}
        return subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=300)


@pytest.fixture
def pod(cloud: LocalCloud, client: Callable[[str], Any], tmp_path: Path) -> Iterator[Callable[..., Pod]]:
    """Return a pod for a request, whose role may do everything, or has these statements as its policy."""

    def make(request: Mapping[str, Any], *statements: Mapping[str, Any]) -> Pod:
        arn = role(client("iam"), "training", "sagemaker.amazonaws.com", *statements)
        made.append(Pod(tmp_path, {**request, "RoleArn": arn}, cloud.environment_for(REGION, arn, {})))
        return made[-1]

    made: list[Pod] = []
    yield make
    for one in made:
        one.end()
