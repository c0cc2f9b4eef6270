"""A rehearsal: submits a manifest to a deployed grid while faults strike, and audits the result."""

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localcloud.settings import Settings
from traingrid.api.submit import Progress, read_manifest, submit_manifest
from traingrid.audit.audit import audit
from traingrid.audit.read_snapshot import read_world
from traingrid.audit.snapshot import World
from traingrid.audit.violation import Violation
from traingrid.aws.clients import client
from traingrid.errors import TraingridError, UsageError
from traingrid.grid.deployment import Deployment
from traingrid.grid.file import load_grid
from traingrid.grid.model import GridSettings
from traingrid.job.job import Job
from traingrid.manifest.line import NO_SUBMISSION, Line, jobs_of_lines
from traingrid.manifest.parse import MAX_BYTES
from verification.deployed_grid import BATCH_ENDED, DeployedGrid, deployed, patience
from verification.rehearsal.account import account_of
from verification.rehearsal.fault_plan import Struck, plan_of, struck
from verification.rehearsal.placeholders import create_placeholders

PASSES = 2
"""Number of passes in which the reconciler must finish its work (`traingrid.audit.snapshot.SETTLED_SECONDS`)."""
_PASSES_TRIED = 2 * PASSES
_CHILDREN_AT_ONCE = 32
_INTAKE_SECONDS, _LINES_PER_SECOND = 8, 1000
"""Timeout of the intake in seconds, with a margin for slow machines, and the lines per additional second."""


@dataclass(frozen=True, kw_only=True)
class Script:
    """A valid manifest and the grid that it is for.

    Attributes:
        account: The account whose buckets the manifest names.
        jobs: The jobs of the lines, without values that are known only after the deployment, such as images.
    """

    manifest: Path
    grid_file: Path
    grid: GridSettings
    account: str
    lines: Sequence[Line]
    jobs: Sequence[Job]


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """Result of a rehearsal.

    Attributes:
        struck: The injected faults that struck.
        world: Snapshot of the grid at its end.
        passes: Summary of each pass of the reconciler.
        record: File with all accepted calls; None if there are no violations.
    """

    struck: Sequence[Struck]
    world: World
    passes: Sequence[Mapping[str, Any]]
    violations: Sequence[Violation]
    record: Path | None = None


def read_script(manifest: Path, grid_file: Path) -> Script:
    """Read a manifest and its grid.

    Raises:
        GridError: The grid's configuration is invalid.
        TraingridError: The manifest is invalid; the text is the same as in `traingrid submit`.
    """
    grid = load_grid(grid_file)
    with manifest.open("rb") as file:
        texts = (content.decode(errors="replace") for content in (file.read(MAX_BYTES), grid_file.read_bytes()))
        account = grid.account or account_of(grid.name, texts)
    deployment = Deployment(grid=grid, account=account, table="", manifest_bucket="")
    lines, _ = read_manifest(manifest, deployment)  # submitting it to the localcloud uploads its source folders
    with_models = [(line.number, line.settings.init_from) for line in lines if line.settings.init_from]
    for number, model in with_models[:1]:
        text = f"{manifest}:{number}: init_from {model} is a job of the deployed grid"
        raise UsageError(f"{text}, and a rehearsal has no earlier jobs.", "Rehearse a copy without init_from.")
    jobs = jobs_of_lines(lines, deployment, NO_SUBMISSION)
    return Script(manifest=manifest, grid_file=grid_file, grid=grid, account=account, lines=lines, jobs=jobs)


def rehearse(script: Script, seed: int, show_step: Callable[[str], None]) -> Rehearsal:
    """Run a rehearsal; afterwards all of its processes and files are gone.

    Args:
        script: The manifest and its grid.
        show_step: Receives a short description of the current step, about every second.

    Raises:
        TraingridError: The grid cannot be deployed, or its intake rejects the manifest or does not answer.
    """
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as work:
        settings = Settings(
            data_dir=Path(work),
            account=script.account,
            seed=seed,
            lambda_retry_delays_seconds=(0.5, 1.0),  # the intake has other delays
            batch_stop_grace_seconds=5.0,
            training_stop_grace_seconds=2.0,
            batch_max_processes=_CHILDREN_AT_ONCE,
        )
        show_step(f"deploying grid {script.grid.name} to {len(script.grid.regions)} Regions with the CDK CLI")
        try:
            with deployed(script.grid_file, settings) as grid:
                show_step("creating the data and images that the manifest names")
                deployment = grid.plane.deployment
                create_placeholders(jobs_of_lines(script.lines, deployment, NO_SUBMISSION), deployment.account_of)
                return _Run(grid=grid, script=script, show_step=show_step).through(seed)
        except TraingridError as error:
            if work in error.next_step:  # the log is deleted with the folder
                error.next_step = "To keep the whole log, deploy to a local AWS as the README describes."
            raise


@dataclass(kw_only=True)
class _Run:
    grid: DeployedGrid
    script: Script
    show_step: Callable[[str], None]
    passes: list[Mapping[str, Any]] = field(default_factory=list)

    def through(self, seed: int) -> Rehearsal:
        """Submit the manifest, watch it, run passes and audit."""
        cloud = self.grid.cloud
        with self.grid.short_lived_intake(_INTAKE_SECONDS + len(self.script.jobs) // _LINES_PER_SECOND):
            cloud.faults.set(plan_of(self.script.jobs, seed))
            self.show_step("submitting the manifest")
            report = submit_manifest(self.script.manifest, self.grid.plane.deployment, Progress(announce=print))
        late: list[Violation] = []
        try:
            self._watch([array["batch_job"] for array in report["arrays"]])
            self._run_pass()
        except TimeoutError as error:  # work that never comes to rest counts as lost
            late.append(Violation(invariant="I1", kind="lost", submission=report["submission"], what=str(error)))
        self.show_step("auditing")
        calls = cloud.record.entries()
        world = read_world(self.grid.plane.deployment, details=True, at_rest=True, calls=calls)
        violations = [*late, *_submitted_twice(world), *audit(world)]
        return Rehearsal(
            struck=struck(cloud.faults, len(world.training_jobs)),
            world=world,
            passes=self.passes,
            violations=violations,
            record=_kept(cloud.data_dir / "record.jsonl") if violations else None,
        )

    def _watch(self, batch_jobs: Sequence[str]) -> None:
        """Report progress until all children and training jobs have ended."""
        lines = len(self.script.jobs)
        deadline = time.monotonic() + patience(lines)
        while (ended := sum(map(self._ended, batch_jobs))) < lines and time.monotonic() < deadline:
            faults = sum(self.grid.cloud.faults.struck().values())
            self.show_step(f"{ended:,} of {lines:,} lines have ended, {faults:,} faults so far")
            time.sleep(1.0)
        self.grid.at_rest(*batch_jobs)

    def _ended(self, batch_job: str) -> int:
        """Return the number of children of a Batch job that have ended."""
        described = self.grid.plane.batch.describe(batch_job) or {}
        tally = described.get("arrayProperties", {}).get("statusSummary", {described.get("status"): 1})
        return sum(tally.get(status, 0) for status in BATCH_ENDED)

    def _run_pass(self) -> None:
        """Invoke the deployed reconciler without a grace period, and again if it has changed anything."""
        functions = client("lambda", self.script.grid.home)
        name, payload = self.grid.output("ReconcileFunction"), json.dumps({"grace_seconds": 0}).encode()
        for _ in range(_PASSES_TRIED):
            if len(self.passes) == PASSES or (self.passes and not any(self.passes[-1].values())):
                return
            self.show_step(f"pass {len(self.passes) + 1} of the reconciler")
            reply = functions.invoke(FunctionName=name, Payload=payload)
            swept = json.loads(reply["Payload"].read())
            if "FunctionError" not in reply:  # after an error, the next scheduled pass does all of the work
                self.passes.append(swept)
            self.grid.at_rest()


def _submitted_twice(world: World) -> list[Violation]:
    """Return a violation if one upload has become several submissions, each of which trains every line."""
    ids = sorted(world.submissions)
    sentence = f"the manifest was uploaded once and became {len(ids)} submissions: {', '.join(ids)}"
    return [Violation(invariant="I2", kind="duplicate", submission=ids[0], what=sentence)] if len(ids) > 1 else []


def _kept(record: Path) -> Path:
    with tempfile.NamedTemporaryFile(prefix="rehearsal-record-", suffix=".jsonl", delete=False) as copy:
        shutil.copy(record, copy.name)
        return Path(copy.name)
