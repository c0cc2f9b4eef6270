"""A spot job that is interrupted twice, with its child as a separate process."""

import sys
import zlib
from contextlib import suppress

import pytest

from localcloud.ecr import process_images
from localcloud.faults.plan import FaultPlan, SpotCapacity
from localcloud.server.local_cloud import LocalCloud
from tests.integration.control_plane.account import HOME, Account
from tests.integration.control_plane.child_process import Line, created, ended
from tests.integration.localcloud.compute import wait_until
from tests.support.sample_job import sample_job
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.main import cli

# Each epoch extends the checkpoint; the first two runs wait in their second epoch for the interruption.
SCRIPT = """
import os, pathlib, time
base = pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"])
checkpoint = base / "checkpoints/epochs"
begin = len(checkpoint.read_text()) if checkpoint.exists() else 0
print(f"resumed after {begin} epochs", flush=True)
for epoch in range(begin, 3):
    if epoch > begin:
        time.sleep(600)
    print(f"epoch={epoch + 1}", flush=True)
    checkpoint.write_text("x" * (epoch + 1))
(base / "model/weights").write_text("trained")
"""


@pytest.mark.usefixtures("commanded")
def test_an_interrupted_job_resumes_and_its_line_completes_in_one_attempt(
    cloud: LocalCloud, account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    ecr = client("ecr", HOME)
    with suppress(ecr.exceptions.RepositoryAlreadyExistsException):
        ecr.create_repository(repositoryName="resumes")
    command = (sys.executable, "-c", SCRIPT)
    process_images.push(ecr, "resumes", "v1", process_images.ProcessImage(command=command))
    account.storage.write(S3Uri(account.data(HOME), "x/shard"), b"x", "application/x")
    job = sample_job(HOME)
    spot = {"spot": True, "max_wait_seconds": 1200, "checkpoints": f"s3://{account.data(HOME)}/checkpoints/"}
    image = {"image": job.image.replace("traingrid/training", "resumes"), "metrics": {"epoch": "epoch=([0-9]+)"}}
    line = Line(account, f"{zlib.crc32(b'interrupted'):08x}", job.model_copy(update=spot | image))
    child = line.child()
    for epoch in (1, 2):
        wait_until(lambda epoch=epoch: known_epoch(line) == epoch)  # type: ignore[misc]  # mypy infers no type for it
        cloud.faults.set(FaultPlan(spot=(SpotCapacity(trace=((0.0, False),)),)))
        wait_until(lambda: line.item().phase == "Interrupted")
        assert line.state() == "InProgress"
        cli.main(["status", line.submission], standalone_mode=False)
        assert "Interrupted" in capsys.readouterr().out
        cloud.faults.set(FaultPlan())
    code, output = ended(child)
    assert code == 0, output
    item = line.item()
    assert (item.state, item.attempt, len(created(cloud, line))) == ("Completed", 1, 1)
    assert [text for text in ("0", "1", "2") if f"resumed after {text} epochs" in output] == ["0", "1", "2"]
    assert 0 < item.billable_seconds < item.training_seconds


def known_epoch(line: Line) -> int:
    """Return the last epoch that the ledger has; 0 before the first."""
    item = line.account.ledger.job(line.submission, 0)
    return int((item.progress or {}).get("epoch", 0)) if item else 0
