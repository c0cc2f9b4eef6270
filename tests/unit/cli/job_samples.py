"""Samples of commands that show jobs."""

from types import SimpleNamespace
from typing import Any

import click

from tests.support.sample_job import sample_job
from tests.unit.cli.command_samples import BUCKET, NOW, SUBMISSION, Replace, Sample, replace_plane, returns
from traingrid.api.rounds import RoundsResult
from traingrid.cli import main
from traingrid.cli.plan_report import report
from traingrid.job.state import JobState
from traingrid.ledger.rejections import Rejection
from traingrid.ledger.submission_item import SubmissionItem
from traingrid.manifest.plan import Planned
from traingrid.manifest.resource_checks import ResourceCheck
from traingrid.metrics.comparison import ComparedJob, Comparison, ranked
from traingrid.planner.choices import Pool
from traingrid.planner.durations import Duration
from traingrid.planner.plan import Assignment, Plan
from traingrid.planner.training_places import TrainingPlace
from traingrid.rounds.journal import Contribution, GlobalModel, LeftOut, RoundLines, RoundMerge
from traingrid.rounds.state import Round, RoundsState
from traingrid.submission.listing import ListedSubmission
from traingrid.submission.overview import SubmissionOverview
from traingrid.submission.status import JobStatus, SubmissionStatus
from traingrid.sweep.journal import Ended, StoppedEarly
from traingrid.sweep.spec import Objective, Parameters
from traingrid.sweep.state import Trial

JOBS = [
    JobStatus(
        index=0,
        region="us-east-1",
        name="digits [bold]",
        state=JobState.COMPLETED,
        artifact=f"{BUCKET}/out/0/model.tar.gz",
        ranks=8,
        seconds=4000,
        epochs=20,
        started_at=1_767_000_000,
        metrics={"epoch": 20.0, "validation_top1": 0.98765, "images_per_second": 12345.6, "loss": 0.123456},
        dollars=1234.5,
        tried=("eu-west-1 (capacity)",),
        training_job="tg-0",
        created=True,
    ),
    JobStatus(
        index=1,
        region="eu-west-1",
        backend="eks",
        name="a-name-that-is-much-longer-than-other-names",
        state=JobState.IN_PROGRESS,
        phase="Training",
        ranks=16,
        epochs=20,
        epoch_seconds=720.0,
        started_at=int(NOW.timestamp()) - 3600,
        metrics={"epoch": 5.0, "f1": 0.5},
    ),
    JobStatus(index=2, region="us-west-2", name="=1+1", state=JobState.FAILED, reason="no \x1b data\nmore"),
]
REJECTIONS = [
    Rejection(
        manifest="s3://manifests/manifests/bad.jsonl",
        version="v",
        at="2026-01-02T03:04:05Z",
        errors=3,
        reason="line 2, region 'us-est-1': there is no such Region. Did you mean us-east-1?",
    )
]
STATUS = SubmissionStatus(submission=SUBMISSION, manifest="", batch_job="b", batch_state="", jobs=JOBS)


def _ledger() -> Any:
    return SimpleNamespace(pause=returns(None), shortages=returns([]), rejections=returns(REJECTIONS))


def _status(replace: Replace, jobs: int = 3) -> None:
    overview = SubmissionOverview(
        submission=SUBMISSION,
        manifest="",
        total=1510,
        states={"us-east-1": {JobState.COMPLETED: 1_500, JobState.IN_PROGRESS: 1}, "eu-west-1": {JobState.FAILED: 2}},
        unopened=7,
        failures={"capacity": 2, "": 1},
        running=[JOBS[1]],
        failed=[JOBS[2]],
        damaged=[],
    )
    replace_plane(
        replace,
        ledger=_ledger(),
        status=returns(STATUS),
        head=returns(SimpleNamespace(jobs=jobs)),
        last_submitted_jobs=returns({0: SimpleNamespace(source="s3://sources/x.tar.gz", metrics={"los": ""})}),
        overview=returns(overview),
    )


def _overview(replace: Replace) -> None:
    _status(replace, jobs=1510)


def _submissions(replace: Replace) -> None:
    listed = [
        ListedSubmission(
            item=SubmissionItem(
                submission=submission,
                state="Submitted",
                jobs=sum(states.values()),
                manifest=f"s3://{manifest}",
                claimed_at="2026-01-02T03:04:05Z",
                version="v",
                batch_job="b",
            ),
            states=states,
        )
        for submission, manifest, states in (
            (SUBMISSION, "manifests/manifests/x.csv", {JobState.COMPLETED: 2, JobState.FAILED: 1}),
            ("66666666", "manifests/manifests/y.csv", {JobState.COMPLETED: 4}),
            ("77777777", "other/[b]" + "long" * 30, {JobState.IN_PROGRESS: 1_200, JobState.PENDING: 7}),
        )
    ]
    replace("traingrid.cli.status.listed_submissions", returns(listed))
    replace_plane(replace, ledger=_ledger())


def _compare(replace: Replace) -> None:
    compared = [
        ComparedJob(
            submission=SUBMISSION,
            status=job,
            hyperparameters={"rate": f"0.{job.index}"},
            values=(3.0, 1.0),
            exclusion=ranked(job, "loss").exclusion,
        )
        for job in JOBS
    ]
    replace_plane(replace)
    replace(
        "traingrid.cli.compare.compared", returns(Comparison(metric="loss", lowest=True, jobs=compared, explanation=""))
    )


def _sweep(replace: Replace) -> None:
    objective = Objective(metric="validation_top1", direction="maximize")
    parameters: list[Parameters] = [
        {"rate": 0.123456789, "depth": 3},
        {"rate": 1e-4, "depth": 9},
        {"rate": 0.1, "depth": 1},
    ]
    ends = (("Completed", 0.75, ""), ("Stopped", 0.5, ""), ("Failed", None, "capacity"))
    trials = tuple(
        Trial(
            number=number,
            parameters=parameters[number],
            line=0,
            region="us-east-1",
            batch=0,
            submission=SUBMISSION,
            stopped=StoppedEarly(trial=number, epoch=4, best=0.5, median=0.6) if number == 1 else None,
            ended=Ended(
                trial=number,
                index=number,
                state=state,
                region="us-east-1",
                value=value,
                seconds=90 * number,
                dollars=1.5 * number,
                reason=reason,
            ),
        )
        for number, (state, value, reason) in enumerate(ends)
    )
    facts = {"name": "digits", "metric": objective.metric, "trials": trials, "best": trials[0], "value": 0.75}
    result = SimpleNamespace(**facts, manifest="{}", is_out_of_budget=False)
    spec = SimpleNamespace(
        name="digits", objective=objective, space={"rate": 0, "depth": 0}, number_of_trials=3, parallel=2, final={}
    )
    opened = SimpleNamespace(spec=spec, run=returns(result), sweep=SimpleNamespace(next_trials=returns(trials[:2])))
    replace("traingrid.cli.sweep.open_sweep", returns(opened))
    replace_plane(replace)


def _rounds(replace: Replace) -> None:
    contributions = tuple(
        Contribution(region=region, index=index, artifact=f"{BUCKET}/{index}/model.tar.gz", etag="1", size=10**6)
        for index, region in enumerate(("us-east-1", "eu-west-1"))
    )
    lines = RoundLines(number=1, began_at=0, manifest='# jobs: 2\n{"region": "us-east-1"}\n{"region": "eu-west-1"}\n')
    merge = RoundMerge(
        number=1,
        contributions=contributions,
        left_out=(LeftOut(region="us-west-2", index=2, reason="is Failed: training diverged", diverged=True),),
        manifest='{"region": "eu-west-1"}\n',
        key="",
    )
    model = GlobalModel(
        number=1,
        model="89abcdef/0",
        region="eu-west-1",
        artifact=f"{BUCKET}/model.tar.gz",
        etag="1",
        size=10**6,
        metrics={"validation_top1": 0.75, "best_part_top1": 0.5},
    )
    done = Round(
        number=1, entry=1, lines=lines, submission=SUBMISSION, merge=merge, merge_submission="89abcdef", model=model
    )
    training = Round(number=2, entry=5, lines=lines, submission="fedcba98")
    state = RoundsState(spec={}, rounds={1: done, 2: training})
    spec = SimpleNamespace(
        name="cells",
        epochs=2,
        rounds=2,
        merge=SimpleNamespace(region="eu-west-1"),
        outer=SimpleNamespace(kind="diloco"),
    )
    opened = SimpleNamespace(
        spec=spec,
        run=returns(RoundsResult(name="cells", rounds=(done,))),
        rounds=SimpleNamespace(read=lambda: state, lines=[{}, {}, {}]),
    )
    replace("traingrid.cli.rounds.open_rounds", returns(opened))
    replace_plane(replace)


def replace_plans(replace: Replace) -> None:
    job = sample_job("us-east-1")
    plans = [
        Planned(job=job, resources=ResourceCheck()),
        Planned(
            job=sample_job("eu-west-1", 1).model_copy(update={"spot": True}), resources=ResourceCheck(unchecked=("x",))
        ),
    ]
    for name in ("find_deployment", "check_name", "parsed_packed", "with_initial_models", "check_resources"):
        replace(f"traingrid.cli.submit.{name}", returns(None))
    replace("traingrid.cli.submit.with_packed_sources", returns(SimpleNamespace(content=b"", sources=())))
    replace("traingrid.cli.submit.planned", returns(plans))


def _merge(replace: Replace) -> None:
    copies = [
        SimpleNamespace(
            model=SimpleNamespace(job=job, archive=f"{BUCKET}/{job.index}/model.tar.gz"),
            head=SimpleNamespace(size=1_234_567 * (job.index + 1)),
            target=f"{BUCKET}/copies/{job.index}",
        )
        for job in JOBS[1:]
    ]
    opened = SimpleNamespace(copies=copies, job=sample_job("us-east-1"), transferred=5)
    replace_plane(replace)
    replace("traingrid.cli.merge.prepare_merge", returns(opened))


def _plan(replace: Replace) -> None:
    pools = [
        Pool(region="us-east-1", instance_type="ml.m5.large", option=option, instances=4, dollars=1.0)
        for option in ("on_demand", "spot", "arn:aws:sagemaker:us-east-1:1:training-plan/p-1")
    ]
    places = [
        TrainingPlace(region="us-east-1", uri=f"{BUCKET}/x", transfer=transfer, storage=0.5)
        for transfer in (0.0, 9.5, 0)
    ]
    candidates: list[Any] = [SimpleNamespace(job=sample_job("us-east-1", number), skipped=()) for number in range(3)]
    assignments = tuple(
        Assignment(
            candidate=candidate,
            pool=pool,
            place=place,
            duration=Duration(hours=0.25 * 8**candidate.job.index, source="past runs"),
            compute=1234.5 * candidate.job.index,
            verdict="the cheapest [x]",
        )
        for candidate, pool, place in zip(candidates, pools, places, strict=True)
    )
    line: Any = SimpleNamespace(line=SimpleNamespace(number=4))
    short: Any = SimpleNamespace(candidate=line, reason="no quota", next_step="x")
    options: Any = SimpleNamespace(now=NOW)
    plan = Plan(options=options, assignments=assignments, shortages=(short,), pools=(), gap=0.01, bound=1.0)
    facts: Any = SimpleNamespace(prices={pool.key: SimpleNamespace(as_of=NOW.date()) for pool in pools}, transfer={})

    @click.command()
    @click.option("--output", default="table")
    def command(output: Any) -> None:
        report(plan, facts, output)

    replace(main.cli, "get_command", returns(command))


JOB_SAMPLES: dict[str, Sample] = {
    "status": (_status, ["status", SUBMISSION]),
    "status_overview": (_overview, ["status", SUBMISSION]),
    "status_submissions": (_submissions, ["status"]),
    "compare": (_compare, ["compare", SUBMISSION]),
    "sweep": (_sweep, ["sweep", "digits.yaml"]),
    "sweep_plan": (_sweep, ["sweep", "digits.yaml", "--plan"]),
    "rounds": (_rounds, ["rounds", "cells.yaml"]),
    "rounds_plan": (_rounds, ["rounds", "cells.yaml", "--plan"]),
    "submit_plan": (replace_plans, ["submit", "--plan", "x.csv"]),
    "plan": (_plan, ["plan"]),
    "merge_plan": (_merge, ["merge", SUBMISSION, "--plan"]),
}
