"""Faulty grid: a deployed grid in a localcloud with faults, with operations to submit, wait, sweep and audit."""

import itertools
import json
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from types import MappingProxyType
from typing import Any

from moto.awslambda.models import lambda_backends

from localcloud.ecr import process_images
from localcloud.ecr.process_images import ProcessImage
from localcloud.faults.plan import Plan, Stub
from localcloud.limits.quota import AccountProfile
from localcloud.processes.process_group import ProcessGroup, groups
from localcloud.settings import Settings
from traingrid import names
from traingrid.audit.audit import audit
from traingrid.audit.calls import created, submission_of
from traingrid.audit.read_snapshot import read_world
from traingrid.audit.snapshot import World
from traingrid.audit.violation import Violation
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri
from traingrid.backends.queued_jobs import training_jobs_in
from traingrid.job.state import FINAL_STATES
from traingrid.ledger.submission_item import SubmissionItem
from traingrid.reconciler.reconciler import Reconciler
from traingrid.reconciler.sweep import Sweep
from traingrid.submission.batch_children import Children
from traingrid.submission.cancel import Canceller, CancelReport, Wanted
from traingrid.submission.files import submission_id
from traingrid.submission.intake import ManifestVersion
from verification.deployed_grid import BATCH_ENDED, PATIENCE_SECONDS, DeployedGrid, deployed, until
from verification.faults import disabled_safeguards
from verification.faults.account import ACCOUNT, INSTANCE_TYPE, grant_instances, prepare

__all__ = [
    "BATCH_ENDED",
    "ENDLESS_SECONDS",
    "PATIENCE_SECONDS",
    "REGIONS",
    "FaultyGrid",
    "Submission",
    "data_folder",
    "faulty_grid",
    "settled",
    "until",
]

REGIONS = ("us-east-1", "eu-west-1")
STUB_TAG = "stub"
ENDLESS_SECONDS = 1200.0
"""Duration of a training job that the experiment must stop itself, with a margin for slow machines."""
_NO_FIELDS: Mapping[str, str] = MappingProxyType({})
_READ_ONE_BY_ONE = 12
"""With more submissions than this, the whole grid is read in one pass, even if most of it belongs to others."""
CHECKOUT = Path(__file__).resolve().parents[2]
_PROGRAM = "from traingrid.cli.main import main; main()"  # uses this checkout, not an installed `traingrid`
GRID_FILE = "grid.yaml"
GRID = f"""\
name: grid
home: us-east-1
regions:
  us-east-1:
  eu-west-1:
images:
  resnet: {{uri: "{ACCOUNT}.dkr.ecr.{{region}}.amazonaws.com/grid/training:{STUB_TAG}"}}
job:
  image: resnet
  instance_type: {INSTANCE_TYPE}
  processes_per_host: 8
  volume_gb: 200
  max_runtime: 24h
"""


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A manifest that the deployed intake has submitted.

    Attributes:
        id: The submission's id.
        batch_job: Id of its Batch array, or of the first one if it has several.
        batch_jobs: Ids of all its arrays.
        lines: Number of jobs.
        file: S3 URI, with version, of the file that its children read.
    """

    id: str
    batch_job: str
    batch_jobs: tuple[str, ...]
    lines: int
    file: str


@dataclass(kw_only=True)
class FaultyGrid(DeployedGrid):
    """A deployed grid into which faults are injected.

    Attributes:
        seed: Seed of every fault plan.
    """

    seed: int
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @contextmanager
    def sabotaged(self, safeguard: str) -> Iterator[None]:
        """Disable a safeguard in the intake, or in every child that starts during the block.

        Args:
            safeguard: A name of `verification.faults.disabled_safeguards`.
        """
        if safeguard in disabled_safeguards.SAFEGUARDS_OF_INTAKE:
            with self._other_intake(safeguard):
                yield
            return
        self.fork_client.environment[disabled_safeguards.VARIABLE] = safeguard
        try:
            yield
        finally:
            del self.fork_client.environment[disabled_safeguards.VARIABLE]

    @contextmanager
    def _other_intake(self, safeguard: str) -> Iterator[None]:
        name, functions = self.output("IntakeFunction"), client("lambda", "us-east-1")
        deployed = lambda_backends[ACCOUNT]["us-east-1"].get_function(name).code_bytes
        functions.update_function_code(FunctionName=name, ZipFile=disabled_safeguards.code_without(safeguard, deployed))
        try:
            yield
        finally:
            functions.update_function_code(FunctionName=name, ZipFile=deployed)

    @contextmanager
    def unscheduled(self) -> Iterator[None]:
        """Disable the reconciler's schedule during the block, because concurrent sweeps of many lines only compete."""
        events = client("events", "us-east-1")
        rules = [rule["Name"] for rule in events.list_rules()["Rules"] if "ScheduleExpression" in rule]
        for rule in rules:
            events.disable_rule(Name=rule)
        try:
            yield
        finally:
            for rule in rules:
                events.enable_rule(Name=rule)

    @contextmanager
    def children_at_once(self, number: int) -> Iterator[None]:
        """Allow this many concurrent children during the block, for children that mostly wait."""
        before = self.cloud.settings
        self.cloud.settings = replace(before, batch_max_processes=number)
        try:
            yield
        finally:
            self.cloud.settings = before

    def plan(self, stub_seconds: float = 0.0, **parts: Any) -> None:
        """Activate a fault plan. Every training job is a stub, because the training itself is not under test.

        Args:
            stub_seconds: Duration of a training job.
            parts: Fields of `localcloud.faults.plan.Plan`.
        """
        stubs = (*parts.pop("stubs", ()), Stub(seconds=stub_seconds))
        self.cloud.faults.set(Plan(seed=self.seed, stubs=stubs, **parts))

    def manifest(self, lines: int, retries: int = 0, fields: Mapping[str, str] = _NO_FIELDS) -> str:
        """Return a manifest whose lines alternate between the Regions.

        Args:
            lines: Number of lines.
            retries: Retries per line. If it is not 0, half of the lines also have a replica in the other Region.
            fields: Additional fields, the same in each line.
        """
        header = ("region", "s3_uri", "name", "retries", *(f"replica.{region}" for region in REGIONS), *fields)
        rows = [",".join(header)]
        for index in range(lines):
            region, other = REGIONS[index % 2], REGIONS[(index + 1) % 2]
            replicas = (data_folder(name) if retries and index % 4 < 2 and name == other else "" for name in REGIONS)
            own = (region, data_folder(region), f"job-{index}", str(retries or ""))
            rows.append(",".join((*own, *replicas, *fields.values())))
        return "\n".join(rows) + "\n"

    def upload(self, lines: int, retries: int = 0, fields: Mapping[str, str] = _NO_FIELDS) -> str:
        """Upload a manifest (see `manifest`) under a new name, and return the id of its future submission."""
        source = self.put(self.manifest(lines, retries, fields).encode())
        return submission_id(str(source.uri), source.version)

    def put(self, content: bytes) -> ManifestVersion:
        """Upload arbitrary bytes as a manifest under a new name."""
        uri = S3Uri(self.plane.deployment.manifest_bucket, f"{names.MANIFEST_PREFIX}{next(self._numbers)}.csv")
        return ManifestVersion(uri=uri, version=self.plane.storage.write(uri, content, "text/csv"))

    def report(self, source: ManifestVersion) -> dict[str, Any]:
        """Wait for the report that the intake writes next to a manifest, and return it."""
        content = until(
            lambda: self.plane.storage.read_if_exists(source.report), f"the intake has reported on {source.uri}"
        )
        return dict(json.loads(content))

    def submitted(self, submission: str) -> Submission:
        """Wait until the intake has submitted a manifest."""

        def look() -> SubmissionItem | None:
            item = self.plane.ledger.submission(submission)
            return item if item and item.batch_job else None

        item = until(look, f"submission {submission} is submitted")
        return Submission(
            id=submission,
            batch_job=item.batch_job,
            batch_jobs=tuple(array.batch_job for array in item.arrays),
            lines=item.jobs,
            file=self._array_file(item.batch_job),
        )

    def submit(self, lines: int, retries: int = 0, fields: Mapping[str, str] = _NO_FIELDS) -> Submission:
        """Upload a manifest (see `manifest`) and wait until the intake has submitted it."""
        return self.submitted(self.upload(lines, retries, fields))

    def submit_again(self, submission: Submission) -> str:
        """Start a second child for every line of a submission, which users must not do; return the Batch job's id."""
        request: dict[str, Any] = {
            "jobName": f"again-{next(self._numbers)}",
            "jobQueue": self.plane.deployment.job_queue,
            "jobDefinition": self.plane.deployment.job_definition,
            "containerOverrides": {"environment": [{"name": "S3_ARRAY_FILE", "value": submission.file}]},
        }
        if submission.lines > 1:
            request["arrayProperties"] = {"size": submission.lines}
        return str(client("batch", "us-east-1").submit_job(**request)["jobId"])

    def quiet(self) -> None:
        """Wait until localcloud has recorded no new calls for three seconds."""
        before = -1
        while (calls := len(self.cloud.record.entries())) != before:
            before = calls
            time.sleep(3.0)

    def cancel(self, submission: Submission, index: int) -> CancelReport:
        """Cancel a line as `traingrid cancel` does."""
        deployment = self.plane.deployment
        canceller = Canceller(
            deployment=deployment, ledger=self.plane.ledger, children=self.children(), storage=self.plane.storage
        )
        return canceller.cancel(Wanted(submission=submission.id, index=index, by="test", reason="it is a test"))

    def command(self, label: str, *arguments: str) -> ProcessGroup:
        """Start the `traingrid` program with a user's credentials, in a process that a plan can select and kill.

        Args:
            label: Name of the process in a plan.
            arguments: Command-line arguments.
        """
        own_keys = self.cloud.environment_for("us-east-1", f"arn:aws:iam::{ACCOUNT}:role/operators", {})
        return ProcessGroup(
            [sys.executable, "-c", _PROGRAM, "--grid", str(self.cloud.data_dir / GRID_FILE), *arguments],
            environment=own_keys,
            working_directory=CHECKOUT,
            on_line=lambda _: None,
            label=label,
        )

    def lose_children(self, submission: Submission) -> int:
        """Kill all children of a submission, which Batch then does not retry, and return how many were running."""
        ours = [group for job in submission.batch_jobs for group in groups(f"batch/{job}*") if group.runs]
        for job in submission.batch_jobs:
            self.children().terminate(job, "its hosts are lost")
        for group in ours:
            group.lose(host_lost=True)
        self.ended(*submission.batch_jobs)
        return len(ours)

    def clear(self) -> None:
        """Terminate the remaining Batch jobs and training jobs of an experiment, so that the next one can begin."""
        self.plan()
        for batch_job in self._batch_jobs_left():
            self.children().terminate(batch_job, "the experiment is over")
        for region in REGIONS:
            jobs = training_jobs_in(self.plane.deployment, region)
            for job in jobs.listed(state="InProgress"):
                jobs.stop(job.name)
        with suppress(TimeoutError):
            until(lambda: not (self.children_left() or self.active()), "nothing is running")

    def states(self, submission: str) -> dict[int, str]:
        """Return the state of each opened job of a submission, by index."""
        return {item.index: item.state for item in self.plane.ledger.jobs(submission)}

    def recorded(self, submission: Submission) -> bool:
        """Return True if the ledger contains a final state for every line."""
        states = self.states(submission.id)
        return len(states) == submission.lines and set(states.values()) <= FINAL_STATES

    def running(self) -> list[ProcessGroup]:
        """Return the processes of the children that are running."""
        return groups("batch/*")

    def children_left(self) -> bool:
        """Return True if Batch has jobs that have not ended."""
        return any(self._batch_jobs_left())

    def _batch_jobs_left(self) -> Iterator[str]:
        """Yield the ids of the Batch jobs that have not ended."""
        batch, queue = client("batch", "us-east-1"), self.plane.deployment.job_queue
        for status in ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING"):
            for job in batch.list_jobs(jobQueue=queue, jobStatus=status)["jobSummaryList"]:
                yield job["jobId"]

    def sweep(self) -> Sweep:
        """Run one sweep of the reconciler without a grace period."""
        return Reconciler.of(self.plane.deployment, grace_seconds=0.0).sweep()

    def children(self) -> Children:
        """Return the reader of the Batch children of submissions."""
        return Children(self.plane.storage, self.plane.deployment.manifest_bucket, self.plane.deployment.grid.home)

    def world(self, *submissions: str) -> World:
        """Return a snapshot of these submissions, including every create call that localcloud accepted for them."""
        if len(submissions) > _READ_ONE_BY_ONE:
            return self._of(read_world(self.plane.deployment, details=True, at_rest=True), submissions)
        return self._of(
            reduce(
                _together,
                (read_world(self.plane.deployment, submission=one, details=True, at_rest=True) for one in submissions),
            ),
            submissions,
        )

    def _of(self, world: World, submissions: Collection[str]) -> World:
        """Return the part of a snapshot that belongs to some submissions, with the create calls made for them."""
        wanted = set(submissions)
        calls = self.cloud.record.entries()
        return replace(
            world,
            submissions={k: v for k, v in world.submissions.items() if k in wanted},
            lines={k: v for k, v in world.lines.items() if k[0] in wanted},
            cancels={k: v for k, v in world.cancels.items() if k in wanted},
            training_jobs=[job for job in world.training_jobs if job.identity.submission in wanted],
            calls=[call for call in calls if submission_of(world.grid, created(call)) in wanted],
            batch_jobs={k: v for k, v in world.batch_jobs.items() if submission_of(world.grid, k) in wanted},
        )

    def audit(self, *submissions: str) -> list[Violation]:
        """Return the violations in these submissions, all of whose work should have ended."""
        return audit(self.world(*submissions))

    def _array_file(self, batch_job: str) -> str:
        described = self.plane.batch.describe(batch_job) or {}
        variables = {entry["name"]: entry["value"] for entry in described["container"]["environment"]}
        return str(variables["S3_ARRAY_FILE"])


def data_folder(region: str) -> str:
    """Return the data folder of every line in a Region."""
    return f"s3://{names.data_bucket('grid', ACCOUNT, region)}/campaign"


def _together(one: World, other: World) -> World:
    return replace(
        other,
        submissions={**one.submissions, **other.submissions},
        lines={**one.lines, **other.lines},
        cancels={**one.cancels, **other.cancels},
        children={**one.children, **other.children},
        batch_jobs={**one.batch_jobs, **other.batch_jobs},
        training_jobs=[*one.training_jobs, *other.training_jobs],
    )


@contextmanager
def faulty_grid(work: Path, seed: int, account: AccountProfile = "young") -> Iterator[FaultyGrid]:
    """Deploy a grid in two Regions with the real CDK CLI, once for any number of experiments.

    This process has a user's environment for the localcloud during the block.

    Args:
        work: Folder for the localcloud's data and logs.
        seed: Seed of every random choice.
        account: Profile of the account (`localcloud.limits`).
    """
    settings = Settings(
        data_dir=work,
        seed=seed,
        account_profile=account,
        lambda_retry_delays_seconds=(0.5, 1.0),
        batch_stop_grace_seconds=10.0,
        training_stop_grace_seconds=2.0,
        batch_max_processes=24,
    )
    file = work / GRID_FILE
    work.mkdir(parents=True, exist_ok=True)
    file.write_text(GRID)
    with deployed(file, settings, first="verification.faults.disabled_safeguards:apply", prepare=prepare) as deployment:
        grant_instances(deployment.cloud, "")
        _put_data_and_images()
        yield FaultyGrid(cloud=deployment.cloud, plane=deployment.plane, fork_client=deployment.fork_client, seed=seed)


def _put_data_and_images() -> None:
    """Push a placeholder image and data: SageMaker refuses jobs without them, although the stubs do not read them."""
    for region in REGIONS:
        nothing = ProcessImage(command=(sys.executable, "-c", ""), working_directory="/")
        process_images.push(client("ecr", region), names.training_repository("grid"), STUB_TAG, nothing)
        bucket, _, key = data_folder(region).removeprefix("s3://").partition("/")
        for channel, part in itertools.product(("train", "validation"), range(2)):
            client("s3", region).put_object(Bucket=bucket, Key=f"{key}/{channel}/part-{part}", Body=b"x")


def settled(grid: FaultyGrid, submissions: Sequence[Submission], sweeps: int = 0) -> None:
    """Wait until submissions have come to rest, by themselves or through sweeps of the reconciler.

    Args:
        grid: The grid.
        submissions: The submissions.
        sweeps: Number of sweeps. The first runs as soon as no child is left, and stops cancelled jobs.
    """
    grid.ended(*(job for submission in submissions for job in submission.batch_jobs))
    if sweeps:
        grid.sweep()
    grid.at_rest()
    for _ in range(sweeps - 1):
        grid.sweep()
        grid.at_rest()
