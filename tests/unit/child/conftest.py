import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.copies import CONTENT, SOURCE, TARGET, TARGET_REGION, two_buckets, upload
from tests.support.sample_deployment import sample_deployment
from tests.support.sample_job import sample_job
from traingrid.grid.deployment import Deployment
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


@pytest.fixture
def environment(deployment: Deployment) -> dict[str, str]:
    """The variables of the last child of an array of four, which has a manifest that was submitted by hand."""
    return {
        "TRAINGRID_GRID": deployment.grid.to_environment(),
        "TRAINGRID_ACCOUNT": deployment.account,
        "TRAINGRID_TABLE": deployment.table,
        "TRAINGRID_MANIFEST_BUCKET": deployment.manifest_bucket,
        "S3_ARRAY_FILE": f"s3://{deployment.manifest_bucket}/by-hand/x.csv",
        "AWS_BATCH_JOB_ID": "11111111-2222:3",
        "AWS_BATCH_JOB_ARRAY_INDEX": "3",
        "AWS_BATCH_JOB_ARRAY_SIZE": "4",
    }


@pytest.fixture(autouse=True)
def _process_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    previous = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, previous)
