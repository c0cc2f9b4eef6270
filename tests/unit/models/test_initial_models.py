"""Initial models: the job that `init_from` names is found in the ledger, or the line is refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.support.sample_deployment import ACCOUNT, SAMPLE_BUCKETS
from tests.support.sample_job import sample_job
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.grid.deployment import Deployment
from traingrid.job.initial_model import InitialModel
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.ledger.items import JobItem, JobKey
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.submission_item import Array, SubmissionItem
from traingrid.manifest.errors import ManifestError
from traingrid.manifest.fields import LineSettings
from traingrid.manifest.line import Line, job_of_line
from traingrid.manifest.parse import parse
from traingrid.merge.line import MergeRequest, merge_line
from traingrid.merge.models import Model
from traingrid.models import archives as model_archives
from traingrid.models import fit as model_fit
from traingrid.models.archives import ModelArchives
from traingrid.models.initial_models import InitialModels
from traingrid.models.limits import MAX_COPIED_BYTES, MAX_COPIES, MAX_MODELS
from traingrid.submission.files import jobs_key, normalised, retry_key
from traingrid.submission.submitted_jobs import last_submitted_job
from training_container.recipe.config import Config
from verification.model.table import ModelTable

HERE, THERE, TRAINED = "us-east-1", "eu-west-1", "89abcdef"
ARTIFACT = f"s3://traingrid-output-{ACCOUNT}-{HERE}/{TRAINED}/0/traingrid-{TRAINED}-0-1/output/model.tar.gz"
RESNET = {"tensorboard": True, "hyperparameters": {"model": "resnet50", "classes": "10"}}


def trained(
    ledger: Ledger, job: Job, state: JobState = JobState.COMPLETED, artifact: str = ARTIFACT, **facts: Any
) -> None:
    """Record a submission of two jobs, of which the first has reached a state."""
    ledger.claim_submission(TRAINED, "test", {"manifest": "s3://m/a.csv", "jobs": 2})
    ledger.record_submitted(TRAINED, "b", [Array(batch_job="b", file="jobs.jsonl", count=2)])
    ledger.open_job(TRAINED, job, job.regions, "jobs")
    key = JobKey(submission=TRAINED, index=0, attempt=1)
    recorded: Any = {"state": state, "training_job": "t", "artifact": artifact, **facts}
    ledger.record_job(key, recorded)


def a_job(**changes: Any) -> Job:
    return sample_job(HERE).model_copy(update={**RESNET, **changes})


def a_line(deployment: Deployment, region: str = HERE, named: str = f"{TRAINED}/0", **line: Any) -> Line:
    made = {"region": region, "s3_uri": f"s3://{SAMPLE_BUCKETS[region]}/x", "init_from": named, **line}
    made.setdefault("hyperparameters", {"classes": 10})
    return parse(json.dumps(made).encode(), deployment)[0]


def changed(deployment: Deployment, **grid: Any) -> Deployment:
    document = deployment.grid.model_dump(exclude_unset=True) | grid
    return replace(deployment, grid=type(deployment.grid).model_validate(document))


def reader(storage: Storage, deployment: Deployment) -> Callable[[SubmissionItem, JobItem], Job | None]:
    return partial(last_submitted_job, storage, deployment.manifest_bucket)


@pytest.fixture
def reading(ledger: Ledger, storage: Storage, deployment: Deployment) -> InitialModels:
    """Initial models that also read the lines of other submissions."""
    return InitialModels(deployment=deployment, ledger=ledger, submitted_job=reader(storage, deployment))


def artifact_of(lines: list[Line]) -> str | None:
    """Return the URI of the first line's initial model."""
    model = lines[0].settings.init_from
    return model.artifact if model else None


def reason(models: InitialModels, line: Line) -> str:
    with pytest.raises(ManifestError) as error:
        models.resolved([line])
    (found,) = error.value.errors
    assert (found.field, found.line) == ("init_from", line.number)
    assert found.next_step
    return found.reason


def stored(storage: Storage, deployment: Deployment, job: Job, key: str = "") -> None:
    body, index = normalised([job])
    uri = S3Uri(deployment.manifest_bucket, key or jobs_key(TRAINED))
    storage.write(uri, body, "application/x")
    storage.write(S3Uri(uri.bucket, uri.key.replace(".jsonl", ".index")), index, "application/x")


def test_a_line_gets_the_region_and_the_archive_of_the_model(ledger: Ledger, deployment: Deployment) -> None:
    trained(ledger, a_job())
    line = a_line(deployment)
    (found,) = InitialModels(deployment=deployment, ledger=ledger).resolved([line])
    expected = InitialModel(submission=TRAINED, index=0, region=HERE, artifact=ARTIFACT)
    assert found.settings.init_from == expected


def test_lines_without_the_field_need_no_ledger(deployment: Deployment) -> None:
    lines = parse(f"{HERE},s3://{SAMPLE_BUCKETS[HERE]}/x\n".encode(), deployment)
    absent: Any = None
    assert InitialModels(deployment=deployment, ledger=absent).resolved(lines) == lines


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("00000000/0", "this grid has no submission 00000000"),
        (f"{TRAINED}/2", f"submission {TRAINED} has the indexes 0 to 1"),
        (
            f"{TRAINED}/1",
            f"job 1 of submission {TRAINED} is Pending, and only a completed job has a model to begin with",
        ),
    ],
)
def test_a_job_without_a_model_is_refused(ledger: Ledger, deployment: Deployment, named: str, expected: str) -> None:
    trained(ledger, a_job())
    models = InitialModels(deployment=deployment, ledger=ledger)
    assert reason(models, a_line(deployment, named=named)) == expected


@pytest.mark.parametrize("state", [JobState.IN_PROGRESS, JobState.FAILED, JobState.STOPPED])
def test_only_a_completed_job_can_be_named(ledger: Ledger, deployment: Deployment, state: JobState) -> None:
    trained(ledger, a_job(), state)
    expected = f"job 0 of submission {TRAINED} is {state}, and only a completed job has a model to begin with"
    assert reason(InitialModels(deployment=deployment, ledger=ledger), a_line(deployment)) == expected


def test_all_wrong_lines_are_reported(ledger: Ledger, deployment: Deployment) -> None:
    lines = [replace(a_line(deployment), number=number) for number in (1, 2)]
    with pytest.raises(ManifestError) as error:
        InitialModels(deployment=deployment, ledger=ledger).resolved(lines)
    assert [found.line for found in error.value.errors] == [1, 2]


def test_a_model_is_only_copied_to_another_region_if_the_grid_moves_data(
    ledger: Ledger, deployment: Deployment
) -> None:
    trained(ledger, a_job())
    line = a_line(deployment, THERE)
    found = reason(InitialModels(deployment=deployment, ledger=ledger), line)
    assert found == f"the model is in {HERE}, and this grid does not copy data to {THERE}"
    moving = changed(deployment, moves=True)
    (resolved,) = InitialModels(deployment=moving, ledger=ledger).resolved([line])
    assert resolved.settings.init_from
    assert resolved.settings.init_from.region == HERE


def test_replicas_are_regions_of_the_model_too(ledger: Ledger, deployment: Deployment) -> None:
    trained(ledger, a_job())
    line = a_line(deployment, replicas={THERE: f"s3://{SAMPLE_BUCKETS[THERE]}/x"})
    found = reason(InitialModels(deployment=deployment, ledger=ledger), line)
    assert found == f"the model is in {HERE}, and this grid does not copy data to {THERE}"


def test_a_model_stays_where_the_grid_keeps_the_data_of_its_region(ledger: Ledger, deployment: Deployment) -> None:
    trained(ledger, a_job())
    regions: dict[str, Any] = {name: {"data_buckets": [bucket]} for name, bucket in SAMPLE_BUCKETS.items()}
    regions[HERE]["residency"] = regions["us-west-2"]["residency"] = ["us"]
    line = a_line(deployment, THERE)
    kept = changed(deployment, moves=True, regions=regions)
    found = reason(InitialModels(deployment=kept, ledger=ledger), line)
    assert found == f"the model is in {HERE}, and grid.yaml allows its data only in us, not in {THERE}"


def test_a_model_stays_where_the_line_of_its_job_keeps_its_data(
    ledger: Ledger, storage: Storage, deployment: Deployment
) -> None:
    trained(ledger, a_job())
    stored(storage, deployment, a_job(residency=("us",)))
    models = InitialModels(
        deployment=changed(deployment, moves=True), ledger=ledger, submitted_job=reader(storage, deployment)
    )
    found = reason(models, a_line(deployment, THERE))
    assert found == f"the model is in {HERE}, and its line allows the data only in us, not in {THERE}"


@pytest.mark.parametrize(
    ("job", "line", "expected"),
    [
        ({}, {"hyperparameters": {"classes": 5}}, "the hyperparameter classes is 5, and the model was trained with 10"),
        (
            {},
            {"hyperparameters": {"classes": 10, "model": "resnet8"}},
            "the hyperparameter model is resnet8, and the model was trained with resnet50",
        ),
        (
            {"hyperparameters": {"model": "resnet50"}},
            {},
            "the hyperparameter classes is 10, and the model was trained with 1000",
        ),
        (
            {"launcher": "torchrun"},
            {},
            "the model was trained with PyTorch, and this line's program is the trainer for TensorFlow",
        ),
        (
            {"tensorboard": False},
            {},
            "the model was not trained by the training image's own trainer, which this line uses",
        ),
        (
            {"source": "s3://b/sourcedir.tar.gz"},
            {},
            "the model was not trained by the training image's own trainer, which this line uses",
        ),
    ],
)
def test_a_model_of_another_network_is_refused_before_any_cost(
    reading: InitialModels, storage: Storage, job: dict[str, Any], line: dict[str, Any], expected: str
) -> None:
    trained(reading.ledger, a_job())
    stored(storage, reading.deployment, a_job(**job))
    assert reason(reading, a_line(reading.deployment, **line)) == expected


def test_a_line_with_the_same_number_in_another_form_begins_with_the_model(
    reading: InitialModels, storage: Storage
) -> None:
    trained(reading.ledger, a_job())
    stored(storage, reading.deployment, a_job())
    assert reading.resolved([a_line(reading.deployment, hyperparameters={"classes": 10.0, "model": "resnet50"})])


def test_another_number_of_classes_is_allowed_with_a_new_head(
    ledger: Ledger, storage: Storage, deployment: Deployment
) -> None:
    trained(ledger, a_job())
    stored(storage, deployment, a_job())
    models = InitialModels(deployment=deployment, ledger=ledger, submitted_job=reader(storage, deployment))
    line = a_line(deployment, hyperparameters={"classes": 5, "new_head": True})
    assert artifact_of(models.resolved([line])) == ARTIFACT


def test_a_script_may_begin_with_any_model(ledger: Ledger, storage: Storage, deployment: Deployment) -> None:
    trained(ledger, a_job())
    stored(storage, deployment, a_job(tensorboard=False))
    models = InitialModels(deployment=deployment, ledger=ledger, submitted_job=reader(storage, deployment))
    script = {"source": f"s3://{SAMPLE_BUCKETS[HERE]}/s/sourcedir.tar.gz", "entry_point": "train.py"}
    assert artifact_of(models.resolved([a_line(deployment, **script)])) == ARTIFACT


def test_the_line_of_a_retry_counts_not_the_first_one(ledger: Ledger, storage: Storage, deployment: Deployment) -> None:
    trained(ledger, a_job())
    stored(storage, deployment, a_job())
    stored(storage, deployment, a_job(hyperparameters={"classes": "5"}), retry_key(TRAINED, 1))
    ledger.record_array(TRAINED, Array(batch_job="c", file="retry-1.jsonl", count=1))
    models = InitialModels(deployment=deployment, ledger=ledger, submitted_job=reader(storage, deployment))
    expected = "the hyperparameter classes is 10, and the model was trained with 5"
    assert reason(models, a_line(deployment)) == expected


def algorithm(deployment: Deployment, version: str = "1") -> Deployment:
    images = {"resnet": {"algorithm": "image-classification", "version": version}}
    return changed(deployment, images=images, instance_types=["ml.p3.16xlarge"])


@pytest.mark.parametrize(
    ("image", "given", "expected"),
    [
        ("433757028032.dkr.ecr.us-west-2.amazonaws.com/image-classification:1", {}, ""),
        (
            "433757028032.dkr.ecr.us-west-2.amazonaws.com/object-detection:1",
            {},
            "the model was trained by another program, and an algorithm only begins with a model that it has trained",
        ),
        (
            "433757028032.dkr.ecr.us-west-2.amazonaws.com/image-classification:1",
            {"num_layers": "18"},
            "the hyperparameter num_layers is 152, and the model was trained with 18",
        ),
    ],
)
def test_an_algorithm_begins_with_a_model_of_the_same_algorithm_and_network(
    deployment: Deployment, image: str, given: dict[str, str], expected: str
) -> None:
    line = replace(a_line(deployment), settings=LineSettings(hyperparameters={"num_classes": "3"}))
    job = a_job(built_in=True, image=image, hyperparameters={"num_classes": "3", **given})
    assert [one.reason for one in model_fit.unfit(line, job, algorithm(deployment))] == [expected] * bool(expected)


def test_the_defaults_to_compare_are_those_of_the_trainer() -> None:
    known = {name: model_fit._DEFAULTS[name] for name in ("model", "classes")}
    assert known == {name: str(getattr(Config(), name)) for name in known}
    assert hasattr(Config(), model_fit.NEW_HEAD)


def test_a_queued_request_that_the_channel_of_the_model_makes_too_large_is_refused(
    ledger: Ledger, deployment: Deployment
) -> None:
    trained(ledger, a_job())
    regions = {name: {"data_buckets": [bucket]} for name, bucket in SAMPLE_BUCKETS.items()}
    queues: dict[str, Any] = {HERE: {**regions[HERE], "service_queue": {"instances": 4}}}
    grid = changed(deployment, regions={**regions, **queues})

    def padded(characters: int) -> Line:
        padding = {f"X{number}": "y" * 340 for number in range(9)}
        given = {"classes": 10, "data_dir": "y" * characters}
        return a_line(grid, launch="queued", hyperparameters=given, environment=padding)

    accepted = next(number for number in range(2_500, 0, -100) if not refuses(partial(padded, number)))
    models = InitialModels(deployment=grid, ledger=ledger)
    assert models.resolved([padded(accepted - 600)])
    with pytest.raises(ManifestError) as error:
        models.resolved([padded(accepted)])
    ((field, text),) = [(one.field, one.reason) for one in error.value.errors]
    assert field == "launch"
    assert text.endswith("bytes, and a service queue accepts at most 10,240")


def refuses(parsed: Callable[[], Line]) -> bool:
    try:
        parsed()
    except ManifestError:
        return True
    return False


@pytest.fixture
def s3(aws: None) -> Any:
    client: Any = boto3.client("s3", HERE)
    client.create_bucket(Bucket=S3Uri.parse(ARTIFACT).bucket)
    return client


def test_a_command_refuses_a_model_whose_archive_was_deleted(
    ledger: Ledger, storage: Storage, deployment: Deployment, s3: Any
) -> None:
    trained(ledger, a_job())
    stored(storage, deployment, a_job())
    line, uri = a_line(deployment), S3Uri.parse(ARTIFACT)

    def models() -> InitialModels:
        archives = ModelArchives(deployment=deployment)
        return InitialModels(
            deployment=deployment, ledger=ledger, submitted_job=reader(storage, deployment), archives=archives
        )

    assert reason(models(), line) == f"its archive {ARTIFACT} does not exist any more"
    s3.put_object(Bucket=uri.bucket, Key=uri.key, Body=b"weights")
    assert models().resolved([line])


def test_an_archive_that_a_submitter_may_not_read_is_left_to_the_roles_of_the_grid(
    ledger: Ledger, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    class S3:
        def head_object(self, **_: Any) -> None:
            raise ClientError({"Error": {"Code": "403", "Message": "Forbidden"}}, "HeadObject")

    monkeypatch.setattr(model_archives, "client", lambda *_: S3())
    trained(ledger, a_job())
    archives = ModelArchives(deployment=deployment)
    assert InitialModels(deployment=deployment, ledger=ledger, archives=archives).resolved([a_line(deployment)])


def numbered(deployment: Deployment, count: int, region: str = HERE, **line: Any) -> list[Line]:
    """Return lines that begin with different models."""
    return [
        replace(a_line(deployment, region, f"{number:08x}/0", **line), number=number + 1) for number in range(count)
    ]


def test_a_file_with_too_many_models_is_refused_before_the_ledger_is_read(deployment: Deployment) -> None:
    absent: Any = None
    with pytest.raises(ManifestError) as error:
        InitialModels(deployment=deployment, ledger=absent).resolved(numbered(deployment, MAX_MODELS + 1))
    (found,) = error.value.errors
    assert found.reason == "its lines begin with 101 different models, and those of a submission with at most 100"


def test_any_number_of_lines_may_begin_with_one_model(ledger: Ledger, deployment: Deployment) -> None:
    trained(ledger, a_job())
    lines = [replace(a_line(deployment), number=number) for number in range(1, MAX_MODELS + 2)]
    assert len(InitialModels(deployment=deployment, ledger=ledger).resolved(lines)) == MAX_MODELS + 1


def test_a_file_that_needs_too_many_copies_is_refused(ledger: Ledger, deployment: Deployment) -> None:
    trained(ledger, a_job())
    item, head = ledger.job(TRAINED, 0), ledger.submission(TRAINED)
    known: Any = SimpleNamespace(submission=lambda _: head, job=lambda *_: item)
    models = InitialModels(deployment=changed(deployment, moves=True), ledger=known)
    replicas = {"us-west-2": f"s3://{SAMPLE_BUCKETS['us-west-2']}/x"}
    lines = numbered(deployment, MAX_COPIES // 2 + 1, THERE, replicas=replicas)
    assert models.resolved(lines[1:])
    with pytest.raises(ManifestError) as error:
        models.resolved(lines)
    (found,) = error.value.errors
    text = "its lines need 102 copies of models to other Regions, and those of a submission at most 100"
    assert found.reason == text


def test_a_model_that_is_too_large_is_not_copied(
    ledger: Ledger, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    class S3:
        def head_object(self, **_: Any) -> dict[str, int]:
            return {"ContentLength": MAX_COPIED_BYTES + 10**10}

    monkeypatch.setattr(model_archives, "client", lambda *_: S3())
    trained(ledger, a_job())
    moving = changed(deployment, moves=True)
    models = InitialModels(deployment=moving, ledger=ledger, archives=ModelArchives(deployment=moving))
    assert models.resolved([a_line(deployment)])
    text = "its archive has 60 GB, and models of at most 50 GB are copied to another Region"
    assert reason(models, a_line(deployment, THERE)) == text


def test_the_residency_of_a_model_becomes_that_of_the_line(ledger: Ledger, deployment: Deployment) -> None:
    trained(ledger, a_job(), residency=["us"])
    models = InitialModels(deployment=deployment, ledger=ledger)
    lines = [a_line(deployment), a_line(deployment, residency=["us-east-1", "eu"])]
    resolved = [line.settings.residency for line in models.resolved(lines)]
    assert resolved == [("us",), ("us-east-1",)]


def test_the_intake_refuses_a_copy_out_of_a_residency_that_was_passed_on(
    ledger: Ledger, deployment: Deployment
) -> None:
    """The intake reads no lines of other submissions, so the ledger has the residency that they have passed on."""
    trained(ledger, a_job(), residency=["us"])
    models = InitialModels(deployment=changed(deployment, moves=True), ledger=ledger)
    found = reason(models, a_line(deployment, THERE))
    assert found == f"the model is in {HERE}, and its line allows the data only in us, not in {THERE}"
    assert models.resolved([a_line(deployment, "us-west-2")])


def test_models_are_found_by_their_keys_in_a_ledger_of_any_size(
    table: ModelTable, ledger: Ledger, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(ledger, a_job())
    read: list[object] = []
    get = table.get

    def recorded(*key: Any) -> Any:
        read.append(key)
        return get(*key)

    monkeypatch.setattr(table, "get", recorded)
    for other in ("scan", "query", "everything"):
        monkeypatch.setattr(table, other, None)
    lines = [replace(a_line(deployment), number=number) for number in (1, 2)]
    assert InitialModels(deployment=deployment, ledger=ledger).resolved(lines)
    assert read == [(TRAINED, "submission"), (TRAINED, "job#00000")]


def merge_of(deployment: Deployment, method: str) -> Job:
    """Return the job of a merge of two models with 10 classes, in a grid whose default is 1,000 classes."""
    parts = [
        Model(submission=TRAINED, job=a_job(index=index), archive=S3Uri("output", f"{index}/model.tar.gz"))
        for index in range(2)
    ]
    request = MergeRequest(method=method, data=f"s3://{SAMPLE_BUCKETS[HERE]}/all")  # type: ignore[arg-type]  # a method
    grid = changed(deployment, instance_types=["ml.m5.xlarge"])
    folder = S3Uri(SAMPLE_BUCKETS[HERE], "merges/0")
    made = merge_line(parts, request, folder, 10**6, region=HERE, local=parts[0], deployment=grid)
    (line,) = parse(json.dumps(made).encode(), grid)
    return job_of_line(line, 0, grid, TRAINED)


@pytest.mark.parametrize(
    ("method", "line", "expected"),
    [
        ("average", {}, []),
        (
            "average",
            {"hyperparameters": {"classes": 5}},
            ["the hyperparameter classes is 5, and the model was trained with 10"],
        ),
        (
            "ensemble",
            {},
            ["the model is a merge with the method ensemble, and this line's program begins with one network"],
        ),
        (
            "parts",
            {},
            ["the model is a merge with the method parts, and this line's program begins with one network"],
        ),
    ],
)
def test_a_line_may_begin_with_an_average_of_its_own_network(
    deployment: Deployment, method: str, line: dict[str, Any], expected: list[str]
) -> None:
    job = merge_of(deployment, method)
    assert [one.reason for one in model_fit.unfit(a_line(deployment, **line), job, deployment)] == expected
