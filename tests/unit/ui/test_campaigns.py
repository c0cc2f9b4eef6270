"""Campaigns: the page shows the campaign of each job and the planned copies, and marks a catalog that fails."""

from typing import Any

import pytest

from tests.support.local_page import MANIFEST, SUBMISSION, LocalGrid
from traingrid.catalog.campaign_facts import CampaignFacts, CampaignReplica
from traingrid.errors import TraingridError
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.ledger.moves import MoveItem, Moves
from traingrid.ui.campaigns import Campaigns
from traingrid.ui.view import LedgerView

FAR = "s3://ragab-ml-fra/far"
FACTS = CampaignFacts(
    places={
        "s3://ragab-ml/campaign-0": CampaignReplica(region="us-east-1", campaign="oslo", bytes=None),
        "s3://ragab-ml-pdx": CampaignReplica(region="us-west-2", campaign="rome", bytes=None),
        FAR: CampaignReplica(region="eu-central-1", campaign="oslo", bytes=2 * 2**30),
    },
    runs={"oslo": (3, 1.5)},
    transfer_prices={("eu-central-1", "eu-west-1"): 0.02},
)


@pytest.fixture(autouse=True)
def moves(local: LocalGrid, monkeypatch: pytest.MonkeyPatch) -> Moves:
    """The copies of a ledger in memory."""
    monkeypatch.setattr("traingrid.ledger.moves.Table", lambda *_: local.ledger._table)
    return Moves("ledger")


def read(local: LocalGrid, facts: CampaignFacts | None = FACTS) -> dict[str, Any] | None:
    view = LedgerView(local.plane)
    view.read_all()
    campaigns = Campaigns(local.plane, view, lambda: facts, lambda: None)
    campaigns.read()
    return campaigns.value


def submitted_with_copy(local: LocalGrid) -> list[Job]:
    """Submit two jobs; the data of the second is copied from far away."""
    jobs = local.submit(["night", "day"])
    changes = {"region": "eu-west-1", "copy_from": FAR, "copy_to": "s3://ragab-ml-dub/copies/far"}
    jobs[1] = jobs[1].model_copy(update=changes)
    file = f"s3://{local.deployment.manifest_bucket}/submissions/{SUBMISSION}/jobs.jsonl"
    local.storage.objects[file] = b"".join(f"{job.model_dump_json()}\n".encode() for job in jobs)
    return jobs


def test_each_job_has_the_campaign_of_the_replica_that_contains_its_data(local: LocalGrid) -> None:
    local.submit(["night", "day", "other"])
    local.submit(["alone"], submission="00000002")
    value = read(local)
    assert value is not None
    assert value["names"] == ["oslo", "rome"]
    assert value["jobs"] == {SUBMISSION: [0, 1, -1], "00000002": 0}
    assert value["runs"] == {"oslo": {"runs": 3, "dollars": 1.5}}


def test_a_submission_whose_lines_cannot_be_read_has_no_campaign(local: LocalGrid) -> None:
    local.ledger.claim_submission(SUBMISSION, "request", {"jobs": 2, "manifest": MANIFEST})
    local.ledger.record_submitted(SUBMISSION, "array")
    value = read(local)
    assert value is not None
    assert (value["jobs"], value["error"]) == ({SUBMISSION: -1}, "")


def test_an_ended_submission_has_the_campaigns_of_its_runs_without_a_read_of_its_lines(local: LocalGrid) -> None:
    (job,) = local.submit(["night"])
    local.open(job, state=JobState.COMPLETED)
    local.storage.objects.clear()
    value = read(local, CampaignFacts(jobs={SUBMISSION: {0: "rome"}}))
    assert value is not None
    assert (value["names"], value["jobs"]) == (["rome"], {SUBMISSION: 0})


def test_a_copy_is_planned_then_copying_and_not_shown_after_the_end_of_its_jobs(local: LocalGrid, moves: Moves) -> None:
    jobs = submitted_with_copy(local)
    (planned,) = (read(local) or {})["moves"]
    assert (planned["campaign"], planned["from"], planned["to"]) == ("oslo", "eu-central-1", "eu-west-1")
    assert (planned["state"], planned["bytes"], planned["dollars"], planned["jobs"]) == ("planned", 2 * 2**30, 0.04, 1)
    item = MoveItem(
        target=jobs[1].copy_to, source=FAR, region="eu-west-1", from_region="eu-central-1", bytes=400, copied_bytes=100
    )
    assert moves.add(item)
    (copying,) = (read(local) or {})["moves"]
    assert (copying["state"], copying["percent"], copying["bytes"]) == ("copying", 25, 400)
    local.open(jobs[1], state=JobState.COMPLETED)
    assert (read(local) or {})["moves"] == []


def test_a_grid_without_a_catalog_has_no_campaigns(local: LocalGrid) -> None:
    local.submit(["night"])
    assert read(local, None) is None


@pytest.mark.parametrize("error", [TraingridError("It does not answer."), RuntimeError("It does not answer.")])
def test_a_catalog_that_fails_keeps_the_last_campaigns_and_recovers(local: LocalGrid, error: Exception) -> None:
    local.submit(["night"])
    view = LedgerView(local.plane)
    view.read_all()
    answers: list[CampaignFacts | Exception] = [FACTS, error, FACTS]

    def read_facts() -> CampaignFacts:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    campaigns = Campaigns(local.plane, view, read_facts, lambda: None)
    errors = []
    for _ in range(3):
        campaigns.read()
        assert campaigns.value is not None
        assert campaigns.value["names"] == ["oslo"]
        errors.append("It does not answer." in campaigns.value["error"])
    assert errors == [False, True, False]
