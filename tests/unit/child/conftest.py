from typing import Any

import pytest

from tests.support.copies import CONTENT, SOURCE, TARGET, TARGET_REGION, two_buckets, upload
from tests.support.sample_deployment import sample_deployment
from tests.support.sample_job import sample_job
from traingrid.job.job import Job
from traingrid.ledger.moves import Moves
from verification.model.table import ModelTable


@pytest.fixture
def s3(aws: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """S3 with the data of a line in another Region."""
    client = two_buckets(monkeypatch)
    upload(client, CONTENT)
    return client


@pytest.fixture
def moves(table: ModelTable, monkeypatch: pytest.MonkeyPatch) -> Moves:
    monkeypatch.setattr("traingrid.ledger.moves.Table", lambda *_: table)
    return Moves(sample_deployment().table)


@pytest.fixture
def moving() -> Job:
    """A job whose data is copied first."""
    return sample_job(TARGET_REGION).model_copy(update={"copy_from": str(SOURCE), "copy_to": str(TARGET)})
