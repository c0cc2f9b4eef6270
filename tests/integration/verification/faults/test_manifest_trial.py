"""Manifest trials: every kind of parser defect is detected."""

import random
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, given, seed, settings

from tests.support.sample_deployment import SAMPLE, SAMPLE_BUCKETS, sample_deployment
from traingrid.manifest import parse as manifest
from traingrid.manifest.errors import LineError, ManifestError
from verification.faults import generated_manifests, manifest_trial
from verification.faults.agreement import disagreements
from verification.faults.generated_manifests import Form, Manifest
from verification.faults.manifest_trial import Trial
from verification.faults.memory_growth import MemoryGrowth

DEPLOYMENT = sample_deployment()


@pytest.fixture
def trial() -> Trial:
    return Trial(deployment=DEPLOYMENT, chance=random.Random(1), keep=3)


def test_correct_outcomes_are_counted_and_sampled(trial: Trial) -> None:
    for number in range(10):
        assert trial.parse(f"us-east-1,s3://ragab-ml/{number}\n".encode())
        assert trial.parse(b"us-east-9,s3://ragab-ml/x\n") is None
    assert trial.wrong == []
    assert trial.outcomes == {"accepted": 10, "rejected": 10}
    assert len(trial.accepted) == len(trial.rejected) == 3


def rejects_with(**changes: Any) -> Any:
    error = LineError(line=1, field="region", value="", reason="it is wrong", next_step="Correct it.")

    def parse(*_: Any) -> Any:
        raise ManifestError([replace(error, **changes)])

    return parse


def crashes(*_: Any) -> Any:
    raise KeyError("region")


@pytest.mark.parametrize(
    "parse",
    [
        crashes,
        *(rejects_with(**wrong) for wrong in ({"next_step": "no sentence"}, {"reason": ""}, {"field": ""})),
        rejects_with(line=0),
        rejects_with(value="\x1b[31m"),
        lambda *_: [],
    ],
)
def test_a_defective_parser_is_reported(trial: Trial, monkeypatch: pytest.MonkeyPatch, parse: Any) -> None:
    monkeypatch.setattr(manifest, "parse", parse)
    trial.parse(SAMPLE.encode())
    assert [violation.invariant for violation in trial.wrong] == ["I7"]


def test_a_slow_parser_is_reported(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_trial, "SECONDS", 0.0)
    trial.parse(SAMPLE.encode())
    assert "takes" in trial.wrong[0].what


@pytest.mark.parametrize("form", generated_manifests.FORMS)
def test_every_field_of_a_manifest_is_compared_with_its_parsed_value(form: Form) -> None:
    line: dict[str, Any] = {"region": "us-east-1", "s3_uri": "s3://ragab-ml/x", "name": "one"}
    if form != "plain":
        line |= {"hyperparameters": {"a": 1.5}, "retries": 2, "spot": True, "max_runtime": "2d", "metrics": ["loss"]}
    made = Manifest(content=generated_manifests.WRITERS[form]([line]), form=form, lines=[line], damaged=False)
    lines = manifest.parse(made.content, DEPLOYMENT)
    assert list(disagreements(made, lines, DEPLOYMENT)) == []
    others: dict[str, Any] = {"region": "eu-west-1", "s3_uri": "s3://ragab-ml/y", "name": "two", "retries": 3}
    others |= {"hyperparameters": {"a": 2}, "spot": False, "max_runtime": "1h", "metrics": ["lass", "loss"]}
    for name in line:
        if (name, form) == ("metrics", "csv"):  # a cell with several words is not compared
            continue
        other = Manifest(content=made.content, form=form, lines=[{**line, name: others[name]}], damaged=False)
        assert len(list(disagreements(other, lines, DEPLOYMENT))) == 1, name
    assert list(disagreements(replace(made, lines=[line, line]), lines, DEPLOYMENT))


def test_manifests_of_every_form_are_generated_and_some_are_accepted() -> None:
    made_up, accepted = set[tuple[Form, bool]](), set[Form]()

    # Hypothesis derives examples from constants of all loaded modules too, so a seed alone does not repeat them.
    @seed(1)
    @settings(max_examples=1500, database=None, deadline=None, phases=[Phase.generate])
    @given(generated_manifests.manifests(SAMPLE_BUCKETS))
    def note(made: Manifest) -> None:
        made_up.add((made.form, made.damaged))
        with suppress(ManifestError):
            manifest.parse(made.content, DEPLOYMENT)
            accepted.add(made.form)

    note()
    assert made_up == {(form, damaged) for form in generated_manifests.FORMS for damaged in (False, True)}
    assert accepted == set(generated_manifests.FORMS)


def test_memory_growth_is_measured_at_the_peak() -> None:
    with MemoryGrowth() as memory:
        held = bytearray(b"x" * 64 * 2**20)
        del held
    assert 60 < memory.mib < 200
