"""Merges in Python: models are copied once to one Region, and the same merge is submitted once."""

import dataclasses
import time
from collections.abc import Callable
from dataclasses import replace

import boto3
import pytest

import traingrid as tg
from tests.support.sample_job import sample_job
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.api.merge import prepare_merge
from traingrid.audit.copies import unneeded_copies
from traingrid.audit.snapshot import SETTLED_SECONDS
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.prune import _prune
from traingrid.errors import TraingridError, UsageError
from traingrid.grid.deployment import Deployment
from traingrid.job.job import Channel, Job
from traingrid.job.state import JobState
from traingrid.ledger.damage import intact
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.moves import MoveItem, Moves
from traingrid.merge.line import RoundStep
from traingrid.submission.files import submission_id
from traingrid.submission.folders_in_use import FoldersInUse
from traingrid.submission.status import JobStatus, SubmissionStatus

SUBMISSION = "0a1b2c3d"
REGIONS = ("us-east-1", "us-east-1", "eu-west-1")
Names = Callable[[str], str]


def bucket(kind: Callable[[str, str, str], str], deployment: Deployment, region: str) -> str:
    return kind("traingrid", deployment.account, region)


@pytest.fixture
def deployment(deployment: Deployment) -> Deployment:
    grid = deployment.grid.model_copy(update={"moves": True, "instance_types": ("ml.m5.large", "ml.m5.xlarge")})
    return type(deployment)(**{**vars(deployment), "grid": grid})


@pytest.fixture
def grid(
    deployment: Deployment, ledger: Ledger, storage: Storage, moves: Moves, monkeypatch: pytest.MonkeyPatch
) -> tg.Grid:
    """A grid with three completed jobs, whose models are in the output buckets of two Regions."""
    jobs, statuses = dict[int, Job](), list[JobStatus]()
    for region in dict.fromkeys(REGIONS):
        s3 = boto3.client("s3", region)
        where = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        for kind in (names.data_bucket, names.output_bucket):
            s3.create_bucket(Bucket=bucket(kind, deployment, region), **where)  # type: ignore[arg-type]  # a Region's name
    for index, region in enumerate(REGIONS):
        data = bucket(names.data_bucket, deployment, region)
        channels = {name: Channel(uri=f"s3://{data}/day/{name}/") for name in ("train", "validation")}
        jobs[index] = sample_job(region, index).model_copy(update={"inputs": channels})
        output, key = bucket(names.output_bucket, deployment, region), f"{index}/output/model.tar.gz"
        boto3.client("s3", region).put_object(Bucket=output, Key=key, Body=f"model {index}".encode())
        state, artifact = JobState.COMPLETED, f"s3://{output}/{key}"
        statuses.append(JobStatus(index=index, region=region, name=f"job-{index}", state=state, artifact=artifact))
    status = SubmissionStatus(submission=SUBMISSION, manifest="", batch_job="", batch_state="", jobs=statuses)
    monkeypatch.setattr(ControlPlane, "status", lambda *_: status)
    monkeypatch.setattr(ControlPlane, "last_submitted_jobs", lambda *_: jobs)
    return tg.Grid(ControlPlane(deployment=deployment, ledger=ledger, batch=None, storage=storage))  # type: ignore[arg-type]  # Batch is not called


@pytest.fixture
def moves(table: object, deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Moves:
    """The ledger's items of copies, in the same table as the ledger."""
    monkeypatch.setattr("traingrid.ledger.moves.Table", lambda *_: table)
    return Moves(deployment.table)


@pytest.fixture
def intake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the intake accept each manifest."""
    monkeypatch.setattr("traingrid.api.submit_once.wait_for_report", lambda *_: {"state": "submitted"})


def keys(bucket_name: str) -> list[str]:
    return [key for key, _ in Storage("us-east-1").sizes(S3Uri(bucket_name, ""))]


def test_a_merge_copies_the_models_and_is_submitted_once(grid: tg.Grid, deployment: Deployment, intake: None) -> None:
    announced: list[str] = []
    first = tg.Submission(grid, SUBMISSION).merge(announce=announced.append)
    data = bucket(names.data_bucket, deployment, "us-east-1")
    copies = keys(data)
    assert [key.rpartition("/")[2] for key in copies] == [
        f"part-{place:03d}-{SUBMISSION}-{place}.tar.gz" for place in range(3)
    ]
    assert [Storage("us-east-1").read(S3Uri(data, key)) for key in copies] == [b"model 0", b"model 1", b"model 2"]
    assert len(announced) == 3
    manifests = keys(deployment.manifest_bucket)
    assert len(manifests) == 1
    assert manifests[0].startswith(f"manifests/merges/{SUBMISSION}-average-")
    again = tg.Submission(grid, SUBMISSION).merge(announce=announced.append)
    assert again.id == first.id
    assert (keys(deployment.manifest_bucket), keys(data), len(announced)) == (manifests, copies, 3)


def test_a_merge_reads_the_channels_that_the_training_found_in_its_folder(
    grid: tg.Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, statuses = grid.plane.last_submitted_jobs(SUBMISSION), grid.plane.status(SUBMISSION).jobs
    jobs[0] = jobs[0].model_copy(update={"by_layout": True})
    statuses[0] = dataclasses.replace(statuses[0], training_job="trained-0")
    layout = S3Uri.parse(jobs[0].output) / "trained-0" / "input" / "channels.manifest"
    boto3.client("s3", "us-east-1").create_bucket(Bucket=layout.bucket)
    Storage("us-east-1").write_json(layout, {"train": "train-", "validation": "validation-"})
    merged = prepare_merge(grid.plane, SUBMISSION, [0, 1], tg.MergeRequest(method="ensemble", region="us-east-1"))
    folder = jobs[0].inputs["validation"].uri.removesuffix("validation/")
    assert merged.job.inputs["validation"].uri == f"{folder}validation-"


def test_models_are_copied_beside_one_whose_item_is_damaged(
    grid: tg.Grid, deployment: Deployment, moves: Moves, intake: None
) -> None:
    tg.Submission(grid, SUBMISSION).merge(0, 1)
    data = bucket(names.data_bucket, deployment, "us-east-1")
    first, second = (f"s3://{data}/{key}" for key in keys(data))
    for target in (first, second):
        boto3.client("s3", "us-east-1").delete_object(Bucket=data, Key=target.removeprefix(f"s3://{data}/"))
    moves._table.put({"submission": "moves", "item": first, "source": 7})
    with pytest.raises(TraingridError, match=r"part-000-\S+'\) has .* The other models are copied"):
        tg.Submission(grid, SUBMISSION).merge(0, 1)
    assert [f"s3://{data}/{key}" for key in keys(data)] == [second]


def test_a_merge_whose_item_is_damaged_after_its_submission_has_its_id(
    grid: tg.Grid,
    deployment: Deployment,
    moves: Moves,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def intake(*_: object) -> dict[str, str]:
        for item in list(moves.all()):
            assert isinstance(item, MoveItem)
            moves._table.put({"submission": "moves", "item": item.target, "source": 7})
        return {"state": "submitted"}

    monkeypatch.setattr("traingrid.api.submit_once.wait_for_report", intake)
    assert tg.Submission(grid, SUBMISSION).merge(0, 1).id
    assert caplog.text.count("has no field 'region'") == 2


def test_another_method_is_another_submission_with_the_same_copies(
    grid: tg.Grid, deployment: Deployment, intake: None
) -> None:
    requests = (tg.MergeRequest(), tg.MergeRequest(method="ensemble"))
    found = {tg.Submission(grid, SUBMISSION).merge(0, 1, request=request).id for request in requests}
    assert len(found) == 2
    assert len(keys(bucket(names.data_bucket, deployment, "us-east-1"))) == 2


OPTIONS: dict[str, dict[str, object]] = {
    "method": {"method": "ensemble"},
    "region": {"region": "eu-west-1"},
    "data": {"data": "s3://{data}/all"},
    "instance_type": {"instance_type": "ml.m5.xlarge"},
    "image": {"image": "resnet"},
    "folders": {"method": "parts", "folders": True},
    "statistics_images": {"statistics_images": 4096},
    "step": {
        "step": RoundStep(
            rounds="cells", number=1, weight_by="records", statistics="recompute", learning_rate=0.7, momentum=0.6
        )
    },
}
"""Another value of each option."""


def key(grid: tg.Grid, *indexes: int, **options: object) -> str:
    return prepare_merge(grid.plane, SUBMISSION, indexes, tg.MergeRequest(**options)).key  # type: ignore[arg-type]  # options


def test_every_option_and_model_is_another_submission(grid: tg.Grid, deployment: Deployment) -> None:
    assert OPTIONS.keys() == {field.name for field in dataclasses.fields(tg.MergeRequest)}
    data = bucket(names.data_bucket, deployment, "us-east-1")
    made = [key(grid), key(grid, 0, 1), key(grid, 1, 0), key(grid, method="parts")]
    for options in OPTIONS.values():
        given = {name: value.format(data=data) if name == "data" else value for name, value in options.items()}  # type: ignore[attr-defined]  # a text
        assert key(grid, **given) == key(grid, **given)
        made.append(key(grid, **given))
    assert len(set(made)) == len(made)
    boto3.client("s3").put_object(
        Bucket=bucket(names.output_bucket, deployment, "us-east-1"), Key="0/output/model.tar.gz", Body=b"trained again"
    )
    assert key(grid) not in made


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"folders": True}, "The method average does not read the option --folders."),
        ({"method": "parts", "data": "s3://b/all"}, "The method parts does not read the option --data."),
        ({"method": "ensemble", "statistics_images": 1}, "The method ensemble does not read the option --statistics-"),
    ],
)
def test_an_option_that_the_method_does_not_read_is_refused(
    grid: tg.Grid, options: dict[str, object], expected: str
) -> None:
    with pytest.raises(UsageError, match=f"^{expected}") as error:
        key(grid, **options)
    assert error.value.next_step.startswith("Leave --")


def test_the_cost_of_the_transfer_is_that_of_other_regions(grid: tg.Grid) -> None:
    found = prepare_merge(grid.plane, SUBMISSION, (), tg.MergeRequest())
    assert found.job.region == "us-east-1"
    assert found.transferred == len("model 2")
    assert found.job.hyperparameters["merge_method"] == "average"


def test_a_model_that_was_deleted_is_named(grid: tg.Grid, deployment: Deployment) -> None:
    boto3.client("s3", "eu-west-1").delete_object(
        Bucket=bucket(names.output_bucket, deployment, "eu-west-1"), Key="2/output/model.tar.gz"
    )
    with pytest.raises(TraingridError, match=r"^There is no model of job 2 in s3://"):
        prepare_merge(grid.plane, SUBMISSION, (), tg.MergeRequest())


def test_an_option_that_the_grid_refuses_copies_nothing(grid: tg.Grid, deployment: Deployment) -> None:
    with pytest.raises(TraingridError, match="instance_type"):
        tg.Submission(grid, SUBMISSION).merge(request=tg.MergeRequest(instance_type="ml.m5.96xlarge"))
    assert keys(bucket(names.data_bucket, deployment, "us-east-1")) == []
    assert keys(deployment.manifest_bucket) == []


def test_a_rejected_merge_is_submitted_again_after_its_cause_is_removed(
    grid: tg.Grid, storage: Storage, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = ["rejected", "submitted"]

    def intake(storage: Storage, uri: S3Uri, version: str) -> dict[str, object]:
        """Answer as the intake, whose report stays beside the manifest."""
        report = {"version": version, "state": answers.pop(0), "errors": [], "errors_in_total": 0}
        storage.write_json(S3Uri(uri.bucket, f"{uri.key}.report.json"), report)
        return report

    monkeypatch.setattr("traingrid.api.submit_once.wait_for_report", intake)
    with pytest.raises(TraingridError, match="rejected"):
        tg.Submission(grid, SUBMISSION).merge()
    (rejected,) = [key for key in keys(deployment.manifest_bucket) if key.endswith(".jsonl")]
    merged = tg.Submission(grid, SUBMISSION).merge()
    first, again = sorted(key for key in keys(deployment.manifest_bucket) if key.endswith(".jsonl"))
    assert {first, again} == {rejected, rejected.replace(".jsonl", "-try2.jsonl")}
    assert answers == []
    uri = S3Uri(deployment.manifest_bucket, rejected)
    version = storage.first_version(uri)
    assert version is not None
    assert merged.id != submission_id(str(uri), version)


def merged(grid: tg.Grid) -> str:
    return tg.Submission(grid, SUBMISSION).merge(1, 2).id


def test_the_ledger_has_the_copies_and_attributes_transfers_to_the_merge(
    grid: tg.Grid, moves: Moves, intake: None
) -> None:
    merge = merged(grid)
    first, second = intact(moves.all())
    assert [(item.state, item.job, item.bytes) for item in (first, second)] == [("copied", f"{merge}/0", 7)] * 2
    assert (first.from_region, first.transferred, first.written_bytes) == ("us-east-1", {}, 7)
    assert (second.from_region, second.transferred, second.written_bytes) == ("eu-west-1", {f"{merge}/0": 7}, 7)
    assert merged(grid) == merge
    assert [(item.state, item.job, item.transferred) for item in intact(moves.all())] == [
        ("copied", f"{merge}/0", {}),
        ("copied", f"{merge}/0", {f"{merge}/0": 7}),
    ]


def pruned(deployment: Deployment, item: MoveItem) -> str:
    return _prune(deployment, item).run().result


@pytest.fixture
def unused(monkeypatch: pytest.MonkeyPatch, table: object) -> None:
    """No job uses a copy."""
    monkeypatch.setattr("traingrid.cli.prune.folders_in_use", lambda _: FoldersInUse())
    monkeypatch.setattr("traingrid.ledger.datasets.Table", lambda *_: table)


def test_copies_of_a_merge_are_pruned_and_copied_again(
    grid: tg.Grid, deployment: Deployment, moves: Moves, intake: None, unused: None
) -> None:
    merge, data = merged(grid), bucket(names.data_bucket, deployment, "us-east-1")
    copies = unneeded_copies(deployment, moves, FoldersInUse)
    assert [copy.reason for copy in copies] == ["no open job uses it"] * 2
    assert [pruned(deployment, copy.item) for copy in copies] == ["pruned", "pruned"]
    assert keys(data) == []
    merged(grid)
    assert len(keys(data)) == 2
    transferred = [item.transferred for item in intact(moves.all())]
    assert transferred == [{}, {f"{merge}/0": 14}], "both transfers are billed"


def test_a_copy_that_an_open_merge_reads_is_not_unneeded(
    grid: tg.Grid, deployment: Deployment, moves: Moves, intake: None
) -> None:
    merged(grid)
    folder = next(intact(moves.all())).target.rpartition("/")[0]
    assert unneeded_copies(deployment, moves, lambda: FoldersInUse(jobs={f"{folder}/": "job 0 of a merge"})) == []


def test_a_model_whose_source_was_deleted_is_kept(
    grid: tg.Grid, deployment: Deployment, moves: Moves, intake: None, unused: None
) -> None:
    merged(grid)
    boto3.client("s3", "eu-west-1").delete_object(
        Bucket=bucket(names.output_bucket, deployment, "eu-west-1"), Key="2/output/model.tar.gz"
    )
    assert [pruned(deployment, item) for item in list(intact(moves.all()))] == ["pruned", "kept"]
    assert len(keys(bucket(names.data_bucket, deployment, "us-east-1"))) == 1


def test_a_merge_waits_for_the_end_of_a_removal(grid: tg.Grid, moves: Moves, intake: None) -> None:
    merged(grid)
    item = next(intact(moves.all()))
    assert moves.change(item, replace(item, state="pruning", owner="prune-1"))
    with pytest.raises(TraingridError, match=r"part-000-.* is being removed by `traingrid data prune`\."):
        merged(grid)


def test_a_copy_without_a_merge_is_unneeded_after_ten_minutes(
    grid: tg.Grid, deployment: Deployment, moves: Moves, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise TraingridError("no")

    monkeypatch.setattr("traingrid.api.merge.submit_once", refuse)
    with pytest.raises(TraingridError):
        merged(grid)
    assert unneeded_copies(deployment, moves, FoldersInUse) == []
    later = time.time() + SETTLED_SECONDS + 2
    found = unneeded_copies(deployment, moves, FoldersInUse, later)
    assert [copy.reason for copy in found] == ["its merge was not submitted, and no open job uses it"] * 2


def test_an_outer_step_reads_its_start_and_its_velocity_beside_the_models(
    grid: tg.Grid, deployment: Deployment, intake: None
) -> None:
    """The start is the model of job 0 here, and the velocity the output.tar.gz beside it."""
    output = bucket(names.output_bucket, deployment, "us-east-1")
    boto3.client("s3", "us-east-1").put_object(Bucket=output, Key="0/output/output.tar.gz", Body=b"velocity")
    step = RoundStep(
        rounds="cells",
        number=2,
        weight_by="records",
        statistics="average",
        learning_rate=0.7,
        momentum=0.6,
        start=f"{SUBMISSION}/0",
    )
    prepared = prepare_merge(grid.plane, SUBMISSION, [1, 2], tg.MergeRequest(region="us-east-1", step=step))
    assert [str(copy.target).rpartition("/")[2] for copy in prepared.copies] == [
        f"part-000-{SUBMISSION}-1.tar.gz",
        f"part-001-{SUBMISSION}-2.tar.gz",
        "start.tar.gz",
        "velocity.tar.gz",
    ]
    prepared.run()
    data = bucket(names.data_bucket, deployment, "us-east-1")
    assert [Storage("us-east-1").read(S3Uri(data, key)) for key in keys(data)][2:] == [b"model 0", b"velocity"]
    assert "train" not in prepared.job.inputs
    assert prepared.job.hyperparameters["merge_outer_round"] == "2"
    assert prepared.job.tags["rounds"] == "cells"


def test_a_step_evaluates_with_the_data_of_a_region_that_is_left_out(grid: tg.Grid) -> None:
    step = RoundStep(
        rounds="cells", number=1, weight_by="models", statistics="average", learning_rate=1.0, momentum=0.0
    )
    request = tg.MergeRequest(region="eu-west-1", step=step)
    prepared = prepare_merge(grid.plane, SUBMISSION, [0, 1], request)
    left_out = grid.plane.last_submitted_jobs(SUBMISSION)[2]
    assert prepared.job.inputs["validation"].uri == left_out.inputs["validation"].uri


def test_fedavg_reads_only_the_models(grid: tg.Grid) -> None:
    step = RoundStep(
        rounds="cells",
        number=2,
        weight_by="models",
        statistics="recompute",
        learning_rate=1.0,
        momentum=0.0,
        start=f"{SUBMISSION}/0",
    )
    prepared = prepare_merge(grid.plane, SUBMISSION, [1, 2], tg.MergeRequest(region="us-east-1", step=step))
    assert len(prepared.copies) == 2
    assert "train" in prepared.job.inputs


def test_weights_of_scripts_are_merged_without_data_and_without_mpi(grid: tg.Grid) -> None:
    request = tg.MergeRequest(method="weights")
    with pytest.raises(tg.UsageError, match=r"Job 0 did not train a script, whose weights this method averages\. Use "):
        prepare_merge(grid.plane, SUBMISSION, [0, 2], request)
    jobs = grid.plane.last_submitted_jobs(SUBMISSION)
    for index in (0, 2):
        jobs[index] = jobs[index].model_copy(update={"source": "s3://b/s.tar.gz", "entry_point": "train.py"})
    job = prepare_merge(grid.plane, SUBMISSION, [0, 2], request).job
    assert (job.launcher, list(job.inputs), job.hyperparameters["merge_method"]) == ("none", ["models"], "weights")
    with pytest.raises(tg.UsageError, match="The method weights does not read the option --data"):
        prepare_merge(grid.plane, SUBMISSION, [0, 2], tg.MergeRequest(method="weights", data="s3://b/x"))


def test_the_merge_of_a_round_has_its_manifest_in_the_folder_of_the_rounds(grid: tg.Grid) -> None:
    options = {"weight_by": "records", "statistics": "average", "learning_rate": 1.0, "momentum": 0.0}
    step = RoundStep(rounds="cells", number=2, **options)  # type: ignore[arg-type]  # texts and numbers
    key = prepare_merge(grid.plane, SUBMISSION, [0, 2], tg.MergeRequest(step=step)).key
    assert key.startswith("rounds/cells/merge-002-")
