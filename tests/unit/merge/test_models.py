"""The models of a merge: the ledger shows before any cost which jobs cannot be merged."""

from dataclasses import replace

import pytest

from tests.support.sample_job import sample_job
from tests.unit.merge.conftest import Make
from traingrid.errors import UsageError
from traingrid.job.state import JobState
from traingrid.merge import models as merge_models
from traingrid.merge.models import check_method, models_of
from traingrid.submission.status import UNREADABLE, JobStatus
from training_container.recipe.config import Config

JOBS = {index: sample_job("us-east-1", index) for index in (0, 1, 2)}


def status(index: int, state: JobState = JobState.COMPLETED) -> JobStatus:
    artifact = f"s3://output/{index}/model.tar.gz" if state == JobState.COMPLETED else ""
    return JobStatus(index=index, region="us-east-1", name=f"job-{index}", state=state, artifact=artifact)


COMPLETE = [status(index) for index in JOBS]


def test_all_jobs_of_a_submission_are_merged_by_default_and_each_once() -> None:
    assert [model.job.index for model in models_of("0a1b2c3d", COMPLETE, JOBS, [])] == [0, 1, 2]
    assert [model.job.index for model in models_of("0a1b2c3d", COMPLETE, JOBS, [2, 0, 2])] == [2, 0]


@pytest.mark.parametrize(
    ("statuses", "indexes", "expected"),
    [
        (COMPLETE, [0, 3], "Submission 0a1b2c3d has no job with index 3. Its indexes are 0 to 2."),
        (COMPLETE, [1], "A merge needs at least two models, and 0a1b2c3d has one job to merge."),
        (
            [*COMPLETE[:2], status(2, JobState.FAILED)],
            [],
            "Job 2 of 0a1b2c3d has no model: the job is Failed. Name the jobs to merge; completed are: 0 1.",
        ),
        ([*COMPLETE[:2], replace(COMPLETE[2], artifact="")], [], "Job 2 of 0a1b2c3d has no model: the job is "),
    ],
)
def test_a_job_without_a_model_is_named(statuses: list[JobStatus], indexes: list[int], expected: str) -> None:
    with pytest.raises(UsageError) as error:
        models_of("0a1b2c3d", statuses, JOBS, indexes)
    assert str(error.value).startswith(expected)


DAMAGE = "The ledger's item (submission '0a1b2c3d', item 'job#00002') has no field 'region'."


def test_a_damaged_job_is_named_and_does_not_matter_to_a_merge_without_it() -> None:
    damaged = replace(status(2, JobState.PENDING), phase=UNREADABLE, reason=DAMAGE)
    with pytest.raises(UsageError, match="Job 2 of 0a1b2c3d has no model that is known") as error:
        models_of("0a1b2c3d", [*COMPLETE[:2], damaged], JOBS, [])
    assert DAMAGE in str(error.value)
    assert len(models_of("0a1b2c3d", [*COMPLETE[:2], damaged], JOBS, [0, 1])) == 2


def test_a_job_whose_line_cannot_be_read_is_named() -> None:
    with pytest.raises(UsageError, match="The line of job 2 of 0a1b2c3d cannot be read"):
        models_of("0a1b2c3d", COMPLETE, {0: JOBS[0], 1: JOBS[1]}, [])


def test_a_whole_number_is_the_same_in_both_of_its_forms(model: Make) -> None:
    forms = ({"classes": "10", "seed": "3"}, {"classes": "10.0", "seed": " 3. "})
    models = [model(index, hyperparameters=form) for index, form in enumerate(forms)]
    check_method(models, "average")
    assert merge_models.shape_of(models[0]) == merge_models.shape_of(models[1])


@pytest.mark.parametrize("method", ["average", "ensemble", "parts"])
def test_equal_jobs_can_be_merged(model: Make, method: merge_models.Method) -> None:
    given = {"hyperparameters": {"seed": "0", "epochs": "5"}}
    check_method([model(0), model(1, "eu-west-1", **given)], method)  # 0 is the default of seed


@pytest.mark.parametrize(
    ("method", "fields", "expected"),
    [
        ("average", {"hyperparameters": {"model": "resnet20"}}, "The hyperparameter model of job 1 is resnet20, "),
        ("average", {"hyperparameters": {"seed": "1"}}, "The hyperparameter seed of job 1 is 1, that of job 0 0."),
        ("ensemble", {"hyperparameters": {"classes": "5"}}, "The hyperparameter classes of job 1 is 5, that of job 0 "),
        ("average", {"launcher": "torchrun"}, "Job 1 trained a network of PyTorch, and not a network of the "),
        ("ensemble", {"source": "s3://x/a.tar.gz", "entry_point": "train.py"}, "Job 1 trained the script train.py, "),
        ("average", {"built_in": True}, "Job 1 trained a SageMaker algorithm, and not a network of the "),
    ],
)
def test_models_that_differ_are_named(
    model: Make, method: merge_models.Method, fields: dict[str, object], expected: str
) -> None:
    with pytest.raises(UsageError) as error:
        check_method([model(0), model(1, **fields)], method)
    assert str(error.value).startswith(expected)


def test_scripts_from_different_models_are_joined_as_files(model: Make) -> None:
    script = {"source": "s3://x/a.tar.gz", "entry_point": "train.py"}
    with pytest.raises(UsageError, match=r"their init_from differs\. Use --method parts, or train them from a common"):
        check_method([model(0, **script), model(1, **script, init_from="0a1b2c3d/0")], "weights")


def test_an_ensemble_may_have_other_networks_and_seeds(model: Make) -> None:
    check_method([model(0), model(1, hyperparameters={"model": "resnet20", "seed": "7"})], "ensemble")


def test_the_files_of_any_program_can_be_joined(model: Make) -> None:
    check_method([model(0, source="s3://x/a.tar.gz"), model(1, built_in=True)], "parts")


def test_the_defaults_are_those_of_the_trainer() -> None:
    known = {**merge_models._SHAPE, **merge_models._OUTPUT, **merge_models._SEED}
    assert {name: str(getattr(Config(), name)) for name in known} == known
