"""A rehearsal: a manifest submitted to a deployed grid on a bad day, and the audit of what came of it."""

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localcloud.settings import Settings
from rehearsal.account import account_of
from rehearsal.mishaps import Struck, plan_of, struck
from rehearsal.scenery import put_up
from rehearsal.stage import BATCH_ENDED, Stage, deployed, patience
from traingrid.audit import audit
from traingrid.cli.submit import read_manifest, submitted
from traingrid.clients import client
from traingrid.deployment import Deployment
from traingrid.errors import TraingridError
from traingrid.grid import Grid, load_grid
from traingrid.job import Job
from traingrid.manifest import MAX_BYTES
from traingrid.manifest_line import Line
from traingrid.planning import NO_SUBMISSION
from traingrid.submission import jobs_of_lines
from traingrid.violation import Violation
from traingrid.world import World
from traingrid.world_reading import read_world

SWEEPS = 2
"""How often the reconciler may look at what children and events have left (`traingrid.world.SETTLED_SECONDS`)."""
_SWEEPS_TRIED = 2 * SWEEPS
_CHILDREN_AT_ONCE = 32
_INTAKE_SECONDS, _LINES_PER_SECOND = 8, 1000
"""How long the intake may take here, a slow machine thought of, and how many lines it takes in a second more."""


@dataclass(frozen=True, kw_only=True)
class Script:
    """A manifest that is good, and the grid that it is for.

    Attributes:
        manifest: The file.
        grid_file: The file that describes the grid.
        grid: The grid.
        account: The account whose buckets the manifest names.
        lines: Its lines.
        jobs: What they become, as far as it is known before the grid is deployed, and its images with it.
    """

    manifest: Path
    grid_file: Path
    grid: Grid
    account: str
    lines: Sequence[Line]
    jobs: Sequence[Job]


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """What came of a rehearsal.

    Attributes:
        struck: What has gone wrong on purpose.
        world: The grid at its end.
        sweeps: What each sweep of the reconciler has done.
        violations: What must not be and is.
        record: A file with every call that was accepted, where there are violations.
    """

    struck: Sequence[Struck]
    world: World
    sweeps: Sequence[Mapping[str, Any]]
    violations: Sequence[Violation]
    record: Path | None = None


def read_script(manifest: Path, grid_file: Path) -> Script:
    """Read what is to be rehearsed.

    Raises:
        GridError: The grid's description is wrong.
        TraingridError: The manifest is wrong; the text is that of `traingrid submit`.
    """
    grid = load_grid(grid_file)
    with manifest.open("rb") as file:
        texts = (content.decode(errors="replace") for content in (file.read(MAX_BYTES), grid_file.read_bytes()))
        account = grid.account or account_of(grid.name, texts)
    deployment = Deployment(grid=grid, account=account, table="", manifest_bucket="")
    lines, _ = read_manifest(manifest, deployment)  # sources are uploaded when it is submitted, to the localcloud
    jobs = jobs_of_lines(lines, deployment, NO_SUBMISSION)
    return Script(manifest=manifest, grid_file=grid_file, grid=grid, account=account, lines=lines, jobs=jobs)


def rehearse(script: Script, seed: int, say: Callable[[str], None]) -> Rehearsal:
    """Rehearse; whatever was started, and every file, is gone afterwards.

    Args:
        script: What.
        seed: Of what goes wrong.
        say: Takes what is being done now, in a few words; called about every second.

    Raises:
        TraingridError: The grid cannot be deployed, or its intake rejects the manifest or does not answer.
    """
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as work:
        settings = Settings(
            data_dir=Path(work),
            account=script.account,
            seed=seed,
            lambda_retry_delays_seconds=(0.5, 1.0),  # but for the intake
            batch_stop_grace_seconds=5.0,
            training_stop_grace_seconds=2.0,
            batch_max_processes=_CHILDREN_AT_ONCE,
        )
        say(f"deploying the grid {script.grid.name} of {len(script.grid.regions)} Regions with the CDK CLI")
        try:
            with deployed(script.grid_file, settings) as stage:
                say("putting up the data and images that the manifest names")
                deployment = stage.plane.deployment
                put_up(jobs_of_lines(script.lines, deployment, NO_SUBMISSION), deployment.account_of)
                return _Run(stage=stage, script=script, say=say).through(seed)
        except TraingridError as error:
            if work in error.next_step:  # a log that goes with the folder
                error.next_step = "What the README says about a local AWS by hand leaves the whole log."
            raise


@dataclass(kw_only=True)
class _Run:
    stage: Stage
    script: Script
    say: Callable[[str], None]
    sweeps: list[Mapping[str, Any]] = field(default_factory=list)

    def through(self, seed: int) -> Rehearsal:
        """Submit, watch, sweep, audit."""
        cloud = self.stage.cloud
        with self.stage.short_lived_intake(_INTAKE_SECONDS + len(self.script.jobs) // _LINES_PER_SECOND):
            cloud.faults.set(plan_of(self.script.jobs, seed))
            self.say("submitting the manifest")
            report = submitted(self.script.manifest, self.stage.plane.deployment)
        late: list[Violation] = []
        try:
            self._watch([array["batch_job"] for array in report["arrays"]])
            self._sweep()
        except TimeoutError as error:  # what never comes to rest is not accounted for
            late.append(Violation(invariant="I1", kind="lost", submission=report["submission"], what=str(error)))
        self.say("auditing")
        calls = cloud.record.entries()
        world = read_world(self.stage.plane.deployment, details=True, at_rest=True, calls=calls)
        violations = [*late, *_submitted_twice(world), *audit(world)]
        return Rehearsal(
            struck=struck(cloud.faults, len(world.training_jobs)),
            world=world,
            sweeps=self.sweeps,
            violations=violations,
            record=_kept(cloud.data_dir / "record.jsonl") if violations else None,
        )

    def _watch(self, batch_jobs: Sequence[str]) -> None:
        """Say how far it is until all children have ended, and with them every training job."""
        lines = len(self.script.jobs)
        deadline = time.monotonic() + patience(lines)
        while (ended := sum(map(self._ended, batch_jobs))) < lines and time.monotonic() < deadline:
            mishaps = sum(self.stage.cloud.faults.struck().values())
            self.say(f"{ended:,} of {lines:,} lines have come to their end, {mishaps:,} mishaps so far")
            time.sleep(1.0)
        self.stage.at_rest(*batch_jobs)

    def _ended(self, batch_job: str) -> int:
        """Return how many children of a Batch job have ended."""
        described = self.stage.plane.batch.describe(batch_job) or {}
        tally = described.get("arrayProperties", {}).get("statusSummary", {described.get("status"): 1})
        return sum(tally.get(status, 0) for status in BATCH_ENDED)

    def _sweep(self) -> None:
        """Have the deployed reconciler look, and once more if it had something to do; nothing is too young for it."""
        functions = client("lambda", self.script.grid.home)
        name, asked = self.stage.output("ReconcileFunction"), json.dumps({"grace_seconds": 0}).encode()
        for _ in range(_SWEEPS_TRIED):
            if len(self.sweeps) == SWEEPS or (self.sweeps and not any(self.sweeps[-1].values())):
                return
            self.say(f"sweep {len(self.sweeps) + 1} of the reconciler")
            reply = functions.invoke(FunctionName=name, Payload=asked)
            swept = json.loads(reply["Payload"].read())
            if "FunctionError" not in reply:  # else the next sweep, in five minutes, does all of it
                self.sweeps.append(swept)
            self.stage.at_rest()


def _submitted_twice(world: World) -> list[Violation]:
    """Find that one upload has become several submissions: each would train every line once more."""
    ids = sorted(world.submissions)
    what = f"the manifest was uploaded once and became {len(ids)} submissions: {', '.join(ids)}"
    return [Violation(invariant="I2", kind="duplicate", submission=ids[0], what=what)] if len(ids) > 1 else []


def _kept(record: Path) -> Path:
    with tempfile.NamedTemporaryFile(prefix="rehearsal-record-", suffix=".jsonl", delete=False) as copy:
        shutil.copy(record, copy.name)
        return Path(copy.name)
