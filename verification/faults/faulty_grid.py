"""Faulty grid: a deployed grid into which faults are injected, and which passes bring to rest."""

import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from moto.awslambda.models import lambda_backends

from localcloud.faults.plan import FaultPlan, Stub
from localcloud.kubernetes.cluster import RunningCluster
from localcloud.kubernetes.resources import RESOURCE_QUOTA
from localcloud.processes.process_group import ProcessGroup, groups
from traingrid.aws.clients import client
from traingrid.backends import inventory_of
from traingrid.grid.region import Region
from traingrid.reconciler.pass_report import PassReport
from traingrid.reconciler.reconciler import Reconciler
from verification.deployed_grid import until
from verification.faults import disabled_safeguards
from verification.faults.account import ACCOUNT, OPERATORS
from verification.faults.clusters import cluster_in
from verification.faults.engine import ENGINES, Engine
from verification.faults.submissions import REGIONS, Submission, SubmittingGrid

ENDLESS_SECONDS = 1200.0
"""Duration of a training job that the experiment must stop itself, with a margin for slow machines."""
GRID_FILE = "grid.yaml"
_CHECKOUT = Path(__file__).resolve().parents[2]
_PROGRAM = "from traingrid.cli.main import main; main()"  # uses this checkout, not an installed `traingrid`


@dataclass(kw_only=True)
class FaultyGrid(SubmittingGrid):
    """A deployed grid into which faults are injected.

    Attributes:
        seed: Seed of every fault plan.
    """

    seed: int
    engine: Engine = ENGINES["sagemaker"]

    @contextmanager
    def sabotaged(self, safeguard: str) -> Iterator[None]:
        """Disable a safeguard in a function, or in every child that starts during the block.

        Args:
            safeguard: A name of `verification.faults.disabled_safeguards`.
        """
        if safeguards := disabled_safeguards.SAFEGUARDS_OF_FUNCTIONS.get(safeguard):
            with self._other_function(safeguards):
                yield
            return
        self.fork_client.environment[disabled_safeguards.VARIABLE] = safeguard
        try:
            yield
        finally:
            del self.fork_client.environment[disabled_safeguards.VARIABLE]

    @contextmanager
    def _other_function(self, safeguard: disabled_safeguards.InFunction) -> Iterator[None]:
        name, functions = self.output(safeguard.output), client("lambda", "us-east-1")
        deployed = lambda_backends[ACCOUNT]["us-east-1"].get_function(name).code_bytes
        functions.update_function_code(FunctionName=name, ZipFile=disabled_safeguards.code_without(safeguard, deployed))
        try:
            yield
        finally:
            functions.update_function_code(FunctionName=name, ZipFile=deployed)

    def cluster(self, region: str) -> RunningCluster:
        """Return the cluster of a Region."""
        return cluster_in(self.cloud, region)

    @contextmanager
    def quota_of_pods(self, pods: int) -> Iterator[None]:
        """Limit the pods in the namespace of every cluster during the block."""
        quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": str(pods)}}}
        places = [(self.cluster(name), settings.eks.namespace) for name, settings in self._regions() if settings.eks]
        for cluster, namespace in places:
            cluster.client.create(RESOURCE_QUOTA, namespace, quota)
        try:
            yield
        finally:
            for cluster, namespace in places:
                cluster.client.delete(RESOURCE_QUOTA, namespace, "few")

    def _regions(self) -> Iterable[tuple[str, Region]]:
        return self.plane.deployment.grid.regions.items()

    @contextmanager
    def unscheduled(self) -> Iterator[None]:
        """Disable the reconciler's schedule during the block, because concurrent passes of many lines only compete."""
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
            parts: Fields of `localcloud.faults.plan.FaultPlan`.
        """
        stubs = (*parts.pop("stubs", ()), Stub(seconds=stub_seconds))
        self.cloud.faults.set(FaultPlan(seed=self.seed, stubs=stubs, **parts))

    def quiet(self) -> None:
        """Wait until localcloud has recorded no new calls for three seconds."""
        before = -1
        while (calls := len(self.cloud.record.entries())) != before:
            before = calls
            time.sleep(3.0)

    def command(self, label: str, *arguments: str) -> ProcessGroup:
        """Start the `traingrid` program with a user's credentials, in a process that a plan can select and kill.

        Args:
            label: Name of the process in a plan.
        """
        return ProcessGroup(
            self._program(*arguments),
            environment=self._own_keys(),
            working_directory=_CHECKOUT,
            on_line=lambda _: None,
            label=label,
        )

    def result(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the `traingrid` program with a user's credentials, and return its exit status and output."""
        return subprocess.run(
            self._program(*arguments),
            env=self._own_keys(),
            cwd=_CHECKOUT,
            capture_output=True,
            text=True,
            check=False,
        )

    def _program(self, *arguments: str) -> list[str]:
        return [sys.executable, "-c", _PROGRAM, "--grid", str(self.cloud.data_dir / GRID_FILE), *arguments]

    def _own_keys(self) -> dict[str, str]:
        return self.cloud.environment_for("us-east-1", f"arn:aws:iam::{ACCOUNT}:role/{OPERATORS}", {})

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
            jobs = inventory_of(self.plane.deployment, region)
            for job in jobs.listed(state="InProgress"):
                jobs.stop(job)
        with suppress(TimeoutError):
            until(lambda: not (self.children_left() or self.active()), "nothing is running")

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

    def run_pass(self) -> PassReport:
        """Run one pass of the reconciler without a grace period."""
        return Reconciler.of(self.plane.deployment, grace_seconds=0.0).run_pass()


def settled(grid: FaultyGrid, submissions: Sequence[Submission], passes: int = 0) -> None:
    """Wait until submissions have come to rest, by themselves or through passes of the reconciler.

    Args:
        passes: Number of passes. The first runs as soon as no child is left, and stops cancelled jobs.
    """
    grid.ended(*(job for submission in submissions for job in submission.batch_jobs))
    if passes:
        grid.run_pass()
    grid.at_rest()
    for _ in range(passes - 1):
        grid.run_pass()
        grid.at_rest()
