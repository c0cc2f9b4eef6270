"""Hyperparameters of the page: those in which the jobs of a submission or a sweep differ."""

import pytest

from tests.support.local_page import SUBMISSION, LocalGrid
from traingrid.errors import UsageError
from traingrid.submission.journal import Begun
from traingrid.ui import hyperparameters as module
from traingrid.ui.hyperparameters import hyperparameters

OBJECTIVE = {"metric": "accuracy", "direction": "maximize"}


def manifest(local: LocalGrid, key: str) -> str:
    return f"s3://{local.deployment.manifest_bucket}/manifests/{key}"


def test_only_hyperparameters_that_differ_are_returned(local: LocalGrid) -> None:
    local.submit(["a", "b", "c"], line={"hp.rate": "0.{index}", "hp.epochs": "20"})
    answer = hyperparameters(local.plane, [SUBMISSION])
    assert answer["names"] == ["rate"]
    assert answer["jobs"] == {f"{SUBMISSION}/{index}": [f"0.{index}"] for index in range(3)}
    assert (answer["left_out"], answer["objective"]) == (0, None)


def test_a_job_without_a_value_differs_from_one_with_it(local: LocalGrid) -> None:
    local.submit(["a"], line={"hp.rate": "1"})
    local.submit(["b"], submission="89abcdef")
    answer = hyperparameters(local.plane, [SUBMISSION, "89abcdef"])
    assert answer["names"] == ["rate"]
    assert answer["jobs"] == {f"{SUBMISSION}/0": ["1"], "89abcdef/0": [None]}


def test_a_sweep_has_the_objective_of_its_journal(local: LocalGrid) -> None:
    for number, submission in enumerate(("00000001", "00000002")):
        uri = manifest(local, f"sweeps/rates/{number:06d}-abc.jsonl".replace("jsonl", "csv"))
        local.submit(["a"], submission=submission, line={"hp.rate": f"{number}"}, manifest=uri)
    answer = hyperparameters(local.plane, ["00000001", "00000002"])
    assert (answer["names"], answer["objective"]) == (["rate"], None)
    journal = f"s3://{local.deployment.manifest_bucket}/sweeps/rates/000000.json"
    local.storage.objects[journal] = Begun(spec={"objective": OBJECTIVE}).model_dump_json().encode()
    assert hyperparameters(local.plane, ["00000001", "00000002"])["objective"] == OBJECTIVE
    local.storage.objects[journal] = b"{}"
    answer = hyperparameters(local.plane, ["00000001", "00000002"])
    assert (answer["names"], answer["objective"]) == (["rate"], None)


def test_many_names_and_jobs_have_limits(local: LocalGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    local.submit(["a", "b"], line={f"hp.p{number}": "{index}" for number in range(200 // 4)})
    answer = hyperparameters(local.plane, [SUBMISSION])
    assert (len(answer["names"]), answer["left_out"]) == (40, 10)
    monkeypatch.setattr(module, "MOST_JOBS", 1)
    with pytest.raises(UsageError, match="have 2 jobs"):
        hyperparameters(local.plane, [SUBMISSION])
    with pytest.raises(UsageError, match="501 submissions were given"):
        hyperparameters(local.plane, [f"{number:08x}" for number in range(501)])
