"""A deployed grid in a localcloud for measurements: manifests, and the environments of children and functions.

Batch itself starts no children here; the measurement starts each child, alone on the machine.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from localcloud.credentials.environments import user_environment
from localcloud.ecr import process_images
from localcloud.ecr.process_images import ProcessImage
from localcloud.server.local_cloud import LocalCloud
from localcloud.settings import Settings
from tests.support.deployment import deploy
from traingrid import names
from traingrid.grid.file import load_grid
from traingrid.grid.model import GridSettings

ACCOUNT = "123456789012"
IDLE_TAG = "idle"
PATIENCE_SECONDS = 120
# The training image ends immediately, because only the launch is measured. The grid specifies its URI, so that
# deploy() does not push the real image there.
GRID = f"""\
name: bench
home: us-east-1
regions:
  us-east-1:
  eu-west-1:
images:
  resnet: {{repository: training, tag: "1"}}
  idle: {{uri: "{ACCOUNT}.dkr.ecr.{{region}}.amazonaws.com/bench/training:{IDLE_TAG}"}}
job:
  image: idle
  instance_type: ml.p3.16xlarge
  processes_per_host: 8
  volume_gb: 100
  max_runtime: 24h
  hyperparameters: {{model: resnet50}}
"""


@dataclass(frozen=True, kw_only=True)
class Array:
    """A manifest that the deployed intake has submitted.

    Attributes:
        manifest: S3 URI of the manifest.
        job: Id of the Batch job.
        environment: Variables that Batch sets in each child, except its index.
    """

    manifest: str
    job: str
    environment: Mapping[str, str]

    def child(self, index: int) -> dict[str, str]:
        """Return the variables of one child (https://docs.aws.amazon.com/batch/latest/userguide/job_env_vars.html)."""
        own = {"AWS_BATCH_JOB_ID": f"{self.job}:{index}", "AWS_BATCH_JOB_ARRAY_INDEX": str(index)}
        return {**self.environment, **own, "AWS_BATCH_JOB_ATTEMPT": "1"}


@dataclass(frozen=True, kw_only=True)
class World:
    """A deployed grid.

    Attributes:
        work: Folder for logs.
    """

    cloud: LocalCloud
    grid: GridSettings
    work: Path

    @property
    def manifest_bucket(self) -> str:
        """Name of the manifest bucket."""
        return names.manifest_bucket(self.grid.name, ACCOUNT, self.grid.home)

    def lines(self, count: int) -> str:
        """Return a manifest of `count` lines of equal length, which alternate between the Regions."""
        regions = list(self.grid.regions)
        return "".join(
            f"{region},{self.data(region)},campaign-{number:05d}\n"
            for number in range(count)
            for region in [regions[number % len(regions)]]
        )

    def data(self, region: str) -> str:
        """Return the S3 URI of the data in a Region."""
        return f"s3://{names.data_bucket(self.grid.name, ACCOUNT, region)}/campaign"

    def put_data(self) -> None:
        """Write an object into each channel of each Region's data, because SageMaker refuses empty channels."""
        for region in self.grid.regions:
            bucket, _, key = self.data(region).removeprefix("s3://").partition("/")
            for channel in self.grid.job.channels:
                client("s3", region).put_object(Bucket=bucket, Key=f"{key}/{channel}/part-0", Body=b"x")

    def put_manifest(self, key: str, content: str) -> str:
        """Upload a manifest and return its version."""
        put = client("s3", self.grid.home).put_object(Bucket=self.manifest_bucket, Key=key, Body=content.encode())
        return str(put["VersionId"])

    def submit(self, name: str, lines: int, content: str = "") -> Array:
        """Upload a manifest of `lines` lines, and wait until the deployed intake has submitted it.

        Args:
            name: The name of its object.
            content: Its content; by default that of `lines`.
        """
        before = len(self.cloud.record.entries())
        key = f"{names.MANIFEST_PREFIX}{name}"
        self.put_manifest(key, content or self.lines(lines))
        sent = self.submitted(before)
        self.settled(sent["jobId"], lines)
        environment = {
            entry["name"]: entry["value"] for entry in (*self.container()["environment"], *sent["overrides"])
        }
        return Array(manifest=f"s3://{self.manifest_bucket}/{key}", job=sent["jobId"], environment=environment)

    def container(self) -> dict[str, Any]:
        """Return the container properties of the deployed job definition."""
        found = client("batch", self.grid.home).describe_job_definitions(
            jobDefinitionName=names.job_definition(self.grid.name), status="ACTIVE"
        )
        return dict(found["jobDefinitions"][-1]["containerProperties"])

    def child_environment(self, region: str, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the complete environment of a process with the children's role."""
        return self.cloud.environment_for(region, self.container()["jobRoleArn"], variables)

    @contextmanager
    def without_intake(self) -> Iterator[None]:
        """Prevent uploads from starting the deployed intake function during the block."""
        events = client("events", self.grid.home)
        (rule,) = events.list_rule_names_by_target(TargetArn=self._intake()["FunctionArn"])["RuleNames"]
        events.disable_rule(Name=rule)
        yield
        events.enable_rule(Name=rule)

    def _intake(self) -> Any:
        stacks = client("cloudformation", self.grid.home).describe_stacks(StackName=names.control_stack(self.grid.name))
        outputs = {output["OutputKey"]: output["OutputValue"] for output in stacks["Stacks"][0]["Outputs"]}
        return client("lambda", self.grid.home).get_function_configuration(FunctionName=outputs["IntakeFunction"])

    def intake_environment(self) -> dict[str, str]:
        """Return the complete environment of the intake function."""
        function = self._intake()
        return self.cloud.environment_for(self.grid.home, function["Role"], function["Environment"]["Variables"])

    def submitted(self, after: int) -> dict[str, Any]:
        """Wait for the first SubmitJob after an entry of the record; return its jobId and environment overrides."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            for sent in self.cloud.record.entries("batch", "SubmitJob", after=after):
                overrides = sent["parameters"].get("containerOverrides", {}).get("environment", [])
                return {"jobId": sent["response"]["jobId"], "overrides": overrides}
            time.sleep(0.1)
        raise TimeoutError(f"no job was submitted within {PATIENCE_SECONDS} s; see the functions' logs in {self.work}")

    def recorded(self, access_key: str, after: int) -> dict[str, int]:
        """Return the number of accepted mutating calls of each kind with an access key."""
        entries = self.cloud.record.entries(after=after)
        own = (entry for entry in entries if entry["access_key"] == access_key)
        return dict(Counter(f"{entry['service']}.{entry['action']}" for entry in own))

    def settled(self, job: str, lines: int) -> None:
        """Wait until Batch has queued every child, which consumes localcloud's processor time."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            found = client("batch", self.grid.home).describe_jobs(jobs=[job])["jobs"][0]
            queued = found.get("arrayProperties", {}).get("statusSummary", {}).get("RUNNABLE", 0)
            if found["status"] == "RUNNABLE" or queued == lines:
                return
            time.sleep(0.2)
        raise TimeoutError(f"Batch has not queued the {lines} children of {job} within {PATIENCE_SECONDS} s")


def client(service: str, region: str) -> Any:
    """Return a client of the localcloud in this process's environment."""
    return boto3.client(service, region_name=region)  # type: ignore[call-overload] # the stubs want a literal name


@contextmanager
def deployed(
    work: Path, grid: str = GRID, prepare: Callable[[LocalCloud, Path], object] = lambda _cloud, _file: None
) -> Iterator[World]:
    """Deploy a grid of two Regions for all measurements, and set this process's environment to that of a user.

    Args:
        work: Folder for all files.
        grid: The content of grid.yaml.
        prepare: Prepares the account for the file of the grid, before the deployment.
    """
    with LocalCloud(Settings(data_dir=work, batch_max_processes=0)) as cloud:
        os.environ.update(user_environment(cloud.endpoint_url))
        file = work / "grid.yaml"
        file.write_text(grid)
        prepare(cloud, file)
        deploy(cloud.endpoint_url, file, work)
        world = World(cloud=cloud, grid=load_grid(file), work=work)
        idle = ProcessImage(command=("/bin/true",), working_directory="/")
        for region in world.grid.regions:
            process_images.push(client("ecr", region), names.training_repository(world.grid.name), IDLE_TAG, idle)
        world.put_data()
        yield world


def intake_event(bucket: str, key: str, version: str) -> str:
    """Return an S3 event "Object Created" with the fields that the intake reads, as JSON."""
    return json.dumps({"detail": {"bucket": {"name": bucket}, "object": {"key": key, "version-id": version}}})
