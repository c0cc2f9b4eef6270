"""Series: commands that compare jobs accept a sweep or rounds by its name."""

from types import SimpleNamespace

import pytest

from tests.support.local_page import LocalGrid
from tests.support.local_rounds import train_rounds
from traingrid.api.control_plane import ControlPlane
from traingrid.api.rounds_timeline import rounds_state, timeline
from traingrid.api.series import compared_submissions
from traingrid.errors import UsageError
from traingrid.ledger.ledger import Ledger
from traingrid.submission.journal import Begun, Submitted


@pytest.fixture
def local(ledger: Ledger) -> LocalGrid:
    return LocalGrid(ledger)


def test_rounds_are_compared_by_their_global_models(local: LocalGrid) -> None:
    train_rounds(local, [0.5, 0.75])
    assert compared_submissions(local.plane, "rounds:cells") == ["bbbb0001", "bbbb0002"]


def test_a_sweep_is_compared_by_all_trials(local: LocalGrid) -> None:
    bucket = local.deployment.manifest_bucket
    entries = [Begun(spec={}), Submitted(batch=1, submission="00000001"), Submitted(batch=3, submission="00000002")]
    for number, entry in enumerate(entries):
        local.storage.objects[f"s3://{bucket}/sweeps/rates/{number:06d}.json"] = entry.model_dump_json().encode()
    assert compared_submissions(local.plane, "sweep:rates") == ["00000001", "00000002"]


@pytest.mark.parametrize("name", ["sweep:rates", "rounds:cells"])
def test_a_name_that_does_not_exist_is_refused(local: LocalGrid, name: str) -> None:
    with pytest.raises(UsageError, match="This grid has no"):
        compared_submissions(local.plane, name)


def test_rounds_without_a_merge_cannot_be_compared(local: LocalGrid) -> None:
    train_rounds(local, [])
    with pytest.raises(UsageError, match="rounds:cells has no merge yet"):
        compared_submissions(local.plane, "rounds:cells")


def test_an_id_is_that_of_a_submission(local: LocalGrid) -> None:
    local.submit(["a"])
    assert compared_submissions(local.plane, "0123") == ["0123abcd"]


def test_the_timeline_has_the_jobs_of_the_ledger(local: LocalGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    train_rounds(local, [0.5])
    in_batch = SimpleNamespace(of=lambda *_, **__: {}, state=lambda *_: "")
    monkeypatch.setattr(ControlPlane, "children", in_batch)
    first, second = timeline(local.plane, rounds_state(local.plane, "cells"))
    assert {(part.state, part.seconds, part.own_top1) for part in first.parts} == {("Completed", 300.0, 0.99)}
    assert first.merging is not None
    assert (first.merging.state, first.merging.seconds) == ("Completed", 60.0)
    assert [part.state for part in second.parts] == ["InProgress", "InProgress", "Pending", "Pending"]
